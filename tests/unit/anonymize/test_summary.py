"""What a release made of a column, in words, for labels of every kind."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from sfumato.anonymize.summary import in_words
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.hierarchy import Calendar, Mask, Side, Tree, Widths
from sfumato.data.schema.spelling import DateSpelling

DAY = Column("birth_date", Kind.DATE, Role.QUASI, hierarchy=Calendar())
MOMENT = Column(
    "seen",
    Kind.DATE,
    Role.QUASI,
    hierarchy=Calendar(),
    spelling=DateSpelling("%d.%m.%Y %H:%M"),
)
ZIP = Column("zip", Kind.TEXT, Role.QUASI, hierarchy=Mask())
ENDING = Column("plate", Kind.TEXT, Role.QUASI, hierarchy=Mask(Side.LEFT))
AGE = Column("age", Kind.INTEGER, Role.QUASI, hierarchy=Widths((5, 10)))
HEIGHT = Column("height", Kind.REAL, Role.QUASI, hierarchy=Widths((Decimal("0.5"),)))
JOB = Column(
    "job",
    Kind.TEXT,
    Role.QUASI,
    hierarchy=Tree(
        ("nurse", "doctor", "tutor", "clerk"),
        (("health", "*"), ("health", "*"), ("school", "*"), ("office", "*")),
    ),
)


@pytest.mark.parametrize(
    ("column", "labels", "words"),
    [
        (DAY, {"*": 9}, "removed"),
        (DAY, {"1976-12-24": 4, None: 2}, "unchanged"),
        (DAY, {None: 2}, "unchanged"),
        (MOMENT, {"24.12.1976": 4}, "only the day, without the time"),
        (HEIGHT, {"1.5": 4}, "unchanged as numbers"),
        (DAY, {"1976-12": 4, "1980-01": 3}, "only the month and year"),
        (DAY, {"1976-Q4": 4}, "only the quarter and year"),
        (DAY, {"1976": 4, "1980": 5}, "only the year"),
        (DAY, {"197x": 4}, "only the decade"),
        (DAY, {"[1976-01-01, 1976-01-10]": 4}, "ranges of 10 days"),
        (
            DAY,
            {"[1976-01-01, 1976-12-31]": 4, "[1976-01-01, 1985-12-31]": 4},
            "ranges, 5.5 years wide on average",
        ),
        (ZIP, {"53***": 4, "60***": 3}, "first two digits"),
        (ZIP, {"5****": 4}, "first digit"),
        (ZIP, {"SW1***": 4, "NW3***": 4}, "first three characters"),
        (ZIP, {"537**": 4, "5371*": 4}, "first 3 to 4 digits"),
        (ZIP, {"53703": 4}, "unchanged"),
        (ZIP, {"*****": 4}, "only the length"),
        (ENDING, {"***12": 4}, "last two digits"),
        (AGE, {"20-29": 4, "30-39": 3}, "ranges of 10 years"),
        (AGE, {"-5 to -1": 4}, "ranges of 5 years"),
        (AGE, {"[20, 21]": 4, "[30, 35]": 4}, "ranges, 4 years wide on average"),
        (replace(AGE, name="Âge"), {"20-29": 4}, "ranges of 10 years"),
        (replace(AGE, name="age_in_months"), {"20-29": 4}, "ranges of 10"),
        (AGE, {"20": 3}, "unchanged"),
        (HEIGHT, {"[1.5, 2.0)": 4, "[1.0, 1.5)": 4}, "ranges of 0.5"),
        (JOB, {"health": 4, "school": 3}, "2 groups of values"),
        (JOB, {"health": 4}, "1 group of values"),
        (JOB, {"nurse": 4}, "unchanged"),
        (JOB, {"{nurse, tutor}": 4, "{nurse, tutor, clerk}": 4}, "sets of values, 2.5 on average"),
        (
            JOB,
            {"nurse": 60, "health": 25, "*": 15},
            "exact value (60 % of rows); 1 group of values (25 %); removed (15 %)",
        ),
        (JOB, {"nurse": 999, "*": 1}, "exact value (99 % of rows); removed (under 1 %)"),
    ],
)
def test_labels_are_told_in_words(
    column: Column, labels: dict[str | None, int], words: str
) -> None:
    assert in_words(column, labels) == words


def test_the_order_of_labels_changes_nothing() -> None:
    labels: dict[str | None, int] = {"nurse": 5, "health": 5, "*": 5}
    turned = dict(reversed(labels.items()))
    assert in_words(JOB, labels) == in_words(JOB, turned)
