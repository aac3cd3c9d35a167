"""Repairs make broken rows keep a constraint and leave the others alone."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.constraints import (
    FunctionalDependency,
    ImpossibleCombination,
    OrderedColumns,
)
from sfumato.methods.synth.encode.constraints import Determined, InOrder, NeverTogether, repeats
from sfumato.testing.entropy import SeededEntropy


def repaired(repair: Any, table: pa.Table, codes: Any = None) -> pa.Table:
    return repair.repaired(table, codes or {}, SeededEntropy(1))


def test_an_impossible_combination_takes_from_rows_like_it() -> None:
    repair = NeverTogether(ImpossibleCombination((("sex", ("M",)), ("state", ("p", "q")))))
    table = pa.table({"sex": list("MMMFFM"), "state": ["p", "q", "n", "p", "x", None]})
    assert repair.broken(table).tolist() == [True, True, False, False, False, False]
    after = repaired(repair, table)
    assert not repair.broken(after).any()
    assert after.slice(2) == table.slice(2)
    assert set(after.column("state").to_pylist()[:2]) <= {"n", None}
    alone = table.slice(0, 2)
    assert repaired(repair, alone) == alone  # nobody to take from


def test_values_out_of_order_stay_in_their_bin_if_they_can() -> None:
    draw = np.random.default_rng(1)
    low, high = draw.integers(0, 100, 3000), draw.integers(0, 100, 3000)
    table = pa.table({"low": low, "high": high})
    repair = InOrder(OrderedColumns(("low", "high")))
    broken = repair.broken(table)
    assert broken.tolist() == (low > high).tolist()
    after = repaired(repair, table, {"high": high // 10})
    assert not repair.broken(after).any()
    assert after.column("low") == table.column("low")
    new = after.column("high").to_numpy()
    assert (new[~broken] == high[~broken]).all()
    same_bin = broken & (low // 10 == high // 10) & (low % 10 < 9)
    assert (new[same_bin] // 10 == high[same_bin] // 10).mean() > 0.99


def test_missing_values_are_in_order_and_a_chain_is_kept() -> None:
    days = [date(2020, 1, one) for one in (1, 2, 3)]
    table = pa.table(
        {"a": [days[2], None, days[0]], "b": [days[1], days[0], days[1]], "c": [*days[:2], days[2]]}
    )
    repair = InOrder(OrderedColumns(("a", "b", "c")))
    assert repair.broken(table).tolist() == [True, False, False]
    gaps = pa.table(
        {"a": [3, 1, 9], "b": [None, None, None], "c": [2, 5, None], "d": [4, 5, 8]},
        pa.schema([(name, pa.int64()) for name in "abcd"]),
    )
    chain = InOrder(OrderedColumns(("a", "b", "c", "d")))
    assert chain.broken(gaps).tolist() == [True, False, True]  # a > c, and a > d
    mended = chain.repaired(gaps, {}, SeededEntropy(1))
    assert mended.column("c").to_pylist() == [5, 5, None]
    assert mended.column("d").to_pylist()[:2] == [5, 5]
    reals = pa.table({"a": [1, 5], "b": [float("nan"), 2.5]})
    assert InOrder(OrderedColumns(("a", "b"))).broken(reals).tolist() == [False, True]


def test_most_decide_and_it_is_remembered() -> None:
    repair = Determined(FunctionalDependency(("zip",), ("city",)))
    first = pa.table({"zip": [*"aaabbc", None], "city": [*"xxyyzxz"]})
    assert repair.broken(first).sum() == 2
    after = repaired(repair, first)
    assert after.column("city").to_pylist() == ["x", "x", "x", "y", "y", "x", "z"]
    later = pa.table({"zip": list("abd"), "city": list("yyy")})
    assert repaired(repair, later).column("city").to_pylist() == ["x", "y", "y"]
    again = pa.table({"zip": list("dddd"), "city": list("xxxx")})
    assert repaired(repair, again).column("city").to_pylist() == ["y"] * 4


def test_repeats_need_a_whole_key() -> None:
    table = pa.table({"a": [1, 1, 1, None, None], "b": ["x", "x", "y", "x", "x"]})
    assert repeats(table, ["a", "b"]).tolist() == [False, True, False, False, False]
    assert repeats(table, ["b"]).tolist() == [False, True, False, True, True]
