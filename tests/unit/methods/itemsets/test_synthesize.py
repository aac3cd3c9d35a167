from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.methods.itemsets.synthesize import prepare
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    import pyarrow as pa
    from tests.unit.methods.itemsets.conftest import MakeRequest, MakeRows

ITEMS = tuple("abcdefgh")


def drawn() -> list[list[str]]:
    """Baskets in which a goes with b, and hardly ever with c."""
    generator = np.random.default_rng(1)
    baskets = []
    for _ in range(2_000):
        basket = {str(one) for one in generator.choice(list("defgh"), size=2)}
        basket |= {"a", "b"} if generator.random() < 0.4 else {"c"}
        baskets.append(sorted(basket))
    return baskets


def baskets_of(table: pa.Table) -> list[set[str]]:
    found: dict[int, set[str]] = {}
    for owner, item in zip(table["basket"].to_pylist(), table["item"].to_pylist(), strict=True):
        found.setdefault(owner, set()).add(item)
    return list(found.values())


def test_a_twin_has_the_sizes_items_and_pairs_of_the_data(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    true = drawn()
    request = make_request(max_rows=4, values=ITEMS, epsilon=10)
    twin = baskets_of(prepare(request).release(make_rows(request, true), SeededEntropy(1))["shop"])
    assert len(twin) == pytest.approx(len(true), rel=0.02)
    for one in (Counter(map(len, twin)), Counter(i for b in twin for i in b)):
        assert sum(one.values()) > 0
    sizes, true_sizes = Counter(map(len, twin)), Counter(map(len, true))
    assert all(abs(sizes[one] - true_sizes[one]) < 80 for one in range(1, 5))
    items, true_items = (Counter(i for b in many for i in b) for many in (twin, true))
    assert all(items[one] == pytest.approx(true_items[one], abs=120) for one in ITEMS)

    def both(many: list[set[str]], pair: str) -> int:
        return sum(set(pair) <= set(one) for one in many)

    assert both(twin, "ab") > 0.75 * both([set(one) for one in true], "ab")
    assert both(twin, "ac") < 100


def test_its_parts_cost_the_price_together(make_request: MakeRequest) -> None:
    for rated in (False, True):
        method = prepare(make_request(values=ITEMS, rated=rated, epsilon=1))
        assert total(method.event, basic_price) == (Fraction(1), Fraction(0))


def test_a_twin_of_ratings_has_ratings_of_the_scale(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(values=ITEMS, rated=True, epsilon=8)
    rows = make_rows(request, drawn(), stars=4)
    twin = prepare(request, rows=50).release(rows, SeededEntropy(1))["shop"]
    stars = np.array(twin["stars"].to_pylist())
    assert twin["basket"].to_pylist()[-1] <= 50
    assert set(stars.tolist()) <= {1, 2, 3, 4, 5}
    assert stars.mean() == pytest.approx(4, abs=0.3)


def test_nothing_in_the_data_gives_a_table_all_the_same(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(epsilon=1, delta=Fraction(1, 10**6))
    method = prepare(request)
    twin = method.release(make_rows(request, []), SeededEntropy(1))["shop"]
    assert twin.schema.names == method.tables["shop"].schema.names
    assert twin.num_rows == 0
