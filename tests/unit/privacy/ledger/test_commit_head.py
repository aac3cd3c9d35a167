"""The outside head survives a torn write and keeps others out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError
from sfumato.privacy.ledger.chain import Position
from sfumato.privacy.ledger.commit import OutsideHead

if TYPE_CHECKING:
    from pathlib import Path

SLOT = 4096


def position(seq: int) -> Position:
    return Position(seq, f"{seq:064x}")


def test_it_reads_what_was_written_last_also_after_reopening(tmp_path: Path) -> None:
    head = OutsideHead(tmp_path / "head")
    assert head.read() is None
    for seq in (1, 2, 7, 3):  # an acknowledged rollback may go back
        head.write(position(seq))
        assert head.read() == position(seq)
        assert OutsideHead(tmp_path / "head").read() == position(seq)


@pytest.mark.parametrize("torn", [0, 1, 40, 200, 4095])
def test_a_torn_write_leaves_the_position_before(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "head"
    head = OutsideHead(path)
    head.write(position(1))
    head.write(position(2))
    before = path.read_bytes()
    head.write(position(3))
    after = path.read_bytes()
    start = 0 if before[:SLOT] != after[:SLOT] else SLOT
    mixed = bytearray(before)
    mixed[start : start + torn] = after[start : start + torn]
    path.write_bytes(mixed)
    whole_text = torn >= 200
    assert OutsideHead(path).read() == position(3 if whole_text else 2)


def test_a_spoiled_slot_is_passed_over_and_then_reused(tmp_path: Path) -> None:
    path = tmp_path / "head"
    head = OutsideHead(path)
    head.write(position(1))
    head.write(position(2))
    content = bytearray(path.read_bytes())
    newest = content.index(b" 1 2 ") // SLOT
    content[newest * SLOT + 20] ^= 1
    path.write_bytes(content)
    assert head.read() == position(1)
    head.write(position(3))
    assert head.read() == position(3)
    path.write_bytes(bytes(2 * SLOT))
    assert head.read() is None


def test_a_short_file_is_filled_without_losing_its_slot(tmp_path: Path) -> None:
    path = tmp_path / "head"
    OutsideHead(path).write(position(1))
    path.write_bytes(path.read_bytes()[:SLOT])
    assert OutsideHead(path).read() == position(1)
    assert path.stat().st_size == 2 * SLOT


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first = OutsideHead(tmp_path / "head")
    second = OutsideHead(tmp_path / "head", timeout_seconds=0.02)
    with first.lock(), pytest.raises(LedgerError, match=rf"process {os.getpid()} "), second.lock():
        pass
    with second.lock():
        pass


def test_it_is_private_and_no_symbolic_link(tmp_path: Path) -> None:
    OutsideHead(tmp_path / "head")
    assert (tmp_path / "head").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "head")
    with pytest.raises(OSError, match="symbolic"):
        OutsideHead(tmp_path / "link")
