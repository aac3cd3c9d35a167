"""The table of the sample town, of any size: one row per person, partly census, partly clinic.

Row i depends on i alone. So a table of ten million rows starts with the table of a thousand rows,
and batches can be made in any order. People fill one town after another. Each town has six post
codes of very different sizes, chosen so that birth date, sex and post code together single out
about as many people as in a real country. Decision `sample-town`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.schema.schema_file import load
from sfumato.demo import vocabulary
from sfumato.demo.draws import WeightedChoice, bell, uniform

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.inspection import Inspection
    from sfumato.data.inspection.guesses import Guess
    from sfumato.data.schema.schema import Schema
    from sfumato.demo.draws import Counters


@dataclass(frozen=True)
class Town:
    """The sample town: its tables, the guessed roles of its columns, and an inspection.

    The guesses were made without a schema; the inspection uses the roles that a person confirmed
    in the schema.
    """

    people: pa.Table
    visits: pa.Table
    voters: pa.Table
    guesses: tuple[Guess, ...]
    inspection: Inspection
    synthetic: pa.Table
    """A synthetic table of the people."""


@cache
def schema_of(table: str) -> Schema:
    """Read the schema of a table of the demo: "town" or "visits"."""
    with as_file(files("sfumato.demo") / f"{table}.toml") as file:
        return load(file)


TODAY = date(2025, 1, 1)
"""The day of the census: ages and visits are counted up to the day before."""
TOWN_SIZE = 36_500
"""People in one town; rows beyond it live in the next one."""
BATCH_ROWS = 262_144
"""People made at once: bounds the memory, and is large enough to be fast."""

_KINDS: dict[str, pa.DataType] = {
    "person": pa.int64(),
    "name": pa.string(),
    "ssn": pa.string(),
    "birth_date": pa.date32(),
    "sex": pa.string(),
    "zip": pa.string(),
    "race": pa.string(),
    "marital_status": pa.string(),
    "education": pa.string(),
    "occupation": pa.string(),
    "salary": pa.int64(),
    "disease": pa.string(),
    "visits": pa.int64(),
}
SCHEMA = pa.schema(_KINDS)

MAX_VISITS = 12
"""No person visits the clinic more often than this in the year."""
ADULT = 18
"""The age from which people vote, marry and earn."""
LAST_DAY = (TODAY - date(1970, 1, 1)).days - 1
"""The day before the census, in days since 1970: the last day of births and visits."""

_OLDEST = 100
_AGES = np.arange(_OLDEST)


class Townspeople:
    """Facts about consecutive people, as arrays; texts are made on demand, to save memory."""

    def __init__(self, first: int, count: int) -> None:
        self.counters: Counters = np.arange(first, first + count, dtype=np.uint64)
        rows = self.counters
        self.quarter = _QUARTER("quarter", rows)
        age = _AGE("age", rows)
        days = ((age + uniform("birthday", rows)) * 365.2425).astype(np.int64)
        self.birth_day: IntArray = LAST_DAY - days
        self.age: IntArray = age
        # In this order: each fact depends on the ones before it, as in a real population.
        self.sex = _SEX("sex", rows, age)
        self.education = _EDUCATION("education", rows, age * vocabulary.QUARTERS + self.quarter)
        self.disease = _DISEASE("disease", rows, self.sex * _OLDEST + age)
        self.visits = _VISITS("visits", rows, self.disease)

    @property
    def person(self) -> IntArray:
        """The number of each person in the clinic."""
        return self.counters.astype(np.int64) + 1

    def names(self) -> pa.Array[Any]:
        """First name and surname."""
        pool = vocabulary.FIRST_NAMES["F"] + vocabulary.FIRST_NAMES["M"]
        half = len(vocabulary.FIRST_NAMES["F"])  # women's names come first in the pool
        first = half * self.sex + _FIRST_NAME("first name", self.counters)
        last = _SURNAME("surname", self.counters)
        return join(spell(first, pool), spell(last, vocabulary.SURNAMES))

    def zips(self) -> pa.Array[Any]:
        """Post codes: six to a town, sixteen towns to a prefix."""
        towns = (self.counters // np.uint64(TOWN_SIZE)).astype(np.int64)
        return spell(towns * vocabulary.QUARTERS % len(ZIPS) + self.quarter, ZIPS)

    def sexes(self) -> pa.Array[Any]:
        """F or M."""
        return spell(self.sex, vocabulary.SEXES)

    def births(self) -> pa.Array[Any]:
        """Dates of birth."""
        return pa.array(self.birth_day.astype(np.int32)).cast(pa.date32())

    def batch(self) -> pa.RecordBatch:
        """The rows of the table."""
        rows = self.counters
        marital = _MARITAL("marital status", rows, self.sex * _OLDEST + self.age)
        occupation = _OCCUPATION("occupation", rows, self.education * _OLDEST + self.age)
        columns: list[pa.Array[Any]] = [
            pa.array(self.person),
            self.names(),
            _ssns(rows),
            self.births(),
            self.sexes(),
            self.zips(),
            spell(_RACE("race", rows), vocabulary.RACES),
            spell(marital, vocabulary.MARITAL_STATUSES),
            spell(self.education, vocabulary.EDUCATIONS),
            spell(occupation, vocabulary.OCCUPATIONS),
            pa.array(_salaries(rows, occupation, self.age, self.quarter)),
            spell(self.disease, vocabulary.DISEASES),
            pa.array(self.visits),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def groups(people: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[Townspeople]:
    """Make the first `people` people, some at a time."""
    for first in range(0, people, batch_rows):
        yield Townspeople(first, min(batch_rows, people - first))


def batches(people: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Make the table of the first `people` people, batch by batch."""
    return (group.batch() for group in groups(people, batch_rows=batch_rows))


