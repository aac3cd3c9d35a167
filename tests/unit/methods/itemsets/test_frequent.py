from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.methods.itemsets.baskets import ItemFacts
from sfumato.methods.itemsets.frequent import prepare
from sfumato.methods.itemsets.privbasis import NoisySupports, likely_pairs, pair_count
from sfumato.methods.itemsets.transactions import PersonSets
from sfumato.privacy.mechanisms.spending import Spending
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from tests.unit.methods.itemsets.conftest import MakeRequest, MakeRows

WORDS = ("tea", "milk", "salt", "soap", "o'clock")
SHOP = [["tea", "milk", "tea"], ["tea", "milk", "salt", "soap", "o'clock"], ["salt"], ["pear"]]


def test_people_are_counted_once_and_with_all_they_have(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    """One row of a person may count by the unit; a set of items is whole all the same."""
    request = make_request(values=WORDS, max_rows=1, epsilon=1)
    facts = ItemFacts.of(request)
    assert facts.values is not None
    held = PersonSets(facts, make_rows(request, SHOP * 10).data, facts.values)
    assert held.counts().tolist() == [20, 20, 20, 10, 10]
    found = held.profiles(np.array([4, 0, 2]))
    told = {tuple(one): many for one, many in zip(found.marks.tolist(), found.counts, strict=True)}
    assert told == {
        (False, True, False): 10,
        (True, True, True): 10,
        (False, False, True): 10,
        (False, False, False): 10,
    }


def test_more_items_than_bits_of_a_number_are_told_apart(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    names = tuple(f"p{one}" for one in range(130))
    request = make_request(values=names, epsilon=1)
    facts = ItemFacts.of(request)
    assert facts.values is not None
    baskets = [[names[one], names[(one * 7) % 130]] for one in range(130)]
    found = PersonSets(facts, make_rows(request, baskets).data, facts.values).profiles(
        np.arange(130)
    )
    exact = np.zeros((130, 130), dtype=int)
    for one in range(130):
        both = sorted({one, one * 7 % 130})
        exact[np.ix_(both, both)] += 1
    assert (found.pairs == exact).all()


def test_at_a_huge_epsilon_sets_come_with_their_exact_counts(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(values=WORDS, epsilon=1)
    method = prepare(request, k="6", size=2)
    method = replace(
        method, basis=replace(method.basis, spending=Spending(epsilon=Fraction(10**6)))
    )
    released = method.release(make_rows(request, SHOP * 50), SeededEntropy(1))["frequent"]
    true = Counter(
        frozenset(one)
        for basket in SHOP * 50
        for size in (1, 2)
        for one in combinations(sorted(set(basket)), size)
    )
    for row in released.to_pylist():
        named = frozenset({row["item_1"], row["item_2"]} - {None})
        assert row["count"] == true[named]
        assert row["share"] == pytest.approx(row["count"] / 200, abs=1e-6)
        assert 0 <= row["sd"] < 0.1
    assert released["count"].to_pylist() == [100] * 4 + [50] * 2


def test_private_items_need_a_delta_and_pass_a_threshold(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    with pytest.raises(ParameterError) as caught:
        prepare(make_request(epsilon=1))
    assert caught.value.code == "parameter_missing"
    request = make_request(epsilon=4, delta=Fraction(1, 10**6))
    rows = make_rows(request, [["often", "tea"]] * 900 + [["once", "tea"]])
    method = prepare(request, k=10)
    released = method.release(rows, SeededEntropy(1))["frequent"]
    assert {*released["item_1"].to_pylist(), *released["item_2"].to_pylist()} == {
        "often", "tea", None,
    }  # fmt: skip
    assert method.parameters["public"] is False
    assert method.error["threshold"] > 1


def test_a_delta_is_used_where_all_errors_together_become_less(make_request: MakeRequest) -> None:
    """Of few items nothing is chosen, and Laplace's noise on their bins is the smaller one."""
    delta = Fraction(1, 10**6)
    few, many = WORDS, tuple(f"p{one}" for one in range(500))
    for words, k in ((few, 100), (few, 2), (many, 5), (many, 100)):
        plain, paid = (
            prepare(make_request(values=words, epsilon=1, delta=one), k=k) for one in (0, delta)
        )
        off = [one.basis.expected_error(len(words)) for one in (plain, paid)]
        assert off[1] <= off[0]
        assert (paid.basis.spending.rho is not None) is (off[1] < off[0])
        assert paid.basis.spending.rho is None or words is many
        if words is few:
            assert paid.basis.least_noise.stddev == plain.basis.least_noise.stddev
    assert paid.basis.spending.rho is not None  # 100 choices are several times as sure
    assert off[1] < off[0] / 2


@pytest.mark.parametrize("k", [3, 12, 60])
def test_expected_noise_is_that_of_bases(make_request: MakeRequest, k: int) -> None:
    """The part of bins, by the closed form, is that which supports tell of the same bases."""
    basis = prepare(make_request(values=[f"p{one}" for one in range(k)], epsilon=1), k=k).basis
    shares = basis.shares(k, pair_count(k, k))
    plan = basis.plan(k, likely_pairs(k, pair_count(k, k)))
    noise = basis.noise(len(plan), shares["bins"])
    empty = [np.zeros(1 << len(one), dtype=np.int64) for one in plan]
    supports = NoisySupports(plan, empty, noise.variance)
    variances = [supports.sd([one]) ** 2 for one in range(k)]
    assert basis.noise_of_items(k) == pytest.approx(np.mean(variances) ** 0.5)


def test_shares_are_shares_or_nothing(make_request: MakeRequest, make_rows: MakeRows) -> None:
    """Of nobody there is no share; elsewhere noise takes none out of 0 and 1."""
    request = make_request(values=WORDS, epsilon=Fraction(1, 20))
    method = prepare(request, k=12)
    for baskets, known in (([["pear"]], False), ([["tea", "milk"]] * 2000, True)):
        rows = make_rows(request, baskets)
        told = [method.release(rows, SeededEntropy(one))["frequent"] for one in range(6)]
        shares = [share for one in told for share in one["share"].to_pylist()]
        counts = [count for one in told for count in one["count"].to_pylist()]
        assert (None in shares) is not known
        assert all(share is None or 0 <= share <= 1 for share in shares)
        assert min(counts) < 0 or max(counts) > 2000  # noise goes out of it


def test_replaced_people_double_the_noise(make_request: MakeRequest) -> None:
    added, replaced = (
        prepare(make_request(values=WORDS, relation=one, epsilon=1)).basis.least_noise
        for one in (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE)
    )
    assert replaced.scale == 2 * added.scale  # type: ignore[union-attr]


def test_options_out_of_range_are_refused(make_request: MakeRequest) -> None:
    for options in ({"k": 0}, {"k": 10**6}, {"size": 9}):
        with pytest.raises(ParameterError) as caught:
            prepare(make_request(values=WORDS, epsilon=1), **options)
        assert caught.value.code == "parameter_out_of_range"
