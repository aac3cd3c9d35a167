"""A tape gives the same words again, whoever reads it, and new ones behind its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.privacy.ledger.entropy_log import LoggedEntropy

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_drawn_is_drawn_again(tmp_path: Path) -> None:
    path = tmp_path / "one.tape"
    first = LoggedEntropy(path)
    drawn = [*first.words(3).tolist(), *first.words(2).tolist()]
    again = LoggedEntropy(path)
    assert again.words(5).tolist() == drawn
    more = again.words(4).tolist()
    assert LoggedEntropy(path).words(9).tolist() == [*drawn, *more]
    assert len(set(drawn + more)) == 9
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_word_that_was_half_written_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "one.tape"
    drawn = LoggedEntropy(path).words(2).tolist()
    with path.open("r+b") as file:
        file.truncate(11)
    again = LoggedEntropy(path).words(2).tolist()
    assert again[0] == drawn[0]
    assert path.read_bytes()[8:11] == drawn[1].to_bytes(8, "little")[:3]
    assert LoggedEntropy(path).words(2).tolist() == again
