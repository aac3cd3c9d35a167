"""What a value counts as that its declaration does not allow, in questions and publications."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf

NAN = float("nan")
REAL = sf.Bounds(Decimal(0), Decimal(3), Decimal(1))
LISTED = sf.Values((1, 3, 5))
DAYS = sf.Bounds(date(2020, 1, 1), date(2020, 1, 3))
MANY = 10**5


def protected(kind: sf.Kind, domain: Any, values: list[Any], *, nullable: bool) -> sf.Private:
    column = sf.Column("x", kind, domain=domain, nullable=nullable)
    held = sf.read(pa.table({"x": values}), sf.Schema("t", (column,)), strict=False)
    return sf.protect(held, unit=sf.Rows(), epsilon=MANY, delta="0.1", max_epsilon=MANY)


def groups(private: sf.Private, **cost: Any) -> dict[Any, int]:
    found = private.query("SELECT x, COUNT(*) AS n FROM t GROUP BY x", epsilon=1000, **cost).table
    return {key: n for key, n in zip(*found.to_pydict().values(), strict=True) if n}


@pytest.mark.parametrize(
    ("kind", "domain", "values", "counts"),
    [
        (sf.Kind.REAL, REAL, [1.0, None, NAN, 9.0], {0.0: 2, 1.0: 1, 3.0: 1}),
        (sf.Kind.INTEGER, sf.Bounds(0, 3), [1, None, 9], {0: 1, 1: 1, 3: 1}),
        (sf.Kind.DATE, DAYS, [date(2020, 1, 2), None], {date(2020, 1, 1): 1, date(2020, 1, 2): 1}),
        (sf.Kind.DATE, None, [date(2020, 1, 2), None], {date.min: 1, date(2020, 1, 2): 1}),
        (sf.Kind.BOOLEAN, None, [True, None], {False: 1, True: 1}),
        (sf.Kind.INTEGER, LISTED, [1, 3, None, 4, 9], {1: 1, 3: 1}),
        (sf.Kind.TEXT, sf.Values(("a", "b")), ["a", None, "c"], {"a": 1}),
    ],
)
def test_no_group_is_missing_where_the_schema_says_so(
    kind: sf.Kind, domain: Any, values: list[Any], counts: dict[Any, int]
) -> None:
    private = protected(kind, domain, values * 100, nullable=False)
    expected = {key: 100 * n for key, n in counts.items()}
    assert groups(private, delta="0.01") == expected


@pytest.mark.parametrize("domain", [sf.Bounds(0, 6), LISTED])
def test_a_group_is_missing_where_it_may_be(domain: Any) -> None:
    private = protected(sf.Kind.INTEGER, domain, [1, None, 3], nullable=True)
    assert groups(private) == {None: 1, 1: 1, 3: 1}


@pytest.mark.parametrize(
    ("kind", "domain", "values"),
    [
        (sf.Kind.INTEGER, LISTED, [1, 3, 4, 9, -2]),
        (sf.Kind.REAL, sf.Values((Decimal(1), Decimal(3))), [1.0, 3.0, 9.0]),
        (sf.Kind.INTEGER, sf.Bounds(0, 3), [1, 9, -2]),
        (sf.Kind.REAL, REAL, [1.2, 9.0, -2.0]),
    ],
)
@pytest.mark.parametrize("nullable", [True, False])
def test_questions_and_publications_agree_on_what_is_beyond(
    kind: sf.Kind, domain: Any, values: list[Any], nullable: bool
) -> None:
    private = protected(kind, domain, values, nullable=nullable)
    made = private.publish("histogram", columns=["x"], epsilon=1000).table
    published = zip(*made.to_pydict().values(), strict=True)
    assert groups(private) == {key: n for key, n in published if n}


def test_one_noise_counts_rows_and_reals_that_cannot_be_missing() -> None:
    private = protected(sf.Kind.REAL, REAL, [1.0, None, NAN, 2.0], nullable=False)
    found = private.query("SELECT COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s FROM t", epsilon=1000)
    (row,) = found.table.to_pylist()
    assert (row["n"], row["c"]) == (4, 4)
    assert row["s"] == pytest.approx(3, abs=0.2)
