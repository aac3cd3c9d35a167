"""What was spent, drawn over time: one line for each who spent, up to the end of the day."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

from sfumato.console.owner.principals import spending_picture
from sfumato.vault.accounts import Spent


def test_each_who_spent_has_a_line_that_only_grows() -> None:
    day = datetime(2026, 3, 1, 12, tzinfo=UTC)
    spent = [
        Spent(2, day, "ann", ("people",), "epsilon 0.5", Fraction(1, 2)),
        Spent(3, day.replace(day=3), "bob", ("people",), "epsilon 0.1", Fraction(1, 10)),
        Spent(4, day.replace(day=5), "ann", ("people",), "epsilon 0.5", Fraction(1, 2)),
    ]
    picture = spending_picture(spent, "people", day.replace(day=9))
    rows = [tuple(row) for row in picture.table.rows]
    assert rows == [
        ("ann", "2026-03-01", "0"), ("ann", "2026-03-01", "0.5"), ("ann", "2026-03-05", "1"),
        ("ann", "2026-03-10", "1"), ("bob", "2026-03-01", "0"), ("bob", "2026-03-03", "0.1"),
        ("bob", "2026-03-10", "0.1"),
    ]  # fmt: skip
    assert "<svg" in picture.draw(700)
