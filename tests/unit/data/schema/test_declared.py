"""Domains, columns and schemas as declared in Python."""

from __future__ import annotations

import unicodedata
from datetime import date, datetime
from decimal import Decimal, localcontext

import pytest

from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Domain, Scalar, Values
from sfumato.data.schema.hierarchy import ROOT, Calendar, Hierarchy, Mask, Tree, Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity
from sfumato.errors import SchemaError


@pytest.mark.parametrize(
    ("low", "high", "step", "code"),
    [
        (5, 1, None, "bounds_invalid"),
        (date(2024, 1, 2), date(2024, 1, 1), None, "bounds_invalid"),
        (0, Decimal(1), None, "bounds_invalid"),
        (0, 10, 3, "bounds_invalid"),
        (0, 10, -5, "bounds_invalid"),
        (0, 10, 0, "bounds_invalid"),
        (Decimal(0), Decimal(1), Decimal("0.3"), "bounds_invalid"),
        (Decimal("nan"), Decimal(1), None, "value_outside_domain"),
        (Decimal(0), Decimal("inf"), None, "value_outside_domain"),
        (Decimal("-1e308"), Decimal("1e308"), None, "value_outside_domain"),
        (Decimal("1e-400"), Decimal(1), None, "value_outside_domain"),
        (Decimal(0), Decimal("1e999999999"), None, "value_outside_domain"),
        (Decimal("-1e999999999"), Decimal("0e999999999"), None, "value_outside_domain"),
        (-(2**63) - 1, 0, None, "value_outside_domain"),
        (Decimal(0), Decimal(1), Decimal("nan"), "value_outside_domain"),
    ],
)
def test_bounds_refused(low: int, high: int, step: int | None, code: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Bounds(low, high, step)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("bounds", "size"),
    [
        (Bounds(0, 110), 111),
        (Bounds(7, 7), 1),
        (Bounds(-(2**63), 2**63 - 1), 2**64),
        (Bounds(0, 2**62 + 3, 1), 2**62 + 4),
        (Bounds(Decimal(0), Decimal(1)), None),
        (Bounds(Decimal(0), Decimal(999999999999999), Decimal("0.000000000001")), None),
        (Bounds(date(2024, 2, 28), date(2024, 3, 1)), 3),
    ],
)
def test_sizes_are_exact(bounds: Bounds, size: int | None) -> None:
    with localcontext(prec=3):
        if bounds.step == Decimal("0.000000000001"):
            size = 999999999999999 * 10**12 + 1
        assert bounds.size == size