def table(people: int) -> pa.Table:
    """Make the whole table of the first `people` people in memory."""
    return pa.Table.from_batches(batches(people), schema=SCHEMA)


def spell(codes: IntArray, values: Sequence[str]) -> pa.Array[Any]:
    """Replace each code by its text."""
    return pa.array(values, type=pa.string()).take(codes)


def join(first: pa.Array[Any], second: pa.Array[Any]) -> pa.Array[Any]:
    """Join texts pair by pair, with a blank between them."""
    joined: pa.Array[Any] = pc.binary_join_element_wise(first, second, " ")
    return joined


def _ssns(rows: Counters) -> pa.Array[Any]:
    """Numbers of areas 900 to 999 and groups 10 to 49, which no office has ever issued.

    Multiplying by a unit of the ring scatters neighbours and keeps all 40 million different.
    """
    # 26,180,339 is odd and no multiple of 5, so it is a unit modulo 40 million.
    number = (rows % np.uint64(40_000_000)) * np.uint64(26_180_339) % np.uint64(40_000_000)
    area, remainder = np.divmod(number, np.uint64(400_000))
    group, serial = np.divmod(remainder, np.uint64(10_000))
    text = np.full((len(rows), 11), ord("-"), dtype=np.uint8)
    fields = [(area + np.uint64(900), 0, 3), (group + np.uint64(10), 4, 6), (serial, 7, 11)]
    for value, start, stop in fields:
        for position in range(stop - 1, start - 1, -1):
            value, digit = np.divmod(value, np.uint64(10))
            text[:, position] = digit.astype(np.uint8) + ord("0")
    # Built from bytes: formatting millions of Python texts would take most of the time.
    offsets = np.arange(0, 11 * len(rows) + 1, 11, dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(rows), pa.py_buffer(offsets.data), pa.py_buffer(text.data)
    )


def _salaries(rows: Counters, occupation: IntArray, age: IntArray, quarter: IntArray) -> IntArray:
    """Yearly income: by trade, rising with age to 50, more in rich quarters; whole hundreds."""
    # An income of 65 % at age 18, rising in a line to the full one at 50.
    experience = 1 - 0.35 * np.clip((50 - age) / 32, 0, 1)
    factor = np.exp(0.28 * bell("salary", rows) + 0.5 * vocabulary.QUARTER_WEALTH[quarter])
    hundreds = vocabulary.OCCUPATION_INCOME[occupation] * 10 * experience * factor
    # At most 500,000, the bound that the schema declares.
    return np.clip(np.rint(hundreds), 0, 5_000).astype(np.int64) * 100


def _age_weights() -> FloatArray:
    """The weight of each age: even up to 55, then falling."""
    weights: FloatArray = np.exp(-((np.clip(_AGES - 55, 0, None) / 21.0) ** 2))
    return weights


def _sex_weights() -> FloatArray:
    """The weights of women and men by age: slightly more boys are born, and women live longer."""
    women = 0.488 + 0.20 * (np.clip(_AGES - 40, 0, None) / 60) ** 2
    return np.stack([women, 1 - women], axis=1)


