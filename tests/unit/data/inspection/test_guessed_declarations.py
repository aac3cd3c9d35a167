"""What an owner could declare: round, never a cell of anybody, never declared by itself."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.data.inspection.guesses import guess, observed_column, observed_schema, with_people
from sfumato.data.inspection.profile import ColumnProfile
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Rows

if TYPE_CHECKING:
    from sfumato.data.schema.domain import Domain

ROWS = 1000


def profile(name: str, kind: Kind, distinct: int = 100, **facts: Any) -> ColumnProfile:
    return ColumnProfile(
        **{"name": name, "kind": kind, "rows": ROWS, "nulls": 0, "distinct": distinct, **facts}
    )


def domain(seen: ColumnProfile) -> Domain | None:
    return observed_column(seen, guess(seen).column).domain


@pytest.mark.parametrize(
    ("seen", "proposed"),
    [
        (profile("age", Kind.INTEGER, minimum=17, maximum=90), Bounds(10, 100)),
        (profile("visits", Kind.INTEGER, minimum=0, maximum=99), Bounds(0, 100)),
        (profile("x", Kind.INTEGER, minimum=7, maximum=7), Bounds(6, 8)),
        (profile("x", Kind.REAL, minimum=-3.5, maximum=0.0), Bounds(Decimal(-4), Decimal("0.5"))),
        (
            profile("born", Kind.DATE, minimum=date(1931, 5, 6), maximum=date(2012, 3, 1)),
            Bounds(date(1930, 1, 1), date(2019, 12, 31)),
        ),
        (
            profile("came", Kind.DATE, minimum=date(2024, 5, 6), maximum=date(2025, 3, 1)),
            Bounds(date(2024, 1, 1), date(2025, 12, 31)),
        ),
        (
            profile("born", Kind.DATE, minimum=date(1, 5, 6), maximum=date(9999, 3, 1)),
            Bounds(date(1, 1, 1), date(9999, 12, 31)),
        ),
        (
            profile("illness", Kind.TEXT, 2, top=(("flu", 900), ("cold", 100))),
            Values(("cold", "flu")),
        ),
        (profile("town", Kind.TEXT, 51, top=(("A", 900),)), None),
        (
            profile("code", Kind.INTEGER, 2, minimum=1, maximum=9, top=((1, 900), (9, 100))),
            Values((1, 9)),
        ),
        (
            profile("code", Kind.INTEGER, 2, minimum=1, maximum=9, top=((1, 999), (9, 1))),
            Bounds(0, 10),
        ),
        (
            profile("c", Kind.INTEGER, 2, minimum=7, maximum=9**9, top=((7, 999), (9**9, 1))),
            Values((7, 9**9)),
        ),
        (
            profile("c", Kind.INTEGER, 60, minimum=7, maximum=9**7, top=((7, 9),)),
            Bounds(0, 5 * 10**6),
        ),
        (profile("agreed", Kind.BOOLEAN, 2, top=((True, 500), (False, 500))), None),
        (profile("patient_id", Kind.INTEGER, ROWS, minimum=1, maximum=ROWS), None),
        (profile("x", Kind.REAL, minimum=0.0, maximum=float("inf")), None),
        (profile("x", Kind.REAL, minimum=0.0, maximum=1e300), None),
        (profile("x", Kind.TEXT, 0, nulls=ROWS), None),
    ],
)
def test_proposed_domains(seen: ColumnProfile, proposed: Domain | None) -> None:
    assert domain(seen) == proposed


@given(low=st.integers(-(10**9), 10**9), width=st.integers(0, 10**9))
def test_F14_no_proposed_end_is_anybodys_number(low: int, width: int) -> None:
    high = low + width
    found = domain(profile("x", Kind.INTEGER, minimum=low, maximum=high))
    assert isinstance(found, Bounds)
    assert isinstance(found.low, int)
    assert isinstance(found.high, int)
    assert found.low < low or found.low == low == 0
    assert found.high > high
    assert found.span <= 2 * width + max(abs(high), 10)


def schema_of(*profiles: ColumnProfile) -> tuple[Schema, Schema]:
    schema = Schema("visits", tuple(guess(one).column for one in profiles))
    return schema, observed_schema(schema, profiles)


PATIENT = profile("patient", Kind.TEXT, 60, top=(("a", 17), ("b", 3)))
VISIT = profile("visit", Kind.TEXT, ROWS)
CITY = profile("city", Kind.TEXT, 2, top=(("x", 600), ("y", 400)))


def test_a_person_with_several_rows_is_a_proposed_unit() -> None:
    schema, seen = schema_of(VISIT, CITY, PATIENT)
    assert seen.unit == Entity("patient", 20)
    assert schema.unit == Rows()


def test_a_column_that_is_different_in_every_row_is_no_unit() -> None:
    assert schema_of(VISIT, CITY)[1].unit == Rows()


def test_only_what_could_name_people_is_declared_without_gaps() -> None:
    gaps = profile("client_id", Kind.TEXT, 60, nulls=1, top=(("a", 17),))
    schema, seen = schema_of(PATIENT, CITY, gaps)
    written = with_people(schema, seen)
    assert [column.nullable for column in written.columns] == [False, True, True]
    assert [column.nullable for column in seen.columns] == [False, False, True]


def test_F14_a_guess_declares_nothing_that_was_seen() -> None:
    schema, _ = schema_of(PATIENT, CITY)
    assert [(one.public_domain, one.nullable) for one in schema.columns] == [(None, True)] * 2
