from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.data.inspection.guesses import guess, hint, kind_of
from sfumato.data.inspection.profile import ColumnProfile
from sfumato.data.schema.column import Kind, Role
from sfumato.data.schema.hierarchy import Calendar, Mask, Removal, Tree, Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import load, save

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.hierarchy import Hierarchy

ROWS = 10_000


def profile(
    name: str, kind: Kind = Kind.TEXT, distinct: int = 3000, nulls: int = 0, **facts: Any
) -> ColumnProfile:
    return ColumnProfile(name=name, kind=kind, rows=ROWS, nulls=nulls, distinct=distinct, **facts)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (profile("x", fits=frozenset({Kind.INTEGER, Kind.REAL})), Kind.INTEGER),
        (profile("x", fits=frozenset({Kind.REAL})), Kind.REAL),
        (profile("x", fits=frozenset({Kind.DATE})), Kind.DATE),
        (profile("x", fits=frozenset({Kind.BOOLEAN})), Kind.BOOLEAN),
        (profile("x"), Kind.TEXT),
        (profile("x", Kind.REAL, fits=frozenset({Kind.INTEGER})), Kind.REAL),
        (profile("x", fits=frozenset(Kind), nulls=ROWS, distinct=0), Kind.TEXT),
        (profile("x", fits=frozenset({Kind.INTEGER}), padded=True), Kind.TEXT),
        (profile("ZIP", fits=frozenset({Kind.INTEGER}), shortest=5, longest=5), Kind.TEXT),
        (profile("ZIP", fits=frozenset({Kind.INTEGER}), shortest=3, longest=5), Kind.INTEGER),
        (profile("year", fits=frozenset({Kind.INTEGER}), shortest=4, longest=4), Kind.INTEGER),
    ],
)
def test_kinds(given: ColumnProfile, kind: Kind) -> None:
    assert kind_of(given) is kind


@pytest.mark.parametrize(
    ("given", "role", "reason"),
    [
        (profile("x", top=(("a@b.org", 1), ("c@d.net", 1))), Role.IDENTIFIER, "an e-mail address"),
        (profile("x", top=(("000-12-3456", 1),)), Role.IDENTIFIER, "a social security number"),
        (profile("x", top=(("+44 20 7946 0000", 1),)), Role.IDENTIFIER, "a telephone number"),
        (profile("x", top=(("a@b.org", 1), ("none", 1))), Role.OTHER, "nothing speaks"),
        (profile("last_name"), Role.IDENTIFIER, "named like a person's name; 3,000 values in"),
        (profile("city name"), Role.QUASI, "named like a place"),
        (profile("x", distinct=ROWS), Role.IDENTIFIER, "every value is different"),
        (profile("x", Kind.INTEGER, ROWS), Role.IDENTIFIER, "every value is different"),
        (profile("x", Kind.REAL, ROWS), Role.OTHER, "nothing speaks"),
        (profile("salary", Kind.INTEGER, ROWS), Role.SENSITIVE, "named like money"),
        (profile("visit", Kind.DATE, ROWS), Role.QUASI, "dates narrow down"),
        (profile("patient_id"), Role.IDENTIFIER, "tells people apart"),
        (profile("visit_patient", distinct=51), Role.IDENTIFIER, "the person whose row it is"),
        (profile("patient", distinct=50), Role.QUASI, "groups of 200"),
        (profile("patient_height", Kind.INTEGER, 51), Role.OTHER, "nothing speaks"),
        (profile("ward_id", distinct=7), Role.QUASI, "groups of 1,428 on average; 7 values"),
        (profile("notes", distinct=9000, longest=400), Role.IDENTIFIER, "long free text"),
        (profile("weight", Kind.INTEGER, 9000), Role.QUASI, "most values are different"),
        (profile("x", distinct=1), Role.OTHER, "every value is the same"),
        (profile("x", distinct=0, nulls=ROWS), Role.OTHER, "every cell is missing"),
        (profile("x", Kind.BOOLEAN, 2), Role.QUASI, "groups of 5,000"),
    ],
)
def test_roles_have_reasons(given: ColumnProfile, role: Role, reason: str) -> None:
    found = guess(given)
    assert (found.column.role, reason in found.reason) == (role, True), found.reason
    assert found.column.domain is None


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("dateOfBirth", "a birth date"),
        ("DOB", "a birth date"),
        ("Geburtsdatum", "a birth date"),
        ("fecha_nacimiento", "a birth date"),
        ("zip_code", "a postal code"),
        ("PLZ", "a postal code"),
        ("Straße", "a place"),
        ("native-country", "a place"),
        ("Prénom", "a person's name"),
        ("E-Mail", "an account or a contact"),
        ("Social Security Number", "an identity number"),
        ("salary-class", "money"),
        ("Einkommen", "money"),
        ("marital-status", "a way of life"),
        ("enfermedad", "something about health"),
        ("diagnosis_code", "something about health"),
        ("gendercode", "a sex or gender"),
        ("Età", "an age"),
        ("statement", None),
        ("message", None),
        ("x", None),
        ("年齢", None),
    ],
)
def test_names_in_several_languages(name: str, meaning: str | None) -> None:
    found = hint(name)
    assert (found and found.meaning) == meaning


