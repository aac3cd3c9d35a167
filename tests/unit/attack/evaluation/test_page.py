"""An evaluation as a page: what stands on it, in words, and nothing unescaped."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.attack.evaluation.page import page, summary

if TYPE_CHECKING:
    from sfumato.attack.evaluation.result import Evaluation

EVIL = "<script>x</script>"
COLUMNS = (
    sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 999)),
    sf.Column(EVIL, sf.Kind.TEXT),
    sf.Column("born", sf.Kind.DATE, domain=sf.Bounds(date(1990, 1, 1), date(1990, 12, 31))),
    sf.Column("gone", sf.Kind.REAL),
    *(sf.Column(f"flag{place}", sf.Kind.BOOLEAN) for place in range(4)),
)


def table(turn: int, shift: int = 0) -> pa.Table:
    """People; shifted ones are no copies of the others."""
    numbers = range(200)
    flags = {
        f"flag{place}": [one * turn % (place + 2) == 0 for one in numbers] for place in range(4)
    }
    return pa.table(
        {
            "age": [
                2 * (one * turn % 550) + shift if shift or one % 9 else None for one in numbers
            ],
            EVIL: [f"<b>{one * turn % 15}</b>" for one in numbers],
            "born": [date(1990, 1 + one * turn % 12, 1) for one in numbers],
            "gone": pa.nulls(200, pa.float64()),
            **flags,
        }
    )


@pytest.fixture(scope="module")
def found() -> Evaluation:
    with sf.read(table(7), sf.Schema("people", COLUMNS)) as original:
        return sf.evaluate(table(11, 1), original)


def test_the_page_says_for_whom_it_is_and_escapes_what_it_shows(found: Evaluation) -> None:
    made = page(found)
    assert "For the owner only: computed from the original" in made
    assert "<script" not in made
    assert "<b>1</b>" not in made
    assert "compared in 50 equal bins of its bounds" in made


def test_every_column_has_a_picture_and_most_are_folded(found: Evaluation) -> None:
    made = page(found)
    assert made.count("for a fresh sample") >= len(COLUMNS)
    assert made.count(": distance ") == len(COLUMNS) - 6


def test_what_was_found_is_said_in_sentences(found: Evaluation) -> None:
    words = " ".join(summary(found))
    for part in ("Two-way marginals differ", "propensity ratio", "at worst", "equal a real row"):
        assert part in words
    assert "seems to contain rows of real people" not in words


def test_kept_rows_are_called_so() -> None:
    with sf.read(table(7), sf.Schema("people", COLUMNS)) as original:
        kept = sf.evaluate(table(7), original)
    assert kept.copies.exact == 200
    assert "seems to contain rows of real people" in " ".join(summary(kept))


def test_two_columns_have_no_map() -> None:
    few = ["age", "flag0"]
    schema = sf.Schema("people", (COLUMNS[0], COLUMNS[4]))
    with sf.read(table(7).select(few), schema) as original:
        made = page(sf.evaluate(table(11).select(few), original))
    assert "Associations between columns" not in made
