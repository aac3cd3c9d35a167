"""Methods of many choices and measurements, by the exact loss along their transcripts.

Sampling sees little of them: their whole loss shows only in outputs that hardly ever occur. Here
nothing is drawn, so a loss above the claim is a proof and needs no false-alarm rate. On each pair
more than 0.8 of the claim is found; so a method that costs a quarter more than it says, which is a
cost understated by 20 %, is caught, and the same test plants it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.fixtures.counts import frequencies, request_for, whole_numbers
from tests.fixtures.slices import few_fast

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.publish import adaptive_grid, kdtree, mwem, quantiles
from sfumato.methods.publish.spatial_tree import Growth
from sfumato.testing.audit import largest_loss

REPLACED = Rows(relation=Neighbours.REPLACE_ONE)
TWO_ROWS = Entity("who", max_rows=2)
UNDERSTATED = Fraction(5, 4)
EPSILON = 1
ROUNDING = 1e-9

Prepare = Callable[..., Any]


def line(size: int, *rows: int) -> Any:
    return np.bincount(rows, minlength=size)


def corner(rows: int) -> Any:
    plane = np.zeros((4, 4), dtype=np.int64)
    plane[0, 0] = rows
    return plane


def of_ranges(selection: str, rounds: int) -> Prepare:
    """Many ranges above the even guess, one below it; a row more moves them apart."""
    boxes = [[0, 1]] * 10 + [[1, 1]]

    def prepare(**asked: Any) -> Any:
        request = request_for(whole_numbers(4), boxes=boxes, **asked)
        return mwem.prepare(request, selection=selection, iterations=rounds, iterate="average")

    return prepare


def of_class(queries: str, selection: str) -> Prepare:
    def prepare(**asked: Any) -> Any:
        request = request_for(whole_numbers(8), **asked)
        return mwem.prepare(request, queries=queries, selection=selection, iterations=1)

    return prepare


def of_kd(**options: Any) -> Prepare:
    return lambda **asked: kdtree.prepare(request_for(whole_numbers(32), **asked), **options)


def of_grid(**asked: Any) -> Any:
    return adaptive_grid.prepare(request_for(whole_numbers(4, 4), **asked), grid=2)


def of_quantiles(**asked: Any) -> Any:
    return quantiles.prepare(request_for(whole_numbers(32), **asked))


CASES: dict[str, tuple[Prepare, Any, tuple[Any, Any]]] = {
    "mwem, ranges chosen": (
        of_ranges("exponential", 2), Rows(), ([30, 0, 0, 0], [30, 1, 0, 0])),
    "mwem, ranges judged": (
        of_ranges("sparse-vector", 1), Rows(), ([30, 0, 0, 0], [30, 1, 0, 0])),
    "mwem, ranges judged twice": (
        of_ranges("sparse-vector", 2), Rows(), ([30, 0, 0, 0], [30, 1, 0, 0])),
    "mwem, parities chosen": (
        of_class("parities", "exponential"), REPLACED,
        ([10, 30, 31, 30, 0, 0, 0, 0], [10, 30, 30, 30, 1, 0, 0, 0])),
    "mwem, parities judged": (
        of_class("parities", "sparse-vector"), REPLACED,
        ([0, 0, 0, 30, 4, 0, 0, 30], [0, 0, 0, 31, 3, 0, 0, 30])),
    "mwem, marginals chosen": (
        of_class("marginals", "exponential"), REPLACED,
        ([0, 3, 3, 31, 3, 0, 3, 0], [0, 3, 3, 30, 3, 0, 3, 1])),
    "kdtree": (
        of_kd(height=2, prune=0, medians="0.5"), Rows(), (line(32, 2, 2), line(32, 2, 2, 31))),
    "kdtree that stops": (
        of_kd(height=2, prune=3, hybrid=0), Rows(), (line(32, 1, 1, 2), line(32, 1, 1))),
    "kdtree of two rows each": (
        of_kd(height=2, prune=0, medians="0.5"), TWO_ROWS,
        (line(32, *[2] * 4), line(32, *[2] * 4, 31, 31))),
    "adaptive grid": (of_grid, Rows(), (corner(11), corner(10))),
    "quantiles": (of_quantiles, Rows(), (line(32, 3), line(32, 3, 31))),
    "quantiles of two rows each": (
        of_quantiles, TWO_ROWS, (line(32, 3, 3), line(32, 3, 3, 31, 31))),
    "quantiles of replaced rows": (
        of_quantiles, REPLACED, (line(32, 2, 3, 5, 6), line(32, 3, 5, 6, 31))),
}  # fmt: skip


def loss(made: Any, pair: tuple[Any, Any]) -> float:
    axes = made.space.axes if hasattr(made, "space") else made.request.axes
    return largest_loss(lambda table: made.release(frequencies(axes, table), None), pair)


@pytest.fixture
def _few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer places to try in every point; the law of the quantiles is the same kind."""
    monkeypatch.setattr(quantiles, "SLOTS_PER_POINT", 1)


@pytest.mark.usefixtures("_few_places")
@pytest.mark.parametrize("name", few_fast(CASES, 7))
def test_the_loss_is_the_claim_and_a_cost_understated_by_a_fifth_is_caught(name: str) -> None:
    prepare, unit, pair = CASES[name]
    sound = loss(prepare(epsilon=EPSILON, unit=unit), pair)
    assert EPSILON / UNDERSTATED < sound <= EPSILON + ROUNDING
    assert loss(prepare(epsilon=EPSILON * UNDERSTATED, unit=unit), pair) > EPSILON + ROUNDING


def test_a_share_that_is_spent_twice_is_caught() -> None:
    """The answers cost as much again as is said; all else is right."""
    prepare, _, pair = CASES["mwem, ranges chosen"]
    made = prepare(epsilon=EPSILON)
    twice = replace(made.noise, epsilon=2 * made.noise.epsilon)
    wrong = replace(made)
    vars(wrong)["noise"] = twice
    assert loss(wrong, pair) > EPSILON + ROUNDING


def test_cuts_that_are_not_paid_for_are_caught() -> None:
    prepare, _, pair = CASES["kdtree"]
    made = prepare(epsilon=EPSILON)
    free = replace(made.cuts[0], epsilon=2 * made.cuts[0].epsilon)
    assert loss(replace(made, cuts=(free, *made.cuts[1:])), pair) > EPSILON + ROUNDING


@pytest.mark.parametrize("name", ["kdtree that stops", "adaptive grid"])
def test_a_shape_that_depends_on_true_counts_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, unit, pair = CASES[name]
    monkeypatch.setattr(Growth, "estimates", lambda self: self.counts().astype(np.float64))
    assert loss(prepare(epsilon=EPSILON, unit=unit), pair) > EPSILON + ROUNDING
