from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.methods.itemsets.baskets import ItemFacts, read_items
from sfumato.methods.itemsets.ratings import RatingScale, deduplicated_ratings, prepare
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from tests.unit.methods.itemsets.conftest import MakeRequest, MakeRows


def test_counts_and_means_are_near_the_truth(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(values=tuple("ab"), rated=True, epsilon=8)
    rows = make_rows(request, [["a", "b"]] * 200 + [["a"]] * 100, stars=4)
    released = prepare(request).release(rows, SeededEntropy(1))["ratings"]
    assert released["count"].to_pylist() == pytest.approx([300, 200], abs=12)
    assert released["mean"].to_pylist() == pytest.approx([4, 4], abs=0.2)


def test_nobody_moves_sums_by_more_than_the_noise_is_made_for(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(max_rows=2, values=tuple("abc"), rated=True, epsilon=1)
    scale, facts = RatingScale.of(request, "stars"), ItemFacts.of(request)
    grid = scale.grid
    held = read_items(facts, make_rows(request, [list("abcabc")], stars=5), ratings=grid)
    items, codes = deduplicated_ratings(held, scale, "stars")
    moved = np.abs(2 * codes - scale.last)
    assert len(set(items)) == len(items)
    assert moved.sum() == scale.sums(facts).l1 == 8
    replaced = make_request(max_rows=2, values=tuple("abc"), relation=Neighbours.REPLACE_ONE)
    assert scale.sums(ItemFacts.of(replaced)).l1 == 16


def test_a_table_without_ratings_is_refused(make_request: MakeRequest) -> None:
    with pytest.raises(ParameterError, match="rating = COLUMN") as caught:
        prepare(make_request(delta=Fraction(1, 100), epsilon=1))
    assert caught.value.code == "form_invalid"
