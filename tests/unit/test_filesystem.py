"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from sfumato.errors import InternalError, OutputError
from sfumato.filesystem import check_target, whole, write_text


def test_a_file_appears_complete_with_ordinary_rights(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with whole(tmp_path / "a.txt") as temporary:
            temporary.write_text("whole")
            assert not (tmp_path / "a.txt").exists()
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").read_text() == "whole"
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_after_a_failure(tmp_path: Path, failure: type[BaseException]) -> None:
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(failure), whole(tmp_path / "a.txt", overwrite=True) as temporary:
        temporary.write_text("new")
        raise failure
    assert (tmp_path / "a.txt").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as refusal, whole(tmp_path / "a.txt"):
        raise OSError(errno.ENOSPC, "no space")
    assert refusal.value.code == "disk_full"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as refusal, whole(tmp_path / "a.txt") as temporary:
        temporary.write_text("ours")
        (tmp_path / "a.txt").write_text("theirs")
    assert refusal.value.code == "output_exists"
    assert (tmp_path / "a.txt").read_text() == "theirs"


def test_targets_are_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    codes = {}
    for name in (".", "file", "none/a.txt"):
        with pytest.raises(OutputError) as refusal:
            write_text(tmp_path / name, "x")
        codes[name] = refusal.value.code
    assert codes == {
        ".": "output_unwritable",
        "file": "output_exists",
        "none/a.txt": "output_unwritable",
    }


def test_what_is_no_disk_is_not_a_full_one() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("this system has no /proc")
    with pytest.raises(OutputError, match="nothing may be written to '/proc'") as refusal:
        check_target(Path("/proc/x.csv"))
    assert refusal.value.code == "output_unwritable"
