"""Columns of an original beside those of what was decided on."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

import sfumato as sf
from sfumato.anonymize.distributions import distributions
from sfumato.anonymize.pipeline import anonymize

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.report.distributions import ColumnComparison

BORN = date(1950, 1, 1)
SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("name", sf.Kind.TEXT, sf.Role.IDENTIFIER),
        sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 99), sf.Widths((10, 50))),
        sf.Column("born", sf.Kind.DATE, sf.Role.QUASI, hierarchy=sf.Calendar()),
        sf.Column("ill", sf.Kind.TEXT, sf.Role.SENSITIVE, sf.Values(("flu", "none"))),
    ),
)
PEOPLE = [
    {
        "name": f"p{n}",
        "age": 20 + n % 20,
        "born": BORN + timedelta(days=37 * (n % 400)),
        "ill": "flu" if n < 100 else "none",
    }
    for n in range(400)
]


def beside(**asked: object) -> dict[str, ColumnComparison]:
    with sf.read(PEOPLE, SCHEMA) as people:
        decided = anonymize(people, [sf.KAnonymity(10)], **asked)  # type: ignore[arg-type]
        return {one.column: one for one in distributions(decided)}


def test_labels_are_spread_evenly_over_the_values_that_they_cover() -> None:
    found = beside()
    age = found["age"]
    original, released = (one.shares for one in age.sides)
    assert original.sum() == pytest.approx(1)
    assert released.sum() == pytest.approx(1)
    assert original[20:40] == pytest.approx(np.full(20, 0.05))
    values = {*np.round(released[:100], 6)}
    assert len(values) <= 3  # as many heights as labels, and none
    assert age.labels[20] == "20"
    assert age.starts[20:22] == [19.5, 20.5]


def test_days_lie_on_a_scale_of_days() -> None:
    born = beside()["born"]
    assert born.dates
    assert len(born.starts) == 51
    days = (BORN - date(1970, 1, 1)).days
    assert born.starts[0] <= days <= born.starts[1]
    assert sum(born.sides[0].shares) == pytest.approx(1)


def test_what_is_released_as_it_is_shows_only_where_rows_were_left_out() -> None:
    assert set(beside()) == {"age", "born"}
    with sf.read([*PEOPLE, {**PEOPLE[0], "age": 99}], SCHEMA) as people:
        decided = anonymize(people, [sf.KAnonymity(10)], suppress="0.3")
        found = {one.column: one for one in distributions(decided)}
        assert decided.figures["suppressed"]
    assert found["ill"].labels[:2] == ["flu", "none"]
    assert found["ill"].sides[0].shares[0] == pytest.approx(101 / 401)


def test_only_the_page_of_the_holder_has_them(tmp_path: Path) -> None:
    with sf.read(PEOPLE, SCHEMA) as people:
        release = people.anonymize(k=10)
        release.save(tmp_path / "safe.csv", report=tmp_path / "mine.html")
        release.report(tmp_path / "again.html")
        release.report(tmp_path / "theirs.html", public=True)
    for name in ("mine.html", "again.html"):
        assert "Before and after" in (tmp_path / name).read_text()
    theirs = (tmp_path / "theirs.html").read_text()
    assert "Before and after" not in theirs
    assert "Original" not in theirs
