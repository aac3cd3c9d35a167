"""Marginals are counted by tables, never by all columns at once, and few passages suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.counts import frequencies, request_for, whole_numbers

from sfumato.data.counting.frequencies import Frequencies
from sfumato.methods.publish.marginals import prepare
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Sequence

BOTH: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": 1}]


class Watched:
    """A counter that keeps what it was asked for."""

    def __init__(self, counts: Frequencies) -> None:
        self.counts, self.asked = counts, list[tuple[str, ...]]()

    def of(self, names: Sequence[str]) -> Frequencies:
        self.asked.append(tuple(names))
        return self.counts.marginal(names)


@pytest.mark.parametrize("cost", BOTH, ids=["laplace", "gaussian"])
def test_tables_are_counted_one_by_one_where_all_columns_have_too_many_cells(cost: Any) -> None:
    """Twenty columns of a thousand values: no number of 64 bits tells their combinations apart."""
    axes = whole_numbers(*[1000] * 20)
    codes = np.random.default_rng(8).integers(0, 1000, size=(20, 5000))
    counter = Watched(Frequencies(axes, tuple(codes), np.ones(5000, dtype=np.int64)))
    pairs = ",".join(f"{chr(97 + one)}*{chr(98 + one)}" for one in range(0, 20, 2))
    method = prepare(request_for(axes, **cost), of=pairs)
    released = method.release(counter, SeededEntropy(3))
    assert len(released) == 10
    assert max(map(len, counter.asked)) <= 2
    told = np.asarray(released["a,b"]["count"]).sum()
    assert abs(told - 5000) < 8 * 1000 * method.error["tables"]["a,b"]["sd"]


def test_small_tables_are_counted_together_in_few_passages() -> None:
    axes = whole_numbers(*[4] * 12)
    dense = np.random.default_rng(1).poisson(3, [2] * 12)
    counter = Watched(frequencies(axes, dense))
    method = prepare(request_for(axes, rho=1), way=2)
    released = method.release(counter, SeededEntropy(3))
    alone = method.release(counter.counts, SeededEntropy(3))
    assert len(method.strategy.measured) == 79
    assert len(counter.asked) < 20
    assert all(released[name].equals(table) for name, table in alone.items())
