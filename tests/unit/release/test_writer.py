"""A release is written whole or not at all, whatever happens at whichever step of the writing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from sqlglot import exp

from sfumato.data.engines.base import FolderTarget
from sfumato.data.engines.kinds import kinds_of
from sfumato.data.files.writers import write_folder
from sfumato.errors import OutputError, SfumatoError, SourceError
from sfumato.filesystem import MARK, sweep
from sfumato.release.engine_tables import EngineRows
from sfumato.release.output import Output
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.release.sidecar import holder_file, sidecar_file
from sfumato.release.writer import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.data.engines.base import Engine

OLD = pa.table({"n": ["old"]})
NEW = pa.table({"n": ["new", "newer"]})


def release(table: pa.Table, **further: pa.Table) -> Release:
    return Release(
        tables={"n": table, **further},
        guarantee=Guarantee("syntactic", "Nobody stands out.", {"k": 2}),
        provenance=Provenance("optimal", {"k": 2}, "ab" * 32),
        error={"loss": 0.5},
        holder={"figures": {"rows": table.num_rows}},
    )


def one_file(folder: Path, table: pa.Table, *, overwrite: bool) -> None:
    release(table).save(folder / "out.csv", overwrite=overwrite)


def new_folder(folder: Path, table: pa.Table, *, overwrite: bool) -> None:
    """As anonymize writes an anatomy: a folder, replaced whole."""
    path = folder / "out"
    with writing(path, several=True, replace=True, overwrite=overwrite) as writer:
        for name in ("quasi", "sensitive"):
            writer.table(name, f"{name}.csv", table.to_reader(), kinds_of(table.schema))
        writer.beside(folder / "pages" / "page.html", b"a page", private=True)
        writer.write_sidecars(release(table))


def into_folder(folder: Path, table: pa.Table, *, overwrite: bool) -> None:
    """As a release with several tables is saved where there is a folder: beside what is there."""
    with writing(folder / "out", several=True, overwrite=overwrite) as writer:
        for name in ("quasi", "sensitive"):
            writer.table(name, f"{name}.csv", table.to_reader(), kinds_of(table.schema))
        writer.write_sidecars(release(table))


class PartsEngine:
    """An engine that has one table, and writes nothing but folders."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def write(self, _query: exp.Query, target: FolderTarget) -> None:
        write_folder("Test", self._table.to_reader, target, overwrite=False)


def folder_of_parts(folder: Path, table: pa.Table, *, overwrite: bool) -> None:
    """As an engine writes a release: a folder of Parquet files, replaced whole."""
    output = Output(FolderTarget(str(folder / "out")))
    engine = cast("Engine", PartsEngine(table))
    with writing(output, replace=True, overwrite=overwrite) as writer:
        writer.rows("n", EngineRows(engine, exp.select("n"), kinds_of(table.schema), {}))
        writer.beside(folder / "pages" / "page.html", b"a page", private=True)
        writer.write_sidecars(release(table))


def a_map(folder: Path, table: pa.Table, *, overwrite: bool) -> None:
    """As boxes are drawn: a file that is no table."""
    with writing(folder / "out.geojson", overwrite=overwrite) as writer:
        writer.text("out.geojson", json.dumps(table.to_pylist()))
        writer.write_sidecars(replace(release(table), tables={}, holder=None))


KINDS = {one.__name__: one for one in (one_file, new_folder, into_folder, folder_of_parts, a_map)}


def path_of(folder: Path) -> Path:
    return next(
        (folder / name for name in ("out.csv", "out.geojson") if (folder / name).exists()),
        folder / "out",
    )


