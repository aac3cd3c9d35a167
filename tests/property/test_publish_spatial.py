"""The losses of shapes, computed exactly, stay within what they are said to cost."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.data.counting.axes import Axis, Grid
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Rows
from sfumato.methods.publish import privtree
from sfumato.methods.publish.kdtree import Medians
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.publish.privtree import PrivTree

SIZE = 6
EPSILONS = st.sampled_from(["0.01", "0.1", "1", "3", "10"])


def made(epsilon: str, columns: int, rows: int) -> PrivTree:
    axes: tuple[Axis, ...] = tuple(
        Grid(name, Kind.INTEGER, Bounds(0, 1023), nullable=False) for name in "xyz"[:columns]
    )
    unit = Rows() if rows == 1 else Entity("person", max_rows=rows)
    return privtree.prepare(
        Request(dataset="people", axes=axes, unit=unit, price=price(epsilon=epsilon))
    )


def log_above(tree: PrivTree, count: int, depth: int, *, stay: bool = False) -> float:
    """The logarithm of the chance that a box of so many rows is divided, or stays whole."""
    rate = float(1 / tree.scale)
    biased = max(count - depth * tree.decay, -tree.decay)
    # P(X >= t) = a^t / (1 + a) for t >= 1, a = exp(-rate); divided if X >= 1 - biased.
    # It stays whole if -X >= biased.
    steps = biased if stay else 1 - biased
    if steps >= 1:
        return -rate * steps - math.log1p(math.exp(-rate))
    return math.log1p(-math.exp(-rate * (1 - steps)) / (1 + math.exp(-rate)))


def losses(tree: PrivTree, counts: list[int]) -> tuple[float, float]:
    """The largest losses, of one row that comes and goes, over all depths of the leaf above it."""
    come, gone, split = -math.inf, -math.inf, 0.0
    for depth, count in enumerate(counts):
        before, after = (log_above(tree, count + more, depth, stay=True) for more in (0, 1))
        come, gone = max(come, split + after - before), max(gone, before - after - split)
        before, after = (log_above(tree, count + more, depth) for more in (0, 1))
        split += after - before
    return max(come, split), gone


@settings(max_examples=200, deadline=None)
@given(EPSILONS, st.integers(1, 3), st.integers(1, 5), st.data())
def test_the_shape_of_a_tree_costs_no_more_than_its_share_for_any_counts(
    epsilon: str, columns: int, rows: int, data: st.DataObject
) -> None:
    tree = made(epsilon, columns, rows)
    start = data.draw(st.integers(0, 12 * tree.decay))
    falls = data.draw(st.lists(st.integers(0, 2 * tree.decay), max_size=20))
    counts = [max(start - sum(falls[:place]), 0) for place in range(len(falls) + 1)]
    allowed = float(tree.epsilon) / rows * (1 + 1e-9)
    assert max(losses(tree, counts)) <= allowed


def test_no_more_noise_is_taken_than_the_worst_counts_need() -> None:
    """Counts that decay leaves at 8 d, 7 d, ..., d, 0 and -d take nine tenths of the share."""
    tree = made("0.1", 2, 1)
    come, _ = losses(tree, [8 * tree.decay] * 10)
    assert 0.9 < come / float(tree.epsilon) <= 1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, SIZE - 1), max_size=8), min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, SIZE - 1)), min_size=1, max_size=4),
)
def test_cuts_of_several_boxes_cost_no_more_together_than_one(
    boxes: list[list[int]], person: list[tuple[int, int]]
) -> None:
    """The logarithms of the chances of joint cuts move within a range of epsilon."""
    medians = Medians(epsilon=Fraction(2), sensitivity=Fraction(len(person)))
    spread = 0.0
    for place, rows in enumerate(boxes):
        theirs = [point for box, point in person if box == place]
        moved = np.log(law(medians, rows)) - np.log(law(medians, [*rows, *theirs]))
        spread += float(moved.max() - moved.min())
    assert spread <= float(medians.epsilon) * (1 + 1e-9)


def law(medians: Medians, rows: list[int]) -> NDArray[np.float64]:
    """The chances of all cuts of a box."""
    rate = float(medians.epsilon / (2 * medians.sensitivity))
    below = np.array([sum(row <= cut for row in rows) for cut in range(SIZE - 1)])
    chances = np.exp(-rate * np.abs(2 * below - len(rows)))
    return np.asarray(chances / chances.sum())
