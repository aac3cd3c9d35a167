"""Trees, quadtrees, wavelets and the automatic choice before the auditor.

What is counted at every level, and the noise on it, is each method's own; cells are estimated from
the noisy whole numbers alone. The auditor also sees the likelihood ratio of all levels together,
which tells most. Entropy is seeded; over seeds each audit accuses a sound method with probability
at most 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.counts import request_for, whole_numbers
from tests.fixtures.publications import measured_by_answers, measured_by_plan

from sfumato.data.counting.axes import Listed
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.publish import auto, quadtree, wavelet
from sfumato.methods.publish import tree as kind
from sfumato.methods.publish.regions import Regions
from sfumato.methods.publish.strategy import StrategyMethod
from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.audit import Curve, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.methods.publish.request import Request

Make = Callable[["Request"], "StrategyMethod"]
ADDED, REPLACED = Rows(), Rows(relation=Neighbours.REPLACE_ONE)
PEOPLE = Entity("person", max_rows=3, relation=Neighbours.REPLACE_ONE)
LETTERS = (Listed("letter", pa.array([*"abcdef", None]), declared=True),)
VOWELS = {letter: ["vowel" if letter in "ae" else "consonant"] for letter in "abcdef"}
HALVES = np.array([[[0, 1], [0, 3]], [[2, 3], [0, 3]], [[1, 1], [2, 2]], [[0, 3], [1, 2]]])


def automatic(request: Request) -> StrategyMethod:
    chosen = auto.prepare(request)
    assert isinstance(chosen, StrategyMethod)
    return chosen


LINE: dict[str, Make] = {
    "tree": kind.prepare,
    "tree, uniform": lambda one: kind.prepare(one, fanout=2, budget="uniform"),
    "wavelet": wavelet.prepare,
    "wavelet, optimised": lambda one: wavelet.prepare(one, budget="optimised"),
}
PLANE: dict[str, Make] = {
    "tree": kind.prepare,
    "quadtree": quadtree.of_cells,
    "quadtree of blocks": lambda one: quadtree.of_cells(one, height=1),
    "wavelet": wavelet.prepare,
    "auto": automatic,
}
PAIRS: dict[str, tuple[Any, Any, Any]] = {
    "a row is added": (ADDED, {(3,): 1}, {}),
    "a row without a value is added": (ADDED, {(-1,): 1}, {}),
    "a row is replaced": (REPLACED, {(3,): 1}, {(4,): 1}),
    "a row loses its value": (REPLACED, {(3,): 1}, {(-1,): 1}),
    "a person is replaced": (PEOPLE, {(0,): 3}, {(7,): 3}),
}


def table(shape: tuple[int, ...], rows: dict[tuple[int, ...], int]) -> Any:
    dense = np.full(shape, 5, dtype=np.int64)
    for place, count in rows.items():
        dense[place] += count
    return dense


def check(plan: StrategyMethod, first: Any, second: Any) -> None:
    """Audit a plan of epsilon 1 or rho 1/2, and add up its exact loss."""
    rho = plan.request.price.rho
    levels = measured_by_plan(plan, first, second)
    claimed = rho or Fraction(1)
    # A row that comes or goes costs all; replaced, it may leave the total as it was, and signs.
    # The columns of a rounded matrix are nearly alike.
    least = Fraction(1) if plan.request.unit is ADDED else Fraction(1, 3)
    least *= Fraction(9, 10) if isinstance(plan.strategy, Regions) else 1
    assert least * claimed <= levels.loss <= claimed
    claim = Pure(epsilon=Fraction(1)) if rho is None else Curve(mu=1.0)
    found = audit(
        levels.draw, (0, 1), claim, entropy=SeededEntropy(8), draws=30_000, extra=[levels.evidence]
    )
    assert not found.violated, found.sentence()
    # Of many noises at once, all on one side are seldom seen: less than the whole loss is.
    assert found.power > 0.3 * float(levels.loss / claimed), found.sentence()


@pytest.mark.parametrize("change", PAIRS)
@pytest.mark.parametrize("name", LINE)
def test_of_one_column(name: str, change: str) -> None:
    unit, first, second = PAIRS[change]
    request = request_for(whole_numbers(8, nullable=True), unit=unit, epsilon=1)
    one, other = (table((9,), rows) for rows in (first, second))
    check(LINE[name](request), one, other)


@pytest.mark.parametrize("change", ["a row is added", "a row is replaced", "a person is replaced"])
@pytest.mark.parametrize("name", LINE)
def test_of_one_column_with_gaussian_noise(name: str, change: str) -> None:
    unit, first, second = PAIRS[change]
    request = request_for(whole_numbers(8, nullable=True), unit=unit, rho="1/2")
    one, other = (table((9,), rows) for rows in (first, second))
    check(LINE[name](request), one, other)


@pytest.mark.parametrize("unit", [ADDED, REPLACED], ids=["added", "replaced"])
@pytest.mark.parametrize("name", PLANE)
def test_of_two_columns(name: str, unit: Rows) -> None:
    axes = whole_numbers(4, 4, nullable=True)
    request = request_for(axes, boxes=HALVES, unit=unit, epsilon=1)
    first, second = (
        table((5, 5), {(0, 0): 1}),
        table((5, 5), {(3, 3): 1} if unit is REPLACED else {}),
    )
    check(PLANE[name](request), first, second)


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "1/2"}], ids=["pure", "zcdp"])
def test_of_a_nominal_column(cost: dict[str, Any]) -> None:
    """Four children: a row moves 3 at its own coefficient and 1 at each of its siblings."""
    plan = wavelet.prepare(request_for(LETTERS, unit=ADDED, **cost), hierarchy={"letter": VOWELS})
    first, second = table((7,), {(1,): 1}), table((7,), {})
    check(plan, first, second)


RECTANGLES = np.array(
    [[[0, 2], [0, 3]], [[1, 3], [1, 3]], [[0, 3], [0, 0]], [[0, 0], [0, 0]], [[0, 1], [0, 1]]]
)
"""Of which four hold the first cell."""


@pytest.mark.parametrize("unit", [ADDED, REPLACED, PEOPLE], ids=["added", "replaced", "people"])
@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "1/2"}], ids=["pure", "zcdp"])
def test_of_noise_on_the_queries(unit: Any, cost: dict[str, Any]) -> None:
    request = request_for(whole_numbers(4, 4, nullable=True), boxes=RECTANGLES, unit=unit, **cost)
    plan = auto.noise_on_queries(request, [np.arange(5)] * 2)
    assert plan.columns.l1 == 4
    rows = 3 if unit is PEOPLE else 1
    moved: dict[tuple[int, ...], int] = {} if unit is ADDED else {(-1, -1): rows}
    first, second = table((5, 5), {(0, 0): rows}), table((5, 5), moved)
    levels = measured_by_answers(plan, first, second)
    claimed = request.price.rho or Fraction(1)
    assert Fraction(1, 2) * claimed <= levels.loss <= claimed
    claim = Pure(epsilon=Fraction(1)) if request.price.rho is None else Curve(mu=1.0)
    found = audit(
        levels.draw, (0, 1), claim, entropy=SeededEntropy(8), draws=30_000, extra=[levels.evidence]
    )
    assert not found.violated, found.sentence()
    assert found.power > 0.3 * float(levels.loss / claimed), found.sentence()
