"""A journal has nothing done but beside it, and what is not exactly one of ours is none."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato.filesystem import MARK, sweep, unfinished
from sfumato.release import writer
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.write_journal import (
    Journal,
    JournalEntry,
    LastFile,
    mark_of,
    read_journal,
    write_journal,
)

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = ["/nowhere/at/all", "/nowhere/0", [1, 2, 3, 4]]


def planted(folder: Path, content: object) -> Path:
    """A folder named like scratch, with a journal that somebody else wrote."""
    scratch = folder / f".planted{MARK}"
    scratch.mkdir(mode=0o700)
    text = content if isinstance(content, str) else json.dumps(content)
    (scratch / "journal.json").write_text(text)
    return scratch


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    file = tmp_path / "elsewhere" / "mine.txt"
    file.write_text("mine")
    return file


@pytest.mark.parametrize("name", ["{}", "../elsewhere/mine.txt", "..", ".", "", "a\0b", "a/b"])
def test_only_bare_names_are_followed(victim: Path, name: str) -> None:
    scratch_parent, final = victim.parents[1] / "here", name.format(victim)
    planted(scratch_parent, {"entries": [[final, "0", mark_of(victim)]], "last": NOWHERE})
    assert not unfinished(scratch_parent / "out.csv")
    sweep(scratch_parent, again=True)
    assert victim.read_text() == "mine"
    assert list(scratch_parent.iterdir()) == []


@pytest.mark.parametrize("target", ["{}", "../../elsewhere/mine", "..", "0/../..", "x", "1\n"])
def test_only_places_in_the_scratch_folder_are_followed(victim: Path, target: str) -> None:
    scratch_parent = victim.parents[1] / "here"
    where = target.format(victim.with_suffix(""))
    victim.with_name("mine.old").write_text("old")
    planted(scratch_parent, {"entries": [["new.txt", where, [1, 2, 3, 4]]], "last": NOWHERE})
    sweep(scratch_parent, again=True)
    assert victim.with_name("mine.old").read_text() == "old"
    assert list(scratch_parent.iterdir()) == []


def test_the_journal_of_before_is_none(victim: Path) -> None:
    scratch_parent = victim.parents[1] / "here"
    planted(scratch_parent, [[str(scratch_parent / "taken.txt"), str(victim), [1, 2, 3, 4]]])
    sweep(scratch_parent, again=True)
    assert victim.read_text() == "mine"
    assert list(scratch_parent.iterdir()) == []


def test_nothing_goes_through_a_link(victim: Path) -> None:
    scratch_parent = victim.parents[1] / "here"
    (scratch_parent / "out.csv").write_text("table")
    entries = [["out.csv", "0", mark_of(scratch_parent / "out.csv")]]
    (planted(scratch_parent, {"entries": entries, "last": NOWHERE}) / "0").symlink_to(victim.parent)
    sweep(scratch_parent, again=True)
    assert list(victim.parent.iterdir()) == [victim]


@pytest.mark.parametrize(
    "content",
    [
        "[[5,5,[1]]]",
        "[" * 100_000,
        "{}",
        "null",
        {"entries": None, "last": NOWHERE},
        {"entries": [[5, 5, [1]]], "last": NOWHERE},
        {"entries": [["out.csv", "0", [1]]], "last": NOWHERE},
        {"entries": [["out.csv", "0", [1, True]]], "last": NOWHERE},
        {"entries": [["out.csv", "0", [1, "2"]]], "last": NOWHERE},
        {"entries": [["out.csv", "0", [1, -2]]], "last": NOWHERE},
        {"entries": [["out.csv", "0", [1, 2]]], "last": None},
        {"entries": [["out.csv", "0", [1, 2]]], "last": ["here", "0", [1, 2]]},
        {"entries": [["out.csv", "0", [1, 2]]], "last": ["/a\0", "/0", [1, 2]]},
        {"entries": [["out.csv", "0", [1, 2]]], "last": NOWHERE, "more": 1},
        json.dumps({"entries": [["out.csv", "0", [1, 2]]], "last": NOWHERE}) + " " * (1 << 20),
    ],
    ids=str,
)
def test_what_has_another_shape_is_no_journal(tmp_path: Path, content: object) -> None:
    scratch = planted(tmp_path, content)
    assert read_journal(scratch) is None
    assert not unfinished(tmp_path / "out.csv")
    sweep(tmp_path, again=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_a_regular_file_is_a_journal(tmp_path: Path, kind: str) -> None:
    scratch = planted(tmp_path, {"entries": [["out.csv", "0", [1, 2]]], "last": NOWHERE})
    assert unfinished(tmp_path / "out.csv")
    file = scratch / "journal.json"
    file.rename(tmp_path / "true.json")
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(tmp_path / "true.json")
    else:
        file.mkdir()
    assert not unfinished(tmp_path / "out.csv")


def test_a_journal_that_others_can_write_is_not_followed(tmp_path: Path) -> None:
    scratch = planted(tmp_path, {"entries": [["out.csv", "0", [1, 2]]], "last": NOWHERE})
    scratch.chmod(0o777)
    assert not unfinished(tmp_path / "out.csv")
    sweep(tmp_path, again=True)
    assert scratch.is_dir()
    scratch.chmod(0o700)
    (scratch / "journal.json").chmod(0o666)
    assert not unfinished(tmp_path / "out.csv")


def test_a_journal_of_another_user_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = planted(tmp_path, {"entries": [["out.csv", "0", [1, 2]]], "last": NOWHERE})
    monkeypatch.setattr(os, "geteuid", lambda: scratch.stat().st_uid + 1)
    assert not unfinished(tmp_path / "out.csv")
    sweep(tmp_path, again=True)
    assert scratch.is_dir()


def test_a_folder_that_is_a_link_is_no_scratch(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    scratch = planted(tmp_path, {"entries": [["out.csv", "0", [1, 2]]], "last": NOWHERE})
    (tmp_path / "other" / scratch.name).symlink_to(scratch)
    assert not unfinished(tmp_path / "other" / "out.csv")


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9 \xff.csv")
    entries = (JournalEntry(name, "0", (1, 2, 3, 4)), JournalEntry("out", "1", (1, 2)))
    content = Journal(entries, LastFile("/a/out", "/a/1", (1, 2)))
    write_journal(tmp_path, content)
    assert read_journal(tmp_path) == content


def saved(folder: Path, text: str, *, overwrite: bool) -> None:
    Release(
        {"n": pa.table({"n": [text]})},
        Guarantee("syntactic", "Nobody stands out."),
        Provenance("optimal", {}, ""),
        holder={"figures": {}},
    ).save(folder / "out.csv", overwrite=overwrite)


@pytest.mark.parametrize("over", [False, True], ids=["new", "overwritten"])
@pytest.mark.parametrize("when", ["settle", "sync"])
@pytest.mark.parametrize("later", ["moved", "deleted"])
def test_a_release_that_stood_is_not_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: bool, when: str, later: str
) -> None:
    """Its writer is killed right after the side-car; what people do then is their own."""
    if over:
        saved(tmp_path, "old", overwrite=False)
    child = os.fork()
    if not child:
        original = getattr(writer, when)

        def killed(*arguments: object, **options: object) -> None:
            target = tmp_path if when == "sync" else tmp_path / "out.csv.json"
            if when == "settle":
                original(*arguments, **options)
            if target in arguments:
                os.kill(os.getpid(), signal.SIGKILL)
            if when == "sync":
                original(*arguments, **options)

        monkeypatch.setattr(writer, when, killed)
        saved(tmp_path, "new", overwrite=over)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    files = [tmp_path / name for name in ("out.csv", "out.csv.holder.json", "out.csv.json")]
    assert "new" in files[0].read_text()
    if later == "moved":
        files[-1].rename(tmp_path / "away.json")
    else:
        for path in files:
            path.unlink()
    remaining = {path.name for path in tmp_path.iterdir() if not path.name.endswith(MARK)}
    assert later == "deleted" or not unfinished(files[0])
    sweep(tmp_path, again=True)
    assert {path.name for path in tmp_path.iterdir()} == remaining
    assert later == "deleted" or "new" in files[0].read_text()