def prepared(folder: Path, kind: str, *, overwrite: bool) -> Path:
    """A folder with or without an older release."""
    (folder / "pages").mkdir(parents=True)
    if kind == "into_folder":
        (folder / "out").mkdir()
        (folder / "out" / "notes.txt").write_text("mine")
    if overwrite:
        KINDS[kind](folder, OLD, overwrite=False)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that is no scratch."""
    return {
        str(one.relative_to(folder)): one.read_bytes()
        for one in folder.rglob("*")
        if one.is_file() and MARK not in str(one)
    }


def scratch(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*") if one.name.endswith(MARK)]


class Steps:
    """Counts what the system is asked to do in a folder, and has something happen at one step."""

    def __init__(self) -> None:
        self.folder, self.events, self.left = "", frozenset[str](), -1
        self.happens: Callable[[], None] = lambda: None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, details: tuple[object, ...]) -> None:
        if self.left < 0 or event not in self.events:
            return
        if event == "open" and self.events is WRITES and not int(str(details[2])) & os.O_ACCMODE:
            return  # nobody reads a disk full
        if threading.current_thread() is threading.main_thread() and self._is_here(details):
            self.left -= 1
            if self.left < 0:
                self.happens()

    def _is_here(self, details: tuple[object, ...]) -> bool:
        return any(self.folder in os.fsdecode(one) for one in details if isinstance(one, str))

    @contextmanager
    def at(
        self, step: int, folder: Path, events: frozenset[str], happens: Callable[[], None]
    ) -> Iterator[None]:
        self.folder, self.events, self.happens, self.left = str(folder), events, happens, step
        try:
            yield
        finally:
            self.left = -1


STEPS = Steps()
WRITES = frozenset({"open", "os.link", "os.rename", "os.mkdir"})
ALL = WRITES | {"os.remove", "os.rmdir", "os.chmod", "shutil.rmtree", "os.scandir", "os.listdir"}


def interrupted() -> None:
    raise KeyboardInterrupt


def full() -> None:
    raise OSError(errno.ENOSPC, "full")


def every_step(
    tmp_path: Path, kind: str, events: frozenset[str], happens: Callable[[], None], *, over: bool
) -> Iterator[tuple[Path, dict[str, bytes]]]:
    """Write again and again, until nothing happens any more; what there was before each time."""
    for step in range(500):
        folder = prepared(tmp_path / str(step), kind, overwrite=over)
        before = contents(folder)
        with (
            suppress(KeyboardInterrupt, SfumatoError),
            STEPS.at(step, folder, events, happens),
        ):
            KINDS[kind](folder, NEW, overwrite=over)
            if STEPS.left >= 0:
                assert step > 7
                return
        yield folder, before
    raise AssertionError


def is_new(folder: Path, before: dict[str, bytes]) -> bool:
    """Whether the whole new release is there, and nothing of the old."""
    told = json.loads(sidecar_file(path_of(folder)).read_text())
    assert Release.load(path_of(folder)).guarantee.statement == "Nobody stands out."
    marks = {name: one["sha256"] for name, one in told["files"].items()}
    return str(marks) not in str(before)


@pytest.mark.parametrize("over", [False, True], ids=["new", "overwritten"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_leaves_nothing(tmp_path: Path, kind: str, over: bool) -> None:
    """Once all is there only scratch is cleared away: then the release stands, and is whole."""
    stood = 0
    for folder, before in every_step(tmp_path, kind, ALL, interrupted, over=over):
        assert scratch(folder) == []
        if contents(folder) != before:
            assert is_new(folder, before)
            stood += 1
        else:
            assert not stood
    assert stood


@pytest.mark.parametrize("over", [False, True], ids=["new", "overwritten"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_leaves_nothing(tmp_path: Path, kind: str, over: bool) -> None:
    for folder, before in every_step(tmp_path, kind, WRITES, full, over=over):
        assert contents(folder) == before or is_new(folder, before)
        assert scratch(folder) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.unit.release import test_writer as its

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

for way in sys.argv[2:]:
    kind, over = way.split("-")[0], way.endswith("-overwritten")
    for step in range(500):
        folder = its.prepared(Path(sys.argv[1], way, str(step)), kind, overwrite=over)
        child = os.fork()
        if not child:
            with its.STEPS.at(step, folder, its.WRITES, kill):
                its.KINDS[kind](folder, its.NEW, overwrite=over)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            break
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What writers leave that were killed at every step, in a folder for each way of writing."""
    home = tmp_path_factory.mktemp("killed")
    ways = [f"{kind}-{over}" for kind in KINDS for over in ("new", "overwritten")]
    command = [sys.executable, "-c", KILLED, str(home), *ways]
    subprocess.run(command, check=True, timeout=240, cwd=Path(__file__).parents[3])
    return home