def _marital_weights() -> FloatArray:
    """The weights of marital statuses by sex and age; men lose their partner later than women."""
    tables = []
    for sex in vocabulary.SEXES:
        ever = np.where(_AGES < ADULT, 0.0, 0.9 / (1 + np.exp(-(_AGES - 29) / 4.5)))
        midpoint = 80 if sex == "F" else 90  # the age at which half are widowed
        widowed = 1 / (1 + np.exp(-(_AGES - midpoint) / 6))
        divorced = 0.26 * np.clip((_AGES - 24) / 26, 0, 1) * (1 - widowed)
        tables.append([1 - ever, ever * (1 - widowed - divorced), ever * divorced, ever * widowed])
    return np.concatenate([np.stack(columns, axis=1) for columns in tables])


def _education_weights() -> FloatArray:
    """The weights of degrees by age and quarter: rich quarters have more high degrees.

    Below 25 nobody has a degree before the usual age for it.
    """
    ladder = np.arange(len(vocabulary.EDUCATIONS))
    final = vocabulary.EDUCATION_WEIGHTS * np.exp(
        0.8 * np.outer(vocabulary.QUARTER_WEALTH, ladder - 2)
    )
    weights = np.repeat(final[None], _OLDEST, axis=0)
    for age in range(25):
        highest = int(np.searchsorted([18, 19, 22, 24], age, side="right"))
        # Those who will hold a higher degree hold the highest that their age allows.
        weights[age, :, highest] += weights[age, :, highest + 1 :].sum(axis=1)
        weights[age, :, highest + 1 :] = 0
    return weights.reshape(-1, len(ladder))


def _occupation_weights() -> FloatArray:
    """The weights of occupations by degree and age: pupils, students, the retired, and trades."""
    size = (len(vocabulary.EDUCATIONS), _OLDEST, len(vocabulary.OCCUPATIONS))
    weights = np.zeros(size)
    trades = vocabulary.TRADE_WEIGHTS / vocabulary.TRADE_WEIGHTS.sum(axis=1, keepdims=True)
    pupil = np.where(_AGES < ADULT, 1.0, 0.0)
    student = np.where((_AGES >= ADULT) & (_AGES < 27), np.clip((27 - _AGES) / 14, 0, 1), 0.0)
    retired = np.clip((_AGES - 58) / 11, 0, 1) ** 2
    for occupation, share in enumerate((pupil, student, retired)):
        weights[:, :, occupation] = share
    weights[:, :, vocabulary.WORKING_FROM :] = (
        trades[:, None, :] * (1 - pupil - student - retired)[None, :, None]
    )
    return weights.reshape(-1, len(vocabulary.OCCUPATIONS))


def _disease_weights() -> FloatArray:
    """The weights of diseases by sex and age, interpolated between the ages of the vocabulary."""
    curves = [
        [np.interp(_AGES, vocabulary.DISEASE_AGES, row) for row in of_sex]
        for of_sex in vocabulary.DISEASE_WEIGHTS
    ]
    return np.concatenate([np.stack(columns, axis=1) for columns in curves])


def _visit_weights() -> FloatArray:
    """The weights of numbers of visits by disease: geometric, at most twelve."""
    # The ratio of a geometric distribution from 0 on with this mean.
    ratio = vocabulary.DISEASE_VISITS / (1 + vocabulary.DISEASE_VISITS)
    weights: FloatArray = ratio[:, None] ** np.arange(MAX_VISITS + 1)
    return weights


def _popularity(count: int) -> FloatArray:
    """The weights of names: a few are common, many are rare (about Zipf's law)."""
    return 1 / (np.arange(count) + 8.0)


ZIPS = tuple(f"{prefix}{number:02d}" for prefix in vocabulary.ZIP_PREFIXES for number in range(96))
_QUARTER = WeightedChoice(vocabulary.QUARTER_WEIGHTS)
_RACE = WeightedChoice(vocabulary.RACE_WEIGHTS)
_AGE = WeightedChoice(_age_weights())
_SEX = WeightedChoice(_sex_weights())
_MARITAL = WeightedChoice(_marital_weights())
_EDUCATION = WeightedChoice(_education_weights())
_OCCUPATION = WeightedChoice(_occupation_weights())
_DISEASE = WeightedChoice(_disease_weights())
_VISITS = WeightedChoice(_visit_weights())
_FIRST_NAME = WeightedChoice(_popularity(len(vocabulary.FIRST_NAMES["F"])))
_SURNAME = WeightedChoice(_popularity(len(vocabulary.SURNAMES)))
CHOICES = {
    "quarter": _QUARTER,
    "age": _AGE,
    "sex": _SEX,
    "race": _RACE,
    "marital status": _MARITAL,
    "education": _EDUCATION,
    "occupation": _OCCUPATION,
    "disease": _DISEASE,
    "visits": _VISITS,
}
"""The weights of the facts that are chosen, by the name of each fact."""