def test_values_refused() -> None:
    for values, code in [
        ((), "domain_invalid"),
        (("a", "b", "a"), "domain_invalid"),
        (("\ud800",), "value_outside_domain"),
        ((2**63,), "value_outside_domain"),
    ]:
        with pytest.raises(SchemaError) as caught:
            Values(values)
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("kind", "domain", "code"),
    [
        (Kind.TEXT, Bounds(0, 5), "bounds_invalid"),
        (Kind.BOOLEAN, Bounds(0, 1), "bounds_invalid"),
        (Kind.INTEGER, Bounds(Decimal(0), Decimal(5)), "domain_invalid"),
        (Kind.DATE, Bounds(0, 5), "domain_invalid"),
        (Kind.DATE, Bounds(datetime(2024, 1, 1), datetime(2024, 1, 2)), "domain_invalid"),  # noqa: DTZ001
        (Kind.INTEGER, Values((True,)), "domain_invalid"),
        (Kind.BOOLEAN, Values((1,)), "domain_invalid"),
        (Kind.TEXT, Values(("a", 1)), "domain_invalid"),
    ],
)
def test_domain_must_fit_the_kind(kind: Kind, domain: Domain, code: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Column("c", kind, domain=domain)
    assert caught.value.code == code
    assert str(kind) in caught.value.message


@pytest.mark.parametrize(
    ("hierarchy", "kind"),
    [
        (Mask(), Kind.TEXT),
        (Widths((5,)), Kind.INTEGER),
        (Widths((Decimal(5),)), Kind.REAL),
        (Calendar(), Kind.DATE),
        (Tree((True,), ((ROOT,),)), Kind.BOOLEAN),
    ],
)
def test_hierarchy_must_fit_the_kind(hierarchy: Hierarchy, kind: Kind) -> None:
    assert Column("c", kind, hierarchy=hierarchy).hierarchy is hierarchy
    for other in set(Kind) - {kind}:
        with pytest.raises(SchemaError) as caught:
            Column("c", other, hierarchy=hierarchy)
        assert caught.value.code == "hierarchy_invalid"


def test_declared_values_need_a_place_in_the_tree() -> None:
    tree = Tree(("a",), ((ROOT,),))
    values: tuple[Scalar, ...] = ("a", *"bcdefg")
    with pytest.raises(SchemaError) as caught:
        Column("c", Kind.TEXT, domain=Values(values), hierarchy=tree)
    assert caught.value.code == "value_outside_domain"
    assert "6 declared values: 'b', 'c', 'd', 'e', 'f', ..." in caught.value.message


def columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, Kind.TEXT) for name in names)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Age", "age"),
        ("age", "age "),
        ("caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")),
        ("STRASSE", "straße"),
    ],
)
def test_names_that_people_confuse(first: str, second: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema("t", columns("x", first, "y", second))
    assert caught.value.code == "name_taken"
    assert caught.value.message.startswith(f"Columns 2 ({first!r}) and 4 ({second!r})")


@pytest.mark.parametrize("name", ["a\x00b", "a\nb", "a\u202eb", "\u2066a", "\ud800", "a\u2028"])
def test_control_characters(name: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Column(name, Kind.TEXT)
    assert caught.value.code == "name_invalid"
    assert name not in caught.value.message
    with pytest.raises(SchemaError):
        Schema(name, columns("a"))


@pytest.mark.parametrize("name", ["", " ", "\u3000"])
def test_blank_names(name: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Column(name, Kind.TEXT)
    assert caught.value.code == "name_invalid"


@pytest.mark.parametrize(
    "name", ["select", '"', ";--", "a.b", "'", "x" * 10_000, "年齢", "می\u200cخواهم", "🧑\u200d⚕"]
)
def test_odd_names_are_fine(name: str) -> None:
    schema = Schema(name, columns(name))
    assert schema.column(name).name == name


def test_messages_stay_short() -> None:
    with pytest.raises(SchemaError) as caught:
        Schema("t", columns("x" * 10_000, "X" * 10_000))
    assert len(caught.value.message) < 400


def test_lookup() -> None:
    schema = Schema("t", (Column("zip", Kind.TEXT, Role.QUASI), *columns("note")))
    assert schema.by_role(Role.QUASI) == (schema.column("zip"),)
    assert schema.by_role(Role.SENSITIVE) == ()
    with pytest.raises(SchemaError, match=r"no column 'zop'; did you mean 'zip'\?") as caught:
        schema.column("zop")
    assert caught.value.code == "column_unknown"
    with pytest.raises(SchemaError, match=r"allowed: 'zip', 'note'\."):
        schema.column("12345")


def test_no_columns() -> None:
    with pytest.raises(SchemaError) as caught:
        Schema("t", ())
    assert caught.value.code == "columns_invalid"


@pytest.mark.parametrize(
    ("column", "code", "words"),
    [
        (Column("patients", Kind.TEXT), "column_unknown", "did you mean 'patients'?"),
        (Column("patient", Kind.TEXT), "unit_invalid", "nullable = false"),
        (Column("patient", Kind.REAL, nullable=False), "unit_invalid", "integer or text"),
    ],
)
def test_unit_column(column: Column, code: str, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema("t", (column,), Entity("patient", 3))
    assert caught.value.code == code
    assert words in caught.value.message


def test_unit_column_accepted() -> None:
    column = Column("patient", Kind.INTEGER, nullable=False)
    assert Schema("t", (column,), Entity("patient", 3)).unit == Entity("patient", 3)
