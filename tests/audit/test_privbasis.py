"""PrivBasis costs what it claims: exact losses along transcripts, and every small neighbour."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from tests.fixtures.transactions import added, replaced, transactions

from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.itemsets import privbasis
from sfumato.methods.itemsets.privbasis import PrivBasis
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import Spending
from sfumato.testing.audit import audit, largest_loss
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

EPSILON = Fraction(1)
KINDS = 6
MOST = ((0, 1),) * 300
"""So many have the same that choosing anything else costs the whole share of the choice."""
ADDED = ((*MOST, (2, 3)), (*MOST, (2, 3), (0, 1)))
REPLACED = ((*MOST, (2, 3), (0, 1)), (*MOST, (2, 3), (3, 4)))


def method(relation: Neighbours, *, rows: int = 1, chosen: bool = True) -> PrivBasis:
    unit = Entity("p", rows, relation=relation)
    return PrivBasis(spending=Spending(epsilon=EPSILON), unit=unit, k=6, chosen=chosen)


def loss(of: PrivBasis, pair: Any, tries: int = 8) -> float:
    """The largest loss along a transcript of everything that is chosen and measured."""
    nobody = cast("Entropy", None)  # answers are prescribed, not drawn
    return largest_loss(
        lambda table: of.measure(transactions(table, KINDS), nobody), pair, tries=tries
    )


@pytest.mark.parametrize("few", [1, 10])
@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize(
    ("relation", "pair"), [(Neighbours.ADD_REMOVE, ADDED), (Neighbours.REPLACE_ONE, REPLACED)]
)
def test_no_transcript_costs_more(
    relation: Neighbours, pair: Any, chosen: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all items in one base, and with several bases and pairs that are chosen."""
    monkeypatch.setattr(privbasis, "_ONE_BASE", few)
    assert 0.6 < loss(method(relation, chosen=chosen), pair) <= EPSILON + Fraction(1, 10**9)


def test_several_transactions_of_one_person_cost_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privbasis, "_ONE_BASE", 1)
    pair = ((*MOST, (2, 3)), (*MOST, (2, 3), (0, 1), (0, 1)))
    assert 0.6 < loss(method(Neighbours.ADD_REMOVE, rows=2), pair) <= EPSILON + Fraction(1, 10**9)
    assert loss(method(Neighbours.ADD_REMOVE), pair) > EPSILON


@pytest.mark.parametrize(
    ("relation", "tables"),
    [(Neighbours.ADD_REMOVE, added(3, 2)), (Neighbours.REPLACE_ONE, replaced(3, 2))],
)
def test_no_small_neighbour_moves_more_than_is_said(relation: Neighbours, tables: Any) -> None:
    """Bins by w (2 w), counts and pairs by one and all the same way, the distance of ranks too."""
    apart = 1 if relation is Neighbours.ADD_REMOVE else 2
    of = method(relation)
    bases = [np.array([0, 1]), np.array([1, 2]), np.array([2])]
    moved = {"bins": 0, "counts": 0, "level": 0}
    for pair in tables:
        held = [transactions(table, 3) for table in pair]
        found = [one.profiles(np.arange(3)) for one in held]
        bins = [np.concatenate([one.bins(base) for base in bases]) for one in found]
        moved["bins"] = max(moved["bins"], int(np.abs(bins[1] - bins[0]).sum()))
        step = found[1].pairs - found[0].pairs
        moved["counts"] = max(moved["counts"], int(np.abs(step).max()))
        assert relation is Neighbours.REPLACE_ONE or step.min() >= 0
        scores = [_missed(of, one) for one in held]
        moved["level"] = max(moved["level"], int(np.abs(scores[1] - scores[0]).max()))
    noise = of.noise(len(bases), Fraction(1))
    assert moved["bins"] == noise.l1_sensitivity == apart * len(bases)  # type: ignore[union-attr]
    assert moved["counts"] == 1
    assert 1 <= moved["level"] <= apart


def _missed(of: PrivBasis, held: Any) -> NDArray[np.int64]:
    """The scores that a number of items is chosen by."""
    counts = held.counts()
    return of.rank_distances(counts, of.rank(counts, held))


def bins(noise: Geometric) -> Any:
    """Two bases of one item each, many times."""

    def outputs(people: int, count: int, entropy: Entropy) -> NDArray[Any]:
        return noise.steps(np.full((count, 2), people), entropy)

    return outputs


def test_bins_of_two_bases_are_as_loud_as_both_ask_and_no_louder() -> None:
    noise = method(Neighbours.ADD_REMOVE).noise(2, Fraction(1))
    assert isinstance(noise, Geometric)
    found = audit(bins(noise), (0, 1), Pure(epsilon=EPSILON), entropy=SeededEntropy(1))
    assert not found.violated, found.sentence()
    assert found.power > 0.8
    quiet = method(Neighbours.ADD_REMOVE).noise(1, Fraction(1))
    assert isinstance(quiet, Geometric)
    wrong = audit(bins(quiet), (0, 1), Pure(epsilon=EPSILON), entropy=SeededEntropy(1))
    assert wrong.violated, wrong.sentence()
