"""Baskets of a grocery and of an online shop, where ../shared/data has them."""

from __future__ import annotations

import csv
import gzip
import time
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from sfumato.data.schema.hierarchy import Taxonomy
from sfumato.methods.itemsets.baskets import Baskets
from sfumato.methods.itemsets.km_anonymity import ItemTree, global_recoding, violations

DATA = Path(__file__).parents[5] / "shared" / "data" / "sets"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not there")


def rows(name: str) -> list[dict[str, str]]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as stream:
        return list(csv.DictReader(stream))


def test_groceries_at_k_5_m_2_by_brute_force() -> None:
    with (DATA / "groceries_items.csv").open() as stream:
        groups = {
            one["item"]: (one["level1"], f"{one['level2']} in {one['level1']}")
            for one in csv.DictReader(stream)
        }
    names = sorted(groups, key=lambda one: (*groups[one], one))
    steps = [[groups[one][1] for one in names], [f"all {groups[one][0]}" for one in names]]
    place = {one: number for number, one in enumerate(names)}
    listed = [[place[one] for one in row["items"].split(";")] for row in rows("groceries")]
    pairs = Counter(one for held in listed for one in combinations(sorted(held), 2))
    first, second = sorted((place["other vegetables"], place["whole milk"]))
    assert pairs[first, second] == 736
    tree = ItemTree.of(Taxonomy.build(names, steps, missing=False))
    found = global_recoding(Baskets.from_lists(listed, len(names)), tree, 5, 2)
    cut = found.cuts[0].tolist()
    released = [sorted({cut[item] for item in held}) for held in listed]
    for size in (1, 2):
        assert min(Counter(s for held in released for s in combinations(held, size)).values()) >= 5
    assert found.loss < 0.08


@pytest.mark.slow
def test_25_900_invoices_at_k_5_m_2_take_less_than_a_minute() -> None:
    pairs = {(one["invoice"], one["stock_code"]) for one in rows("online_retail")}
    invoices = {one: number for number, one in enumerate(sorted({one for one, _ in pairs}))}
    codes = {one: number for number, one in enumerate(sorted({one for _, one in pairs}))}
    listed: list[list[int]] = [[] for _ in invoices]
    for invoice, code in pairs:
        listed[invoices[invoice]].append(codes[code])
    assert (len(invoices), len(codes)) == (25_900, 4_070)
    steps = [[f"{one[:length]}~" for one in codes] for length in (4, 3, 2, 1)]
    tree = ItemTree.of(Taxonomy.build(list(codes), steps, missing=False))
    baskets = Baskets.from_lists(listed, len(codes))
    begin = time.process_time()
    found = global_recoding(baskets, tree, 5, 2, suppress=len(pairs) // 20)
    assert time.process_time() - begin < 60
    assert violations(found.baskets, 5, 2) is None
    assert found.loss < 0.02
