"""A recoding applied in the engine releases what was decided, on every engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.release.recoding import ByColumn, ByRow, ColumnMap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.data.engines.base import Engine
    from sfumato.release.recoding import Recoding

    Open = Callable[[pa.Table], Engine]

PEOPLE = pa.table(
    {
        "name": ["Ann", "Bob", "Cid", "Dot", "Eve", "Fay"],
        "zip": ["53715", "53715", "53703", None, "53706", "53703"],
        "age": pa.array([28, 28, 33, 33, None, 45], pa.int64()),
        "disease": ["flu", "cold", "flu", None, "flu", "gout"],
    }
)
ZIP = ColumnMap(
    "zip",
    pa.array(["53703", "53706", "53715", None]),
    pa.array(["5370*", "5370*", "5371*", None]),
    pa.array([0, 0, 1, 2], pa.int64()),
)
AGE = ColumnMap(
    "age",
    pa.array([28, 33, 45, None], pa.int64()),
    pa.array(["20-39", "20-39", "40-59", None]),
    pa.array([0, 0, 1, 2], pa.int64()),
)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def released(engine: Engine, recoding: Recoding) -> pa.Table:
    with recoding.released(engine, engine.table) as query:
        return engine.run(query)


def test_columns_are_released_under_their_labels_and_sorted(open_engine: Open) -> None:
    engine = open_engine(PEOPLE)
    nothing = pa.table({"zip": pa.array([], pa.int64()), "age": pa.array([], pa.int64())})
    recoding = ByColumn((ZIP, AGE), nothing, unchanged=("disease",))
    with recoding.released(engine, engine.table) as query:
        released = engine.run(query)
    assert released.column_names == ["zip", "age", "disease"]
    assert rows(released) == [
        ("5370*", "20-39", "flu"),
        ("5370*", "40-59", "gout"),
        ("5370*", None, "flu"),
        ("5371*", "20-39", "cold"),
        ("5371*", "20-39", "flu"),
        (None, "20-39", None),
    ]


def test_suppressed_combinations_are_left_out_missing_ones_too(open_engine: Open) -> None:
    engine = open_engine(PEOPLE)
    gone = pa.table({"zip": pa.array([2, 0], pa.int64()), "age": pa.array([0, 2], pa.int64())})
    recoding = ByColumn((ZIP, AGE), gone)
    with recoding.released(engine, engine.table) as query:
        released = engine.run(query)
    assert rows(released) == [
        ("5370*", "20-39"),
        ("5370*", "40-59"),
        ("5371*", "20-39"),
        ("5371*", "20-39"),
    ]


def test_rows_with_a_value_outside_the_maps_are_not_released(open_engine: Open) -> None:
    engine = open_engine(PEOPLE)
    some = ColumnMap("zip", pa.array(["53715"]), pa.array(["5371*"]), pa.array([0], pa.int64()))
    recoding = ByColumn((some,), pa.table({"zip": pa.array([], pa.int64())}))
    with recoding.released(engine, engine.table) as query:
        assert rows(engine.run(query)) == [("5371*",), ("5371*",)]


def test_shares_of_a_combination_are_dealt_out_in_the_right_numbers(open_engine: Open) -> None:
    table = pa.table({"zip": ["a"] * 70 + ["b"] * 30 + [None] * 5, "serial": list(range(105))})
    engine = open_engine(table)
    raw = ColumnMap(
        "zip",
        pa.array(["a", "b", None]),
        pa.array(["a", "b", None]),
        pa.array([0, 1, 2], pa.int64()),
    )
    shares = pa.table(
        {
            "raw": pa.array([1, 0, 0, 2], pa.int64()),
            "rows": pa.array([30, 40, 25, 5], pa.int64()),
            "zip": ["a-b", "a", "a-b", None],
            "group": pa.array([1, 2, 1, 3], pa.int64()),
        }
    )
    recoding = ByRow((raw,), shares, unchanged=("serial",))
    first, again, other = (
        released(engine, one) for one in (recoding, recoding, replace(recoding, key="another"))
    )
    numbers = Counter(zip(first["zip"].to_pylist(), first["group"].to_pylist(), strict=True))
    assert numbers == {("a-b", 1): 55, ("a", 2): 40, (None, 3): 5}
    assert len(set(first["serial"].to_pylist())) == 100
    assert first.equals(again)
    # Two deals of 65 of 70 rows into 40 and 25 agree with probability below 1e-18.
    assert first["serial"].to_pylist() != other["serial"].to_pylist()


ODD = pa.table(
    {
        "zip": ["a"] * 64,
        "real": pa.array([0.0, -0.0, float("nan"), float("inf"), None, 1e300, 0.1, 5e-324] * 8),
        "text": ["1:a", "1", ":", "?", None, "", "ä\U0001f600", "a\nb'\\"] * 4 + ["twin"] * 32,
        "flag": [True, None, False, True] * 16,
    }
)


def test_odd_values_are_dealt_the_same_way_each_time(open_engine: Open) -> None:
    engine = open_engine(ODD)
    maps = (ColumnMap("zip", pa.array(["a"]), pa.array(["a"]), pa.array([0], pa.int64())),)
    shares = pa.table(
        {
            "raw": pa.array([0] * 4, pa.int64()),
            "rows": pa.array([16] * 4, pa.int64()),
            "group": pa.array([1, 2, 3, 4], pa.int64()),
        }
    )
    recoding = ByRow(maps, shares, unchanged=("real", "text", "flag"))
    first, again = (Counter(map(str, rows(released(engine, recoding)))) for _ in range(2))
    assert first == again
    assert first.total() == 64


def test_equal_rows_are_dealt_like_any_others(open_engine: Open) -> None:
    """Half of the rows are one row many times; each group draws from all, as from one urn."""
    twins, groups = 300, 60
    table = pa.table({"zip": ["a"] * 600, "serial": [*range(twins), *([-1] * twins)]})
    engine = open_engine(table)
    maps = (ColumnMap("zip", pa.array(["a"]), pa.array(["a"]), pa.array([0], pa.int64())),)
    shares = pa.table(
        {
            "raw": pa.array([0] * groups, pa.int64()),
            "rows": pa.array([10] * groups, pa.int64()),
            "group": pa.array(range(groups), pa.int64()),
        }
    )
    dealt = released(engine, ByRow(maps, shares, unchanged=("serial",)))
    pairs = zip(dealt["group"].to_pylist(), dealt["serial"].to_pylist(), strict=True)
    found = Counter(group for group, serial in pairs if serial == -1)
    # Twins of a group are hypergeometric: 5 on average, variance 2.46. The sum of squares of all
    # deviations, over that variance, is near chi-squared of 59 degrees: beyond 136 below 1e-6 and,
    # with twins side by side, above 600.
    spread = sum((found[group] - 5) ** 2 for group in range(groups)) / 2.46
    assert spread < 136


def test_whole_shares_need_no_dealing(open_engine: Open) -> None:
    engine = open_engine(PEOPLE)
    shares = pa.table(
        {
            "raw": pa.array([0, 2], pa.int64()),
            "rows": pa.array([3, 1], pa.int64()),
            "zip": ["near", None],
        }
    )
    whole = ByRow((ZIP,), shares, unchanged=("disease",), undivided=True)
    assert released(engine, whole).equals(released(engine, replace(whole, undivided=False)))


def test_a_recoding_is_written_to_a_file(open_engine: Open, tmp_path: Path) -> None:
    engine = open_engine(PEOPLE)
    suppressed = pa.table({"zip": pa.array([1], pa.int64())})
    recoding = ByColumn((ZIP,), suppressed, unchanged=("age", "disease"))
    with recoding.released(engine, engine.table) as query:
        engine.write(query, tmp_path / "out.csv")
    written = (tmp_path / "out.csv").read_text().splitlines()
    assert written == ["zip,age,disease", "5370*,33,flu", "5370*,45,gout", "5370*,,flu", ",33,"]