@pytest.mark.parametrize(
    ("given", "hierarchy"),
    [
        (profile("zip", shortest=5, longest=5, top=(("53715", 3), ("K1A0B", 2))), Mask()),
        (profile("age", Kind.INTEGER, 73, minimum=17, maximum=90), Widths((5, 10, 20))),
        (profile("age", Kind.INTEGER, 9, minimum=0, maximum=8), Widths((2, 4))),
        (
            profile("lat", Kind.REAL, minimum=47.2, maximum=55.1),
            Widths((Decimal("0.5"), Decimal("1.0"), Decimal("2.0"))),
        ),
        (profile("lat", Kind.REAL, minimum=0.0, maximum=float("inf")), Removal()),
        (profile("lat", Kind.REAL, minimum=-1e300, maximum=1e300), Removal()),
        (profile("dob", Kind.DATE, minimum=date(1900, 1, 1)), Calendar()),
        (
            profile("sex", distinct=2, shortest=1, longest=1, top=(("M", 6), ("F", 4))),
            Tree(("F", "M"), (("*",), ("*",)), seen=True),
        ),
        (
            profile("married", Kind.BOOLEAN, 2, top=((True, 6), (False, 4))),
            Tree((False, True), (("*",), ("*",)), seen=True),
        ),
        (
            profile("children", Kind.INTEGER, 2, minimum=0, maximum=1, top=((0, 6), (1, 4))),
            Tree((0, 1), (("*",), ("*",)), seen=True),
        ),
        (profile("city", shortest=3, longest=20, top=(("Bonn", 3),)), Mask()),
        (profile("city", shortest=3, longest=200, top=(("Bonn", 3),)), Removal()),
    ],
)
def test_hierarchies(given: ColumnProfile, hierarchy: Hierarchy) -> None:
    found = guess(given)
    assert found.column.role is Role.QUASI
    assert found.column.hierarchy == hierarchy
    assert ("write one" in found.reason) == (hierarchy is None)


def test_guesses_make_a_schema_that_loads(tmp_path: Path) -> None:
    profiles = [
        profile("ssn", top=(("000-12-3456", 1),)),
        profile("zip", shortest=5, longest=5, top=(("53715", 3),)),
        profile("age", Kind.INTEGER, 73, minimum=17, maximum=90),
        profile("lat", Kind.REAL, minimum=47.2, maximum=55.1),
        profile("dob", Kind.DATE),
        profile("sex", distinct=3, top=(("M", 6), ('"F"\n', 4), ("*", 1))),
        profile("disease", distinct=12),
    ]
    guesses = [guess(each) for each in profiles]
    schema = Schema("people", tuple(each.column for each in guesses))
    path = tmp_path / "people.toml"
    save(schema, path, notes={each.column.name: each.reason for each in guesses})
    assert load(path) == schema
    assert "# named like a birth date; 3,000 values in 10,000 rows\n[columns.dob]" in (
        path.read_text()
    )


def test_rare_values_are_joined_before_everything_is() -> None:
    from sfumato.data.inspection.guesses import propose
    from sfumato.data.schema.hierarchy import ROOT, Tree

    top = (("US", 900), ("Mexico", 85), ("Peru", 8), ("Laos", 7))
    profile = ColumnProfile(
        name="country",
        kind=Kind.TEXT,
        rows=1000,
        nulls=0,
        distinct=4,
        shortest=2,
        longest=6,
        top=top,
    )
    tree = propose(profile, Kind.TEXT)
    assert isinstance(tree, Tree)
    assert dict(zip(tree.leaves, tree.ancestors, strict=True)) == {
        "Mexico": ("Mexico", ROOT),
        "US": ("US", ROOT),
        "Laos": ("rarer values", ROOT),
        "Peru": ("rarer values", ROOT),
    }
