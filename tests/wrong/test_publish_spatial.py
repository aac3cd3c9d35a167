"""Wrong spatial decompositions: shapes that are not paid for, and shares that are spent twice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.publications import grow_copies, seen_of_copies

from sfumato.data.counting.axes import Axis, Grid
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows
from sfumato.methods.publish import adaptive_grid, kdtree, privtree
from sfumato.methods.publish.kdtree import Medians
from sfumato.methods.publish.privtree import PrivTree
from sfumato.methods.publish.request import Request
from sfumato.methods.publish.spatial_tree import Growth
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import Audit, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.methods.publish.spatial_tree import Decomposition
    from sfumato.privacy.noise.entropy import Entropy

ONE = Pure(epsilon=Fraction(1))


def request(*sizes: int) -> Request:
    axes: tuple[Axis, ...] = tuple(
        Grid(name, Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for name, size in zip("xy", sizes, strict=False)
    )
    return Request(dataset="people", axes=axes, unit=Rows(), price=price(epsilon=1))


def accused(method: Decomposition, pair: tuple[Any, Any], *, kind: type[Growth] = Growth) -> Audit:
    def run(points: Any, count: int, entropy: Entropy) -> NDArray[Any]:
        return seen_of_copies(grow_copies(method, points, count, entropy, kind=kind), count)

    return audit(run, pair, ONE, entropy=SeededEntropy(7), draws=30_000)


class Peeking(Growth):
    """Decisions are made by the true counts, while those released are noisy."""

    def estimates(self) -> NDArray[np.float64]:
        return self.counts().astype("float64")


class Undecayed(PrivTree):
    """Each level is decided with the same noise, but counts do not decay: losses pile up."""

    @cached_property
    def decay(self) -> int:
        return 0


def test_boxes_stopped_at_their_true_count() -> None:
    method = kdtree.prepare(request(8), height=2, prune=3)
    pair = ([(1,), (1,), (2,)], [(1,), (1,)])
    assert accused(method, pair, kind=Peeking).violated


def test_medians_that_are_not_paid_for() -> None:
    method = kdtree.prepare(request(8), height=1, prune=0)
    free = Medians(epsilon=Fraction(100), sensitivity=Fraction(1))
    assert accused(
        replace(method, cuts=(free,)), ([(0,), (1,), (7,)], [(0,), (0,), (1,), (7,)])
    ).violated


def test_every_level_spends_the_whole_price() -> None:
    method = kdtree.prepare(request(8), height=2, hybrid=0, prune=0)
    whole = privtree.prepare(request(8), shape="0.000001").noises * len(method.noises)
    assert accused(replace(method, noises=whole), ([(0,)], [])).violated


def test_a_stopped_box_gets_the_whole_price_for_every_level_below_it() -> None:
    method = kdtree.prepare(request(8), height=2, hybrid=0, prune=1000)
    (whole,) = privtree.prepare(request(8), shape="0.000001").noises
    assert isinstance(whole, Geometric)
    twice = replace(whole, epsilon=2 * whole.epsilon)
    pair: tuple[Any, Any] = ([(0,)], [])
    assert accused(replace(method, rests=(twice, twice)), pair).violated
    assert not accused(method, pair).violated


def test_a_tree_whose_counts_do_not_decay() -> None:
    sound = privtree.prepare(request(256), shape="0.9")
    wrong = Undecayed(**{name: getattr(sound, name) for name in sound.__dataclass_fields__})
    assert accused(wrong, ([(0,)], [])).violated


def test_cells_refined_by_their_true_count() -> None:
    method = adaptive_grid.prepare(request(4, 4), grid=2)
    pair = ([(0, 0)] * 11, [(0, 0)] * 10)
    assert accused(method, pair, kind=Peeking).violated


@pytest.mark.parametrize("kind", ["kdtree", "privtree", "adaptive-grid"])
def test_the_sound_ones_are_not_accused_on_the_same_pairs(kind: str) -> None:
    methods: dict[str, tuple[Decomposition, tuple[Any, Any]]] = {
        "kdtree": (
            kdtree.prepare(request(8), height=2, prune=3),
            ([(1,), (1,), (2,)], [(1,), (1,)]),
        ),
        "privtree": (privtree.prepare(request(256), shape="0.9"), ([(0,)], [])),
        "adaptive-grid": (
            adaptive_grid.prepare(request(4, 4), grid=2),
            ([(0, 0)] * 11, [(0, 0)] * 10),
        ),
    }
    assert not accused(*methods[kind]).violated
