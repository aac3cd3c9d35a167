"""Each kind of items foretells the tables that it releases: places are checked before a charge."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from sfumato.methods.itemsets import counts, frequent, ratings, synthesize
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tests.unit.methods.itemsets.conftest import MakeRequest, MakeRows

KINDS = (
    counts.prepare,
    counts.prepare_itemsets,
    frequent.prepare,
    counts.prepare_search_log,
    ratings.prepare,
    synthesize.prepare,
)


@pytest.mark.parametrize("values", [None, ("tea", "milk", "salt")])
@pytest.mark.parametrize("prepare", KINDS)
def test_tables_are_as_foretold(
    prepare: Callable[..., Any],
    values: Sequence[str] | None,
    make_request: MakeRequest,
    make_rows: MakeRows,
) -> None:
    request = make_request(values=values, rated=True, epsilon=5, delta=Fraction(1, 10**4))
    method = prepare(request)
    released = method.release(make_rows(request, [["tea", "milk"]] * 90), SeededEntropy(1))
    assert {name: one.schema for name, one in released.items()} == {
        name: one.schema for name, one in method.tables.items()
    }
    assert all(one.num_rows for one in released.values())
