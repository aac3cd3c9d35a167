"""Lists that are told when they change, by the exact loss along their transcripts.

Nothing is drawn, so a loss above the claim is a proof. The sparse vector's own law is audited with
the mechanisms; here it is what it is asked, how often, and for what noise it leaves a price.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.stream.histograms import TopChanges, lead
from sfumato.methods.stream.request import StreamRequest
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.sparse_vector import ABOVE
from sfumato.testing.audit import largest_loss

EPSILON = 1
ROUNDING = 1e-9
REPLACED = Rows(relation=Neighbours.REPLACE_ONE)
SESSIONS: list[Any] = []


class _Watched(TopChanges):
    """The same with one run of the sparse vector from beginning to end, which can be prescribed."""

    def begin(self, entropy: Any) -> Any:
        SESSIONS[:] = [self.sparse.start(self.margin, entropy, runs=1)]
        cells = self.request.cells
        return {"counts": [0] * cells, "line": 0, "changed": 0, "list": [], "told": [0] * cells}

    def _is_outgrown(self, state: Any, running: Any, entropy: Any) -> bool:
        del entropy
        asked = np.array([lead(running, state["list"])])
        return bool(SESSIONS[0].ask(asked).verdicts[0] == ABOVE)


class _Uncounted(_Watched):
    """Wrong: every list is counted with noise as if it were the only one."""

    @property
    def noise(self) -> Geometric:
        return Geometric(epsilon=self._epsilon / 2, l1_sensitivity=self._moved)


class _Unpaid(_Watched):
    """Wrong: all of epsilon is spent on counts, as if asking had been free."""

    @property
    def noise(self) -> Geometric:
        return Geometric(epsilon=self._epsilon / (self.changes + 1), l1_sensitivity=self._moved)


def watched(kind: type[TopChanges], unit: Any) -> Any:
    facts = StreamRequest(unit=unit, price=price(epsilon=EPSILON), cells=3)
    made = kind(facts, 1, 2, 3)

    def run(periods: Any) -> None:
        state = made.begin(cast("Any", None))
        for counts in periods:
            state, _ = made.step(state, np.array(counts), cast("Any", None))

    return run


def pair(*change: int) -> tuple[Any, Any]:
    quiet = [[5, 5, 5], [6, 5, 5], [5, 9, 5], [5, 5, 9], [5, 5, 5]]
    return quiet, [[one + more for one, more in zip(quiet[0], change, strict=True)], *quiet[1:]]


@pytest.mark.parametrize(
    ("unit", "change"),
    [(Rows(), (1, 0, 0)), (REPLACED, (1, -1, 0)), (Entity("who", max_rows=2), (0, 2, 0))],
)
def test_a_list_keeps_its_price(unit: Any, change: tuple[int, ...]) -> None:
    loss = largest_loss(watched(_Watched, unit), pair(*change), tries=30)
    assert 0.5 < loss <= EPSILON + ROUNDING


@pytest.mark.parametrize("wrong", [_Uncounted, _Unpaid])
def test_wrong_shares_are_caught(wrong: type[TopChanges]) -> None:
    loss = largest_loss(watched(wrong, Rows()), pair(1, 0, 0), tries=60)
    assert loss > EPSILON + 0.05
    right = largest_loss(watched(_Watched, REPLACED), pair(2, -2, 0), tries=30)
    assert right > EPSILON, "two rows of which one was bounded"
