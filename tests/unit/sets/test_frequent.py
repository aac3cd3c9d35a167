from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mechanisms.spending import Spending
from sfumato.privacy.units import Neighbours
from sfumato.sets.frequent import prepare
from sfumato.sets.profiles import PersonSets
from sfumato.sets.reading import ItemFacts
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from .conftest import MakeRequest, MakeRows

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
    assert caught.value.code == "delta_missing"
    request = make_request(epsilon=4, delta=Fraction(1, 10**6))
    rows = make_rows(request, [["often", "tea"]] * 900 + [["once", "tea"]])
    method = prepare(request, k=10)
    released = method.release(rows, SeededEntropy(1))["frequent"]
    assert {*released["item_1"].to_pylist(), *released["item_2"].to_pylist()} == {
        "often", "tea", None,
    }  # fmt: skip
    assert method.parameters["public"] is False
    assert method.error["threshold"] > 1


def test_a_delta_makes_choices_surer(make_request: MakeRequest) -> None:
    plain = prepare(make_request(values=WORDS, epsilon=1), k=100)
    paid = prepare(make_request(values=WORDS, epsilon=1, delta=Fraction(1, 10**6)), k=100)
    assert paid.basis.reach < plain.basis.reach / 2


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
        assert caught.value.code == "option_not_whole"
