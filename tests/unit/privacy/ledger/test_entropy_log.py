"""A tape gives the same words again, whoever reads it, and new ones behind its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.privacy.ledger.entropy_log import TapedEntropy

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_drawn_is_drawn_again(tmp_path: Path) -> None:
    path = tmp_path / "one.tape"
    first = TapedEntropy(path)
    drawn = [*first.words(3).tolist(), *first.words(2).tolist()]
    again = TapedEntropy(path)
    assert again.words(5).tolist() == drawn
    more = again.words(4).tolist()
    assert TapedEntropy(path).words(9).tolist() == [*drawn, *more]
    assert len(set(drawn + more)) == 9
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_word_that_was_half_written_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "one.tape"
    drawn = TapedEntropy(path).words(2).tolist()
    with path.open("r+b") as file:
        file.truncate(11)
    again = TapedEntropy(path).words(2).tolist()
    assert again[0] == drawn[0]
    assert path.read_bytes()[8:11] == drawn[1].to_bytes(8, "little")[:3]
    assert TapedEntropy(path).words(2).tolist() == again
