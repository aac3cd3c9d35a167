"""Every criterion keeps the promises that searches prune by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.anonymize.classes import Classes, Original, from_matrix
from sfumato.anonymize.criteria import (
    BetaLikeness,
    Criterion,
    DeltaDisclosure,
    DeltaPresence,
    DistinctDiversity,
    EntropyDiversity,
    FolkDiversity,
    KAnonymity,
    KMap,
    RecursiveDiversity,
    TCloseness,
)
from sfumato.data.schema.hierarchy import Taxonomy

if TYPE_CHECKING:
    from numpy.typing import NDArray

TREE = Taxonomy.build(list("abcd"), [["x", "x", "y", "y"], ["x", "x", "y", "y"]], missing=False)
ORIGINAL = Original("s", np.array([40, 30, 20, 10]), TREE, np.arange(4, dtype=np.int32))
CRITERIA: list[Criterion] = [
    KAnonymity(5),
    KMap(30),
    DistinctDiversity(3, of="s"),
    EntropyDiversity(2, of="s"),
    EntropyDiversity(3, of="s"),
    FolkDiversity(2, of="s"),
    RecursiveDiversity(2, of="s", c="1.5"),
    RecursiveDiversity(3, of="s", c=3),
    TCloseness("1/3", of="s"),
    TCloseness("0.2", of="s", distance="ordered"),
    TCloseness("0.25", of="s", distance="hierarchy"),
    DeltaDisclosure("1.2", of="s"),
    BetaLikeness("0.5", of="s"),
    DeltaPresence("0.1", "0.5"),
]
PAIRS = 20_000


def classes(counts: NDArray[np.int64], people: NDArray[np.int64]) -> Classes:
    return Classes(counts.sum(axis=1), {"s": from_matrix(counts, ORIGINAL)}, people)


def draw(seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Classes of up to 20 rows in four values, each with at least one row."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 6, (PAIRS, 4)) * (random.random((PAIRS, 4)) < 0.7)
    counts[counts.sum(axis=1) == 0, 0] = 1
    return counts, counts.sum(axis=1) + random.integers(0, 60, PAIRS)


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_traits_and_consequence_hold(criterion: Criterion) -> None:
    (one, few), (other, many) = draw(1), draw(2)
    first = criterion.holds(classes(one, few))
    second = criterion.holds(classes(other, many))
    union = criterion.holds(classes(one + other, few + many))
    assert 100 < first.sum() < PAIRS - 100
    assert criterion.union_closed
    assert union[first & second].all()
    if criterion.absorbing:
        assert union[first].all()
    else:
        assert not union[first].all()
    if criterion.consequence is not None:
        assert criterion.consequence.absorbing
        assert criterion.consequence.holds(classes(one, few))[first].all()
    assert one.sum(axis=1)[first].min() >= criterion.smallest
