"""Pages about publications: one can be made of every kind, whatever its columns hold."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.report.svg_reading import assert_readable, marks, words

import sfumato as sf
from sfumato.errors import ParameterError, SchemaError
from sfumato.methods.publish.catalogue import KINDS
from sfumato.methods.publish.page import published_pictures, table_blocks
from sfumato.release.page import page
from sfumato.report.blocks import Folded, Heading
from sfumato.report.page import render
from sfumato.report.picture import Picture
from sfumato.vault.publications import check_targets

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.methods.publish.publication import Publication

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


@pytest.mark.parametrize(
    ("column", "nullable"),
    [
        *(pytest.param(one, True, id=f"{one}-nullable") for one in COLUMNS),
        pytest.param("integer", False, id="integer-whole"),
        *(
            pytest.param(one, False, id=f"{one}-whole", marks=pytest.mark.slow)
            for one in COLUMNS
            if one != "integer"
        ),
    ],
)
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
            blocks = table_blocks(columns, released.tables, released.error)
            words = " ".join(str(block) for block in blocks)
            assert all(name in words for name in released.tables), kind
            assert "<!doctype html>" in page(released)
            for picture in published_pictures(released):
                for width in (354, 764):
                    assert_readable(picture.draw(width))
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
    assert published_pictures(released)


def one_picture(columns: list[str], table: pa.Table, **error: object) -> Picture:
    (picture,) = (
        one for one in table_blocks(columns, {"cells": table}, error) if isinstance(one, Picture)
    )
    return picture


def test_answered_ranges_are_bars_and_those_below_zero_too() -> None:
    answers = pa.table({"a_from": [0, 10], "a_to": [9, 19], "count": [5.0, -1.0]})
    chart = one_picture(["a"], answers)
    assert chart.table.rows == [("0 to 9", "5"), ("10 to 19", "-1")]


def test_huge_tables_of_many_columns_are_bars_of_the_largest() -> None:
    size = 1 << 16
    columns = {"a": range(size), "b": [1] * size, "c": ["x"] * size, "count": [*range(size)]}
    chart = one_picture(["a", "b", "c"], pa.table(columns))
    assert chart.table.rows[0] == ("65535, 1, x", "65,535")
    assert len(chart.table.rows) == 30


def test_a_column_may_be_called_like_a_figure() -> None:
    cells = pa.table({"count": ["x", "y"], "count_2": [1.0, 2.0]})
    assert one_picture(["count"], cells).table.rows == [("y", "2"), ("x", "1")]


@pytest.mark.parametrize(
    ("error", "far"),
    [
        ({"cell": {"bound95": 3.0, "sd": 1.4}}, "± 3"),
        ({"cells": {"sd": 10.0}}, "± 21.2"),
        ({"tables": {"cells": {"sd": 10.0}}, "cell": {"bound95": 1.0}}, "± 21.2"),
        ({"tables": {"cells": {"largest95": 30.0}}}, "± 30"),
    ],
)
def test_every_figure_has_the_error_that_is_stated_of_it(
    error: dict[str, object], far: str
) -> None:
    chart = one_picture(["a"], pa.table({"a": ["x", "y"], "count": [7.0, -2.0]}), **error)
    assert [row[-1] for row in chart.table.rows] == [far, far]
    assert len(marks(chart.draw(354), "whisker")) == 2


@pytest.mark.parametrize("size", [2, 40])
def test_bars_of_noise_alone_do_not_promise_the_truth(size: int) -> None:
    table = pa.table({"a": [*range(size)], "count": [7.0] * size})
    chart = one_picture(["a"], table, note="noise alone", cell={"sd": 1.0})
    assert "noise alone" in chart.note
    assert "the truth is within" not in chart.note


def test_an_error_that_is_not_known_is_not_drawn_and_said_to_be_so() -> None:
    table = pa.table({"a": ["x", "y"], "count": [7.0, -2.0]})
    chart = one_picture(["a"], table, note="no closed form", cell={"sd": None})
    assert not marks(chart.draw(354), "whisker")
    assert "not known" in chart.note


def test_two_columns_of_names_are_squares_under_their_names() -> None:
    names = [f"v{n}" for n in range(9)]
    table = pa.table(
        {
            "a": [x for x in names for _ in names],
            "b": names * 9,
            "count": [float(n) for n in range(81)],
        }
    )
    said = [one.text for one in words(one_picture(["a", "b"], table).draw(764))]
    assert {"a", "b", *names} <= {*said}


def test_few_combinations_are_bars_in_groups_with_errors() -> None:
    table = pa.table(
        {"sex": ["f", "f", "f", "m", "m", "m"], "race": ["x", "y", "z"] * 2, "count": [1.0] * 6}
    )
    chart = one_picture(["sex", "race"], table, cell={"bound95": 2.0})
    assert chart.table.headers == ("race", "sex", "Count", "95 % interval")
    svg = chart.draw(354)
    assert len(marks(svg, "swatch")) == 2
    assert len(marks(svg, "whisker")) == 6


@pytest.mark.parametrize("columns", [["a", "b"], ["b", "a"]])
def test_names_beside_numbers_that_are_evenly_apart_are_squares(columns: list[str]) -> None:
    cells = {"a": [at // 2 for at in range(18)], "b": ["x", "y"] * 9, "count": [*range(18)]}
    chart = one_picture(columns, pa.table(cells).select([*columns, "count"]))
    assert {"x", "y"} <= {one.text for one in words(chart.draw(764))}


def test_dates_are_axes_of_dates() -> None:
    days = [NEW_YEAR + timedelta(n) for n in range(400)]
    chart = one_picture(["day"], pa.table({"day": days, "count": [5.0] * 400}))
    said = {one.text for one in words(chart.draw(764))}
    assert {"Jan 2026", "Mar", "Jan 2027"} <= said
    boxes = pa.table(
        {
            "day_low": days[::40],
            "day_high": days[39::40],
            "leaf": [True] * 10,
            "count": [80.0] * 10,
            "sd": [1.0] * 10,
        }
    )
    steps = one_picture(["day"], boxes)
    assert {"Jan 2026", "Jan 2027"} <= {one.text for one in words(steps.draw(764))}
    assert steps.table.rows[0] == ("2026-01-01 to 2026-02-09", "80", "± 2.12")


def test_longitude_goes_across_whatever_the_order_of_columns() -> None:
    table = pa.table(
        {
            "lat_low": [40.0, 41.0],
            "lat_high": [40.9, 41.9],
            "lon_low": [-80.0, -80.0],
            "lon_high": [-70.1, -70.1],
            "leaf": [True, True],
            "count": [5.0, 50.0],
            "sd": [1.0, 1.0],
        }
    )
    svg = one_picture(["lat", "lon"], table).draw(764)
    assert next(one.text for one in words(svg)) == "lat"  # the upright axis is told first
    assert marks(svg, "arrow")
    assert {"−80", "−70"} <= {one.text for one in words(svg)}


def test_every_table_of_a_release_is_shown() -> None:
    names = [f"c{n}" for n in range(9)]
    tables = {name: pa.table({name: ["x", "y"], "count": [1.0, 2.0]}) for name in names}
    blocks = table_blocks(names, tables)
    open_ones = [one.text for one in blocks if isinstance(one, Heading) and one.level == 3]
    folded = [one for one in blocks if isinstance(one, Folded)]
    assert open_ones == names[:6]
    assert [one.summary for one in folded] == [f"{name}: 2 rows" for name in names[6:]]
    assert all(isinstance(one.blocks[0], Picture) for one in folded)


def test_a_page_of_very_many_or_very_large_tables_stays_small() -> None:
    names = [f"column {n}" for n in range(300)]
    values = [f"value {n}" for n in range(50)]
    many = {
        name: pa.table({name: values, "count": [float(n) for n in range(50)]}) for name in names
    }
    html = render("t", table_blocks(names, many, {"cell": {"bound95": 2.0}}), lead="", footer="")
    assert all(name in html for name in names)
    assert len(html) < 3_000_000
    side = 1000
    grid = pa.table(
        {
            "x": [n for n in range(side) for _ in range(side)],
            "y": [*range(side)] * side,
            "count": [float(n * 7919 % 1013) for n in range(side * side)],
        }
    )
    html = render("t", table_blocks(["x", "y"], {"cells": grid}), lead="", footer="")
    assert "Each square adds up 10 by 10 cells." in html
    assert len(html) < 400_000