@pytest.mark.parametrize("over", [False, True], ids=["new", "overwritten"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_process_leaves_is_refused_and_swept(
    tmp_path: Path, killed: Path, kind: str, over: bool
) -> None:
    home = killed / f"{kind}-{'overwritten' if over else 'new'}"
    plain = contents(prepared(tmp_path / "plain", kind, overwrite=over))
    refused = 0
    for folder in sorted(home.iterdir(), key=lambda one: int(one.name)):
        found = contents(folder)
        whole = found.keys() == plain.keys()
        try:
            Release.load(path_of(folder))
        except SourceError as error:
            refused += error.code == "release_unreadable"
        else:
            assert whole or not over
        sweep(folder, again=True)
        sweep(folder / "pages", again=True)
        sweep(folder / "out", again=True)
        assert scratch(folder) == []
        swept = contents(folder)
        assert swept.keys() == plain.keys() or is_new(folder, plain)
        KINDS[kind](folder, NEW, overwrite=True)
        assert is_new(folder, plain)
    if kind in ("one_file", "into_folder", "a_map"):
        assert refused


def test_what_is_left_does_not_stand_in_the_way(tmp_path: Path) -> None:
    """A name that only a broken writing took is free again for whoever comes next."""
    script = KILLED.replace("its.WRITES", "frozenset({'os.link'})").replace("range(500)", "(1,)")
    subprocess.run(
        [sys.executable, "-c", script, tmp_path, "one_file-new"],
        check=True,
        cwd=Path(__file__).parents[3],
    )
    folder = tmp_path / "one_file-new" / "1"
    assert (folder / "out.csv").is_file()
    assert not (folder / "out.csv.json").exists()
    with pytest.raises(SourceError) as refusal:
        Release.load(folder / "out.csv")
    assert refusal.value.code == "release_unreadable"
    one_file(folder, NEW, overwrite=False)
    assert is_new(folder, {})


def test_a_file_changed_after_a_killed_writing_is_not_taken_back(tmp_path: Path) -> None:
    script = KILLED.replace("its.WRITES", "frozenset({'os.link'})").replace("range(500)", "(1,)")
    subprocess.run(
        [sys.executable, "-c", script, tmp_path, "one_file-new"],
        check=True,
        cwd=Path(__file__).parents[3],
    )
    folder = tmp_path / "one_file-new" / "1"
    (folder / "out.csv").write_text("my own work since")
    sweep(folder, again=True)
    assert (folder / "out.csv").read_text() == "my own work since"
    with pytest.raises(OutputError) as refusal:
        one_file(folder, NEW, overwrite=False)
    assert refusal.value.code == "output_exists"


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_writers_one_has_written_all(tmp_path: Path, kind: str) -> None:
    folder = prepared(tmp_path / "both", kind, overwrite=True)

    def write(table: pa.Table) -> None:
        for _ in range(10):
            with suppress(OutputError):
                KINDS[kind](folder, table, overwrite=True)

    others = [threading.Thread(target=write, args=(table,)) for table in (OLD, NEW)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    assert scratch(folder) == []
    Release.load(path_of(folder))


@pytest.mark.parametrize("kind", ["one_file", "new_folder"])
def test_where_somebody_else_is_writing_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = prepared(tmp_path / "home", kind, overwrite=True)
    before = contents(folder)
    monkeypatch.setattr("sfumato.release.writer.PATIENCE_SECONDS", 0.01)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(OutputError) as refusal:
            KINDS[kind](folder, NEW, overwrite=True)
    finally:
        os.close(handle)
    assert refusal.value.code == "file_in_use"
    assert contents(folder) == before
    assert scratch(folder) == []


def test_what_came_into_a_folder_meanwhile_is_not_lost(tmp_path: Path) -> None:
    new_folder(prepared(tmp_path / "home", "new_folder", overwrite=False), OLD, overwrite=False)
    out = tmp_path / "home" / "out"
    with (
        pytest.raises(OutputError) as refusal,
        writing(out, several=True, replace=True, overwrite=True) as writer,
    ):
        writer.table("n", "n.csv", NEW.to_reader(), kinds_of(NEW.schema))
        writer.write_sidecars(release(NEW))
        (out / "thesis.tex").write_text("precious")
    assert refusal.value.code == "output_not_a_release"
    assert (out / "thesis.tex").read_text() == "precious"
    assert (out / "quasi.csv").is_file()
    assert scratch(tmp_path) == []


@pytest.mark.parametrize("letter", ["x", "é", "語", "🎨"])
def test_a_long_name_is_written_or_refused_at_once(tmp_path: Path, letter: str) -> None:
    size = len(letter.encode())
    for length in range(200 // size, 260 // size):
        path = tmp_path / f"{letter * length}.csv"
        if len(holder_file(path).name.encode()) <= 255:
            release(NEW).save(path)
            assert Release.load(path).table.equals(NEW)
            continue
        with pytest.raises(OutputError) as refusal:
            release(NEW).save(path)
        assert refusal.value.code == "output_unwritable"
        assert path not in tmp_path.iterdir()
    assert scratch(tmp_path) == []
