"""Attacks on the tables of the lecture slides find exactly what the slides say."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from sfumato.attack.finding import Finding
from sfumato.attack.options import attack_options
from sfumato.attack.runner import attack
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Mask, Tree
from sfumato.data.schema.schema import Schema

JANUARY, FEBRUARY, APRIL = date(1976, 1, 21), date(1976, 2, 28), date(1986, 4, 13)
ZIPS = ("53703", "53706", "53715")
BIRTHS = [JANUARY, APRIL, FEBRUARY, JANUARY, APRIL, FEBRUARY]
CENSUS: dict[str, list[Any]] = {
    "birth": BIRTHS,
    "sex": ["M", "F", "M", "M", "F", "F"],
    "zip": ["53715", "53715", "53703", "53703", "53706", "53706"],
    "salary": [50_000, 55_000, 60_000, 65_000, 70_000, 75_000],
}
SCHEMA = Schema(
    "census",
    (
        Column("ssn", Kind.TEXT, Role.IDENTIFIER),
        Column("birth", Kind.DATE, Role.QUASI),
        Column("sex", Kind.TEXT, Role.QUASI, Values(("M", "F"))),
        Column("zip", Kind.TEXT, Role.QUASI, Values(ZIPS), Mask()),
        Column("salary", Kind.INTEGER, Role.SENSITIVE),
    ),
)
PUBLIC: dict[str, list[Any]] = {
    "ssn": ["11-1-111", "33-3-333"],
    "birth": [JANUARY, FEBRUARY],
    "sex": ["M", "M"],
    "zip": ["53715", "53703"],
}


def found(name: str, release: Any, schema: Schema = SCHEMA, **more: Any) -> Finding:
    known = more.pop("known", None)
    told = attack(name, release, schema, known=known, options=attack_options(**more))
    assert isinstance(told, Finding)
    return told


@pytest.mark.parametrize(
    ("columns", "identified", "rate"),
    [
        (("birth",), [], 1 / 2),
        (("birth", "sex"), ["33-3-333"], 3 / 4),
        (("birth", "sex", "zip"), ["11-1-111", "33-3-333"], 1),
    ],
)
def test_who_is_identified_by_what_is_public(
    columns: tuple[str, ...], identified: list[str], rate: float
) -> None:
    """By birth nobody, by birth and sex one, by birth, sex and ZIP both."""
    known = {name: PUBLIC[name] for name in ("ssn", *columns)}
    told = found("link", CENSUS, known=known)
    assert told.victims == len(identified)
    assert [one["ssn"] for one in told.examples] == identified
    assert told.success.value == pytest.approx(rate)
    assert told.baseline.value == pytest.approx(1 / 6)


def test_generalization_hides_both_among_two() -> None:
    """(1/21/76, M, 537**) and (2/28/76, *, 537**) have two rows each."""
    release = {
        "birth": [str(one) for one in BIRTHS],
        "sex": [
            "*" if one == FEBRUARY else sex for one, sex in zip(BIRTHS, CENSUS["sex"], strict=True)
        ],
        "zip": ["537**"] * 6,
        "salary": CENSUS["salary"],
    }
    told = found("link", release, known=PUBLIC)
    assert (told.victims, told.success.value) == (0, 0.5)


SUPPRESSED = (0, 3)


def test_suppressed_people_are_not_found() -> None:
    """Both who were born 1/21/76 are suppressed; the other one on the list still is found."""
    release: dict[str, list[Any]] = {
        name: ["*" if place in SUPPRESSED else str(one) for place, one in enumerate(values)]
        for name, values in CENSUS.items()
        if name != "salary"
    }
    release["salary"] = [
        None if place in SUPPRESSED else one for place, one in enumerate(CENSUS["salary"])
    ]
    told = found("link", release, known=PUBLIC)
    assert [one["ssn"] for one in told.examples] == ["33-3-333"]
    assert told.success.value == 0.5


def by_birth(salaries: list[int]) -> dict[str, list[Any]]:
    return {
        "birth": [str(one) for one in BIRTHS],
        "sex": ["*"] * 6,
        "zip": ["537**"] * 6,
        "salary": salaries,
    }


EQUAL = [50_000, 55_000, 60_000, 50_000, 55_000, 60_000]


def test_the_homogeneous_grouping_and_the_other_one() -> None:
    """Grouped by birth everybody's salary is certain; grouped by ZIP nobody's is."""
    assert found("homogeneity", by_birth(EQUAL)).victims == 6
    years = Column("birth", Kind.INTEGER, Role.QUASI, Bounds(0, 99))
    schema = Schema("census", (years, *SCHEMA.columns[2:]))
    other = {"birth": ["76-86"] * 6, "sex": ["*"] * 6, "zip": CENSUS["zip"], "salary": EQUAL}
    assert found("homogeneity", other, schema).victims == 0
    assert found("link", other, schema, known={"birth": [76], "zip": ["53715"]}).victims == 0


def test_salaries_that_differ_by_one_are_similar() -> None:
    release = by_birth([50_000, 55_000, 60_000, 50_001, 55_001, 60_001])
    assert found("homogeneity", release).victims == 0
    assert found("similarity", release).victims == 6


ILLS = ("heart", "viral", "cancer")
PATIENTS = {
    "zip": ["130**"] * 4 + ["1485*"] * 4 + ["130**"] * 4,
    "age": ["<30"] * 4 + [">40"] * 4 + ["3*"] * 4,
    "ill": [
        *("heart", "heart", "viral", "viral", "cancer", "heart", "viral", "viral"),
        *("cancer", "cancer", "cancer", "cancer"),
    ],
}
AGES = (21, 23, 28, 29, 31, 35, 36, 37, 47, 49, 50, 55)
CLINIC_ZIPS = ("13053", "13068", "14850", "14853")
CLINIC = Schema(
    "clinic",
    (
        Column(
            "zip",
            Kind.TEXT,
            Role.QUASI,
            hierarchy=Tree(
                CLINIC_ZIPS,
                tuple((f"{z[:4]}*", "130**" if z < "14" else "1485*", "*") for z in CLINIC_ZIPS),
            ),
        ),
        Column(
            "age",
            Kind.INTEGER,
            Role.QUASI,
            hierarchy=Tree(
                AGES,
                tuple(("<30" if a < 30 else "3*" if a < 40 else ">40", "*") for a in AGES),
            ),
        ),
        Column("ill", Kind.TEXT, Role.SENSITIVE, Values(ILLS)),
    ),
)


def test_the_class_of_cancers() -> None:
    """(130**, 3*) => cancer: four people, and whoever excludes one illness knows four more."""
    told = found("homogeneity", PATIENTS, CLINIC)
    assert told.victims == 4
    assert told.examples == [{"zip": "130**", "age": "3*", "ill": "cancer", "rows": 4}]
    assert found("background", PATIENTS, CLINIC).victims == 8
    umeko = {"zip": ["13068"], "age": [36]}
    assert found("link", PATIENTS, CLINIC, known=umeko).success.value == 1 / 4


DIVERSE = {
    "zip": ["1305*"] * 4 + ["1485*"] * 4 + ["1306*"] * 4,
    "age": ["*"] * 12,
    "ill": [
        *("heart", "viral", "cancer", "cancer", "cancer", "heart", "viral", "viral"),
        *("heart", "viral", "cancer", "cancer"),
    ],
}


def test_three_diverse_classes_hide_every_illness() -> None:
    assert found("homogeneity", DIVERSE, CLINIC).victims == 0
    assert found("background", DIVERSE, CLINIC).victims == 0


def test_half_of_a_class_has_what_one_in_a_hundred_has() -> None:
    """First class: 50 % cancer, among all people 1 %; the last class has as many."""
    public = {"ill": ["cancer"] + ["heart"] * 49 + ["viral"] * 50}
    told = found("skewness", DIVERSE, CLINIC, known=public, gain=50)
    assert told.victims == 4
    assert {one["zip"] for one in told.examples} == {"1305*", "1306*"}


CONDITIONS = ("gastric ulcer", "gastritis", "stomach cancer", "bronchitis", "flu", "pneumonia")
PAID: dict[str, list[Any]] = {
    "zip": ["476**"] * 3 + ["4790*"] * 3 + ["476**"] * 3,
    "age": ["2*"] * 3 + [">=40"] * 3 + ["3*"] * 3,
    "salary": [3, 4, 5, 6, 11, 8, 7, 9, 10],
    "condition": [
        *("gastric ulcer", "gastritis", "stomach cancer", "gastritis", "flu", "bronchitis"),
        *("bronchitis", "pneumonia", "stomach cancer"),
    ],
}
PAY = Schema(
    "pay",
    (
        Column("zip", Kind.TEXT, Role.QUASI, Values(("476**", "4790*"))),
        Column("age", Kind.TEXT, Role.QUASI, Values(("2*", "3*", ">=40"))),
        Column("salary", Kind.INTEGER, Role.SENSITIVE),
        Column(
            "condition",
            Kind.TEXT,
            Role.SENSITIVE,
            hierarchy=Tree(
                CONDITIONS,
                tuple(("stomach" if place < 3 else "lung", "*") for place in range(6)),
            ),
        ),
    ),
)


def test_the_first_class_has_low_salaries_and_a_stomach_condition() -> None:
    """3-diverse in both columns, and yet 3K to 5K and the stomach are certain there."""
    assert found("homogeneity", PAID, PAY).victims == 0
    for column in ("salary", "condition"):
        told = found("similarity", PAID, PAY, sensitive=column)
        assert told.victims == 3
        assert {one["age"] for one in told.examples} == {"2*"}


def test_the_close_table_has_no_such_class() -> None:
    places = (0, 2, 7, 3, 4, 5, 1, 6, 8)
    release = {
        "zip": ["476**"] * 3 + ["4790*"] * 3 + ["476**"] * 3,
        "age": ["2*"] * 3 + [">=40"] * 3 + ["3*"] * 3,  # the slide's classes, by other names
        **{name: [PAID[name][place] for place in places] for name in ("salary", "condition")},
    }
    for column in ("salary", "condition"):
        assert found("similarity", release, PAY, sensitive=column).victims == 0
