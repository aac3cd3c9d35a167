"""What is kept of a person depends on that person alone, and is the same on every engine."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.frequencies import count
from sfumato.data.schema.unit import Entity
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.data.engines.base import Engine

    Open = Callable[[pa.Table], Engine]
    Row = tuple[str | None, str | None, int]


def rows_of_a_town(people: int, seed: int) -> list[Row]:
    """Rows (person, city, year) with people of very different activity, some without a name."""
    draw = np.random.default_rng(seed)
    rows: list[Row] = []
    for person in range(people):
        for _ in range(int(draw.geometric(0.12))):
            city = ["A", "B", "C", "D", None][draw.integers(5)]
            rows.append((f"p{person}" if person else None, city, int(draw.integers(1990, 1993))))
    return rows


def as_table(rows: Sequence[Row]) -> pa.Table:
    people, cities, years = zip(*rows, strict=True)
    return pa.table(
        {"who": list(people), "city": list(cities), "year": pa.array(years, pa.int64())}
    )


def kept_by_hand(rows: Sequence[Row], unit: Entity, salt: str) -> Counter[tuple[str | None, int]]:
    """The definition, person by person, in Python."""
    of_person: dict[str, Counter[tuple[str | None, int]]] = defaultdict(Counter)
    for person, city, year in rows:
        if person is not None:
            of_person[person][city, year] += 1
    kept: Counter[tuple[str | None, int]] = Counter()
    for person, groups in of_person.items():
        kept.update(_kept_of(person, groups, unit, salt))
    return kept


def _kept_of(
    person: str, groups: Counter[tuple[str | None, int]], unit: Entity, salt: str
) -> dict[tuple[str | None, int], int]:
    def digest(*parts: object) -> str:
        text = ":".join([salt, *("?" if part is None else str(part) for part in parts)])
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    if sum(groups.values()) <= unit.max_rows and len(groups) <= unit.groups:
        return dict(groups)
    limit = unit.groups if unit.groups < unit.max_rows else None
    first = sorted(groups, key=lambda key: digest(person, *key))[:limit]
    total = sum(groups[key] for key in first)
    if total <= unit.max_rows:
        return {key: groups[key] for key in first}
    offset = int(digest(person)[:7], 16) % total
    kept, before = {}, 0
    for key in first:
        after = before + groups[key]
        kept[key] = (after * unit.max_rows + offset) // total - (
            before * unit.max_rows + offset
        ) // total
        before = after
    return kept


def counted(engine: Engine, unit: Entity, salt: str) -> Counter[tuple[str | None, int]]:
    table = count(engine, engine.table, ["city", "year"], unit=unit, salt=salt).table()
    found = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    return Counter({(city, year): number for city, year, number in found if number})


@pytest.mark.parametrize(
    "unit", [Entity("who", 3, 2), Entity("who", 4)], ids=["rows and groups", "rows"]
)
def test_kept_rows_follow_the_definition(open_engine: Open, unit: Entity) -> None:
    rows = rows_of_a_town(40, seed=1)
    engine = open_engine(as_table(rows))
    assert counted(engine, unit, "salt") == +kept_by_hand(rows, unit, "salt")


def test_order_of_rows_does_not_matter(open_quick_engine: Open) -> None:
    rows = rows_of_a_town(30, seed=2)
    unit = Entity("who", 3, 2)
    assert counted(open_quick_engine(as_table(rows)), unit, "s") == counted(
        open_quick_engine(as_table(rows[::-1])), unit, "s"
    )


def test_removing_a_person_removes_only_what_was_kept_of_that_person(
    open_quick_engine: Open,
) -> None:
    rows = rows_of_a_town(12, seed=3)
    unit = Entity("who", 3, 2)
    everybody = counted(open_quick_engine(as_table(rows)), unit, "s")
    for person in ("p1", "p5", "p11"):
        others = counted(
            open_quick_engine(as_table([r for r in rows if r[0] != person])), unit, "s"
        )
        lost = everybody.copy()
        lost.subtract(others)
        assert min(lost.values()) >= 0
        assert sum(lost.values()) <= unit.max_rows
        assert sum(1 for number in lost.values() if number) <= unit.groups


def test_a_new_salt_keeps_other_rows(open_quick_engine: Open) -> None:
    engine = open_quick_engine(as_table(rows_of_a_town(40, seed=4)))
    unit = Entity("who", 2, 1)
    assert counted(engine, unit, "one") != counted(engine, unit, "two")


def test_each_row_is_kept_with_the_same_probability() -> None:
    """99 rows in A and 1 in B, 10 kept: B survives in one salt of ten, not in one of two.

    Of 2,000 salts about 200 keep B; 300 would be 7.4 standard deviations away, and so would 100.
    """
    unit = Entity("who", 10)
    groups: Counter[tuple[str | None, int]] = Counter({("A", 1): 99, ("B", 1): 1})
    survivors = sum(_kept_of("p", groups, unit, str(salt))["B", 1] for salt in range(2_000))
    assert 100 < survivors < 300


def test_counting_by_person_needs_a_salt(open_quick_engine: Open) -> None:
    engine = open_quick_engine(as_table(rows_of_a_town(3, seed=5)))
    with pytest.raises(ParameterError) as refusal:
        count(engine, engine.table, ["city"], unit=Entity("who", 1))
    assert refusal.value.code == "parameter_missing"


def test_F13_nobody_can_craft_a_key_that_survives(open_quick_engine: Open) -> None:
    """4,000 people with the same four keys, one kept of each: every key is kept equally often.

    Chi-square with 3 degrees of freedom is above 31 with probability below 1e-6.
    """
    rows: list[Row] = [(f"p{n}", city, 1990) for n in range(4_000) for city in "ABCD"]
    engine = open_quick_engine(as_table(rows))
    kept = counted(engine, Entity("who", 4, 1), "salt")
    assert sum(kept.values()) == 4_000
    assert sum((number - 1_000) ** 2 / 1_000 for number in kept.values()) < 31


def many_texts(texts: int) -> pa.Table:
    """Somebody with one text, and one person with a different text in each of many rows."""
    return pa.table(
        {"who": ["first", *["many"] * texts], "text": ["x", *(f"t{at}" for at in range(texts))]}
    )


def test_F30_no_count_of_zero_leaves_the_counter(open_engine: Open) -> None:
    """Of a person's 500 texts one is kept; the other 499 are no keys with a count of 0."""
    engine = open_engine(many_texts(500))
    found = count(engine, engine.table, ["text"], unit=Entity("who", 1), salt="s")
    assert found.counts.tolist() == [1, 1]
    assert len(found.axes[0].decode(found.codes[0])) == 2


def test_F30_a_million_texts_of_one_person_give_one_key(
    duckdb_engine: Callable[[pa.Table], Engine],
) -> None:
    """Keys of zero rows would each get a chance to pass a threshold: a million of them do pass."""
    engine = duckdb_engine(many_texts(1_000_000))
    found = count(engine, engine.table, ["text"], unit=Entity("who", 1), salt="s")
    assert found.counts.tolist() == [1, 1]
