"""Declared tables to plan against."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Rows
from sfumato.methods.query.sql.tables import Catalogue, PrivateRows, PublicRows

PEOPLE = (
    Column("id", Kind.INTEGER, nullable=False),
    Column("age", Kind.INTEGER, domain=Bounds(0, 110)),
    Column("city", Kind.TEXT, domain=Values(("A", "B", "C"))),
    Column("spend", Kind.REAL, domain=Bounds(Decimal(0), Decimal("100.5"))),
    Column("grade", Kind.REAL, domain=Bounds(Decimal("0.5"), Decimal(5), Decimal("0.5"))),
    Column("born", Kind.DATE, domain=Bounds(date(1990, 1, 1), date(2020, 12, 31))),
    Column("smoker", Kind.BOOLEAN, nullable=False),
    Column("name", Kind.TEXT),
    Column("wide", Kind.INTEGER),
    Column("wild", Kind.REAL),
)
VISITS = (
    Column("patient", Kind.INTEGER, nullable=False),
    Column("cost", Kind.INTEGER, domain=Bounds(0, 1000)),
    Column("day", Kind.DATE, domain=Bounds(date(2020, 1, 1), date(2020, 12, 31))),
    Column("ward", Kind.TEXT, domain=Values(("x", "y"))),
)
PLACES = (
    Column("city", Kind.TEXT),
    Column("region", Kind.TEXT, domain=Values(("N", "S"))),
    Column("size", Kind.INTEGER, domain=Bounds(0, 1_000_000)),
)
PERSON, PATIENT = Entity("id", 10, 3), Entity("patient", 5)


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    """People and visits about the same persons, rows of their own, others, and public places."""
    return {
        "people": PrivateRows(Schema("people", PEOPLE, PERSON), PERSON, "persons"),
        "visits": PrivateRows(Schema("visits", VISITS, PATIENT), PATIENT, "persons"),
        "others": PrivateRows(Schema("others", VISITS, PATIENT), PATIENT, "others"),
        "solo": PrivateRows(Schema("solo", PEOPLE), Rows(), "solo"),
        "places": PublicRows(Schema("places", PLACES), {("city",): 1}),
        "pairs": PublicRows(Schema("pairs", PLACES), {("city",): 2, ("city", "region"): 1}),
        "heaps": PublicRows(Schema("heaps", PLACES)),
    }
