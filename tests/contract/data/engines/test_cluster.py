"""Spark as a cluster: a master and two workers, processes of their own on the loopback interface.

A process has one Spark, so what is asked of the cluster is in `on_cluster.py`, which runs apart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

JAVA = os.environ["SPARK_SUBMIT_OPTS"]  # those of tests, for what is not the driver
SETTINGS = f"""\
spark.executor.memory 512m
spark.executor.extraJavaOptions {JAVA}
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.sql.shuffle.partitions 4
"""
HERE = Path(__file__).parent


class Cluster:
    """Processes of Spark's own, and what a driver must know of them."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home, self._stack = home, stack
        for folder in ("settings", "scratch", "work"):
            (home / folder).mkdir()
        (home / "settings/spark-defaults.conf").write_text(SETTINGS)
        self.environment = os.environ | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(home / "settings"),
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA,
            "PYSPARK_PYTHON": sys.executable,
        }
        port = _free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._start("master.Master", "--port", str(port))
        _wait_for(port)
        sizes = ("--cores", "1", "--memory", "512m", "--work-dir", str(home / "work"))
        self.workers = [self._start("worker.Worker", *sizes, self.master) for _ in range(2)]

    def _start(self, role: str, *options: str) -> int:
        """Start a daemon, with whatever it starts in its process group."""
        import pyspark

        command = [str(Path(pyspark.__file__).parent / "bin/spark-class")]
        command += [f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1", "--webui-port", "0"]
        process = subprocess.Popen(
            [*command, *options],
            env=self.environment | {"SPARK_LOCAL_DIRS": str(self.home / "work")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._stack.callback(_end, process)
        return process.pid

    def run(self, selection: str) -> int:
        """Run what is asked of the cluster; nothing of it is left in the driver's scratch.

        Returns how many tests passed: one that skips would else look like one that holds.
        """
        scratch = self.home / "scratch"
        cluster = {"master": self.master, "workers": self.workers}
        tests, keep = str(HERE / "on_cluster.py"), str(self.home / "tests")
        options = ["-k", selection, "--basetemp", keep, tests]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options],
            env=self.environment
            | {
                "SFUMATO_CLUSTER": json.dumps(cluster),
                "TMPDIR": str(scratch),
                "SPARK_LOCAL_DIRS": str(scratch),
            },
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        until = time.monotonic() + 60
        while list(scratch.iterdir()) and time.monotonic() < until:
            time.sleep(0.1)  # Java clears up when Python has ended
        assert list(scratch.iterdir()) == []
        assert "skipped" not in done.stdout, done.stdout
        passed = re.search(r"(\d+) passed", done.stdout)
        return int(passed[1]) if passed else 0


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int) -> None:
    until = time.monotonic() + 120
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < until, "the master does not listen"
        time.sleep(0.1)


def _end(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        pytest.skip("no Spark: no Java runtime (install a headless Java 17)")
    pytest.importorskip("pyspark", reason="no Spark: pyspark is not installed")
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.mark.slow
def test_spark_cluster_answers_as_duckdb_and_loses_a_worker(cluster: Cluster) -> None:
    assert cluster.run("not TestCluster and not no_worker_is_left") == 4


@pytest.mark.slow
def test_spark_cluster_keeps_the_contract_and_loses_all_workers(cluster: Cluster) -> None:
    assert cluster.run("TestCluster or worker") >= 20
