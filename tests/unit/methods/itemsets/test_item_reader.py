from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sfumato.errors import ParameterError
from sfumato.methods.itemsets.baskets import ItemFacts, read_items

if TYPE_CHECKING:
    from tests.unit.methods.itemsets.conftest import MakeRequest, MakeRows

from dataclasses import replace

from sfumato.data.schema.unit import Rows


def test_no_more_different_items_of_a_person_are_kept_than_count(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(max_rows=2)
    facts = ItemFacts.of(request)
    held = read_items(facts, make_rows(request, [list("aaabcdefg"), ["a"]]))
    assert max(held.baskets.sizes) <= facts.items_per_person == 2


def test_what_is_kept_of_a_person_is_not_changed_by_others_or_the_order_of_rows(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(max_rows=2)

    def kept(baskets: list[list[str]]) -> set[str]:
        held = read_items(ItemFacts.of(request), make_rows(request, baskets))
        return {
            held.values[int(i)].as_py() for i in held.items[held.rows["basket"].to_numpy() == 0]
        }

    def wrong(baskets: list[list[str]]) -> set[str]:
        return set(baskets[0][:2])  # a cap in the order of rows, which any rewritten file changes

    first, other = [list("abcdef")], [list("fedcba"), list("abc"), list("xyz")]
    assert kept(first) == kept(other)
    assert wrong(first) != wrong(other)


def test_items_that_are_not_declared_are_left_out(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(values=("b", "a"))
    held = read_items(ItemFacts.of(request), make_rows(request, [["a", "z"], ["z"]]))
    assert held.values.to_pylist() == ["b", "a"]
    assert held.items.tolist() == [1]


def test_a_row_is_nobody_s_basket(make_request: MakeRequest) -> None:
    with pytest.raises(ParameterError, match="max_rows = 20") as caught:
        ItemFacts.of(replace(make_request(), unit=Rows()))
    assert caught.value.code == "unit_unsupported"
