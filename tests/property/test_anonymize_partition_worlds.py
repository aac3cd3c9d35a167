"""Answers on released tables against enumeration of every possible world of small tables."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.slices import drawn

from sfumato.anonymize.worlds import answer, answer_buckets
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Row = tuple[str, str, int]

AGES, SEXES = range(5), "fm"
SCHEMA = Schema(
    "t",
    (
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 4)),
        Column("sex", Kind.TEXT, Role.QUASI, Values(("f", "m"))),
        Column("pay", Kind.INTEGER, Role.SENSITIVE),
        Column("group", Kind.INTEGER),
    ),
)
PREDICATES: list[tuple[str, Callable[[tuple[int, str]], bool]]] = [
    ("age >= 3", lambda at: at[0] >= 3),
    ("age = 2 AND sex = 'm'", lambda at: at == (2, "m")),
    ("age < 2 OR NOT (sex = 'f')", lambda at: at[0] < 2 or at[1] != "f"),
    ("age IN (0, 4) OR age BETWEEN 1 AND 2", lambda at: at[0] != 3),
    ("age < 2 OR age >= 2", lambda at: at[0] < 2 or at[0] >= 2),
    ("age <> 1 AND sex LIKE '%m%'", lambda at: at[0] != 1 and at[1] == "m"),
    ("2 < age AND age < 2", lambda at: 2 < at[0] < 2),
]
AGGREGATES: list[Literal["COUNT", "SUM", "AVG", "MIN", "MAX"]] = [
    "COUNT", "SUM", "AVG", "MIN", "MAX",
]  # fmt: skip


def frequencies(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Frequencies:
    axes, codes = [], []
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        values = sorted(set(column))
        axes.append(Listed(name, pa.array(values), declared=False))
        codes.append(np.array([values.index(value) for value in column], dtype=np.int32))
    groups = group(codes, [axis.size for axis in axes], np.ones(len(rows), dtype=np.int64))
    first = groups.representatives
    return Frequencies(tuple(axes), tuple(code[first] for code in codes), groups.counts)


def cover(label: str) -> list[int]:
    """The ages under a label, read once more."""
    if label == "*":
        return list(AGES)
    if label.startswith("{"):
        return [int(one) for one in label[1:-1].split(", ")]
    if label.startswith("["):
        low, high = label[1:-1].split(", ")
        return list(range(int(low), int(high) + 1))
    low, _, high = label.partition("-")
    return list(range(int(low), int(high or low) + 1))


def draw(seed: int) -> list[Row]:
    generator = np.random.default_rng(seed)
    labels = ["0", "2", "4", "0-1", "1-3", "[2, 4]", "{0, 3}", "{1, 2, 4}", "*"]
    return [
        (
            labels[generator.integers(len(labels))],
            "fm*"[generator.integers(3)],
            int(generator.integers(-3, 6)),
        )
        for _ in range(generator.integers(1, 6))
    ]


def of(aggregate: str, pay: Sequence[int]) -> float | None:
    if aggregate == "COUNT":
        return len(pay)
    if aggregate == "SUM":
        return sum(pay)
    if not pay:
        return None
    return {"AVG": sum(pay) / len(pay), "MIN": min(pay), "MAX": max(pay)}[aggregate]


def outer(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (None, None)


def ask(aggregate: str) -> str:
    return "COUNT(*)" if aggregate == "COUNT" else f"{aggregate}(pay)"


@drawn(140)
def test_bounds_are_those_of_all_worlds(seed: int) -> None:
    rows = draw(seed)
    text, test = PREDICATES[seed % len(PREDICATES)]
    states = []
    for age, sex, _ in rows:
        cells = list(product(cover(age), SEXES if sex == "*" else sex))
        states.append({test(cell) for cell in cells})
    table = frequencies(("age", "sex", "pay"), rows)
    for aggregate in AGGREGATES:
        worlds = [
            of(aggregate, [row[2] for row, taken in zip(rows, world, strict=True) if taken])
            for world in product(*states)
        ]
        found = answer(f"SELECT {ask(aggregate)} FROM t WHERE {text}", table, SCHEMA)
        assert (found.lower, found.upper) == pytest.approx(outer(worlds))
        if found.estimate is not None:
            assert found.lower is not None
            assert found.upper is not None
            assert found.lower <= found.estimate <= found.upper


@drawn(40)
def test_estimates_are_expectations_under_uniformity(seed: int) -> None:
    rows = draw(seed)
    text, test = PREDICATES[seed % len(PREDICATES)]
    chances = []
    for age, sex, _ in rows:
        cells = list(product(cover(age), SEXES if sex == "*" else sex))
        chances.append(sum(test(cell) for cell in cells) / len(cells))
    table = frequencies(("age", "sex", "pay"), rows)
    found = answer(f"SELECT COUNT(*) FROM t WHERE {text}", table, SCHEMA)
    assert found.estimate == pytest.approx(sum(chances))
    total = sum(chance * row[2] for chance, row in zip(chances, rows, strict=True))
    found = answer(f"SELECT SUM(pay) FROM t WHERE {text}", table, SCHEMA)
    assert found.estimate == pytest.approx(total)


@drawn(140)
def test_tight_labels_leave_no_world_out(seed: int) -> None:
    """Bounds hold every world in which the ends of ranges occur, and are exact with ages alone."""
    rows = draw(seed)[:4]
    if seed % 4 == 0:
        rows = [(*rows[0][:2], row[2]) for row in rows]
    ends = {
        end
        for age, *_ in rows
        if age.startswith("[") or "-" in age
        for end in (cover(age)[0], cover(age)[-1])
    }
    text, test = PREDICATES[seed % len(PREDICATES)]
    alone = all(sex != "*" for _, sex, _ in rows)
    cells = [list(product(cover(age), SEXES if sex == "*" else sex)) for age, sex, _ in rows]
    worlds = [world for world in product(*cells) if ends <= {age for age, _ in world}]
    if not worlds:
        return
    table = frequencies(("age", "sex", "pay"), rows)
    for aggregate in AGGREGATES:
        answers = [
            of(aggregate, [row[2] for row, cell in zip(rows, w, strict=True) if test(cell)])
            for w in worlds
        ]
        sql = f"SELECT {ask(aggregate)} FROM t WHERE {text}"
        found = answer(sql, table, SCHEMA, labels="tight")
        public = answer(sql, table, SCHEMA)
        low, high = outer(answers)
        if low is None or high is None:
            continue
        assert found.lower is not None
        assert found.upper is not None
        assert public.lower is not None
        assert public.upper is not None
        assert public.lower <= found.lower <= low + 1e-9
        assert high - 1e-9 <= found.upper <= public.upper
        one_kind = len({(age, sex) for age, sex, _ in rows}) == 1
        if aggregate in ("COUNT", "SUM") and alone and one_kind:
            assert (found.lower, found.upper) == (low, high)


@drawn(60)
def test_buckets_meet_as_in_all_worlds(seed: int) -> None:
    """Every way to give the values of a group to its rows."""
    generator = np.random.default_rng(seed)
    groups = [1] * int(generator.integers(1, 5)) + [2] * int(generator.integers(1, 4))
    ages = [int(generator.integers(0, 5)) for _ in groups]
    pays = [int(generator.integers(-3, 4)) for _ in groups]
    rows = frequencies(("age", "group"), list(zip(ages, groups, strict=True)))
    values = frequencies(("group", "pay"), list(zip(groups, pays, strict=True)))
    least_age, least_pay = int(generator.integers(0, 5)), int(generator.integers(-3, 4))
    where = f"age >= {least_age} AND pay >= {least_pay}"
    worlds: list[list[int]] = [[]]
    for one in (1, 2):
        mine = [pay for pay, at in zip(pays, groups, strict=True) if at == one]
        old = sum(a >= least_age for a, at in zip(ages, groups, strict=True) if at == one)
        chosen = [[mine[i] for i in c] for c in combinations(range(len(mine)), old)]
        worlds = [w + [p for p in c if p >= least_pay] for w in worlds for c in chosen]
    for aggregate in AGGREGATES:
        found = answer_buckets(
            f"SELECT {ask(aggregate)} FROM t WHERE {where}", rows, values, SCHEMA
        )
        expected = outer(of(aggregate, world) for world in worlds)
        assert (found.lower, found.upper) == pytest.approx(expected)
        if aggregate == "COUNT":
            assert found.estimate == pytest.approx(sum(map(len, worlds)) / len(worlds))
