"""Pages about publications: one can be made of every kind, whatever its columns hold."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SchemaError
from sfumato.publish.kinds import KINDS
from sfumato.report.blocks import Chart, Mosaic
from sfumato.report.published import pictures
from sfumato.report.release import page
from sfumato.vault.publishing import check_targets

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.publish.kinds import Publication

NEW_YEAR = date(2026, 1, 1)
COLUMNS: dict[str, tuple[sf.Kind, sf.Bounds | sf.Values | None, list[object]]] = {
    "integer": (sf.Kind.INTEGER, sf.Bounds(0, 39), [*range(40)]),
    "real": (
        sf.Kind.REAL,
        sf.Bounds(Decimal(34), Decimal(43), Decimal("0.2")),
        [34.0, 36.6, 43.0],
    ),
    "date": (
        sf.Kind.DATE,
        sf.Bounds(NEW_YEAR, NEW_YEAR + timedelta(39)),
        [NEW_YEAR, NEW_YEAR + timedelta(20)],
    ),
    "boolean": (sf.Kind.BOOLEAN, None, [True, False]),
    "text": (sf.Kind.TEXT, sf.Values(tuple(f"ward {n}" for n in range(40))), ["ward 1"]),
}
OF_TWO = ("quadtree", "adaptive-grid")


def private(kind: str, *, nullable: bool) -> sf.Private:
    of, domain, values = COLUMNS[kind]
    given = [*values * 20, *([None] if nullable else [])]
    if kind == "real" and nullable:
        given.append(float("nan"))
    columns = tuple(sf.Column(name, of, domain=domain, nullable=nullable) for name in ("a", "b"))
    rows = pa.table({"a": given, "b": given})
    return sf.protect(sf.read(rows, schema=sf.Schema("t", columns)), epsilon=9, delta=1e-6)


def planned(data: sf.Private, kind: str, columns: list[str]) -> Publication | None:
    """The plan, if a kind is for such columns at all."""
    try:
        return data.plan(kind, columns=columns, epsilon="0.1")
    except (ParameterError, SchemaError):
        return None


@pytest.mark.parametrize("nullable", [True, False], ids=["nullable", "whole"])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_page_is_made_of_every_kind(tmp_path: Path, column: str, nullable: bool) -> None:
    data = private(column, nullable=nullable)
    made = []
    for kind in KINDS:
        for columns in (["a"], ["a", "b"]):
            plan = planned(data, kind, columns)
            if plan is None:
                continue
            check_targets(plan, tmp_path / kind, tmp_path / f"{kind}.html", overwrite=False)
            released = data.publish_planned(plan)
            blocks = pictures(columns, released.tables)
            words = " ".join(str(block) for block in blocks)
            assert all(name in words for name in released.tables), kind
            if columns == ["a"] or kind in OF_TWO:  # drawing takes time
                assert "<!doctype html>" in page(released)
            made.append(kind)
    assert {*made} >= {"auto", "histogram", "marginals", "sparse", "sketch"}


RANGES = [[[low, low + 9]] for low in range(0, 4000, 10)]


@pytest.mark.parametrize(
    ("kind", "columns", "options"),
    [
        ("histogram", ["a"], {}),
        ("quantiles", ["a"], {}),
        ("continual", ["a"], {}),
        ("hybrid", ["a"], {"postprocess": "nonnegative"}),
        ("hybrid", ["a", "b"], {}),
        ("sparse", ["a", "b"], {}),
        ("marginals", ["a", "b"], {"way": 1}),
        ("auto", ["a"], {"workload": RANGES}),
        ("auto", ["a"], {"workload": RANGES[:2]}),
    ],
    ids=[
        *("cells", "ranks", "running", "boxes of one", "boxes of two", "sparse", "marginals"),
        *("many blocks", "few blocks"),
    ],
)
def test_there_is_a_picture(kind: str, columns: list[str], options: dict[str, object]) -> None:
    schema = tuple(sf.Column(one, sf.Kind.INTEGER, domain=sf.Bounds(0, 4095)) for one in "ab")
    values = [number * number % 4096 for number in range(2000)]
    values += [5] * 500
    rows = pa.table({"a": [*values, None], "b": [*values, 7]})
    data = sf.protect(sf.read(rows, schema=sf.Schema("t", schema)), epsilon=9, delta=1e-6)
    released = data.publish(kind, columns=columns, epsilon=8, **options)  # type: ignore[arg-type]
    drawn = [one for one in pictures(columns, released.tables) if isinstance(one, Chart | Mosaic)]
    assert drawn


def test_answered_ranges_and_huge_tables_are_bars_of_the_largest() -> None:
    answers = pa.table({"a_from": [0, 10], "a_to": [9, 19], "count": [5.0, -1.0]})
    chart = next(one for one in pictures(["a"], {"answers": answers}) if isinstance(one, Chart))
    assert chart.table.rows == [("0 to 9", "5")]
    size = 1 << 20
    huge = pa.table({"a": range(size), "b": [1] * size, "count": [*range(size)]})
    chart = next(one for one in pictures(["a", "b"], {"cells": huge}) if isinstance(one, Chart))
    assert chart.table.rows[0] == ("1048575, 1", "1,048,575")
    assert len(chart.table.rows) == 30


def test_a_column_may_be_called_like_a_figure() -> None:
    cells = pa.table({"count": [10, 20], "count_2": [1.0, 2.0]})
    chart = next(one for one in pictures(["count"], {"cells": cells}) if isinstance(one, Chart))
    assert chart.table.rows == [("20", "2"), ("10", "1")]
