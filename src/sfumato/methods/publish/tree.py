"""The kind 'tree': counts of nested blocks over one or more ordered columns.

Blocks are counted at several scales at once and made consistent by least squares in linear time.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import MAX_CELLS, Domain, holds_values
from sfumato.methods.publish.postprocess import public_total
from sfumato.methods.publish.strategy import BlockCounts, StrategyMethod
from sfumato.methods.publish.tree_optimizer import TreeOptimizer, exact, nestings_of
from sfumato.privacy.estimation.blocks import Nesting
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.methods.publish.request import Request
    from sfumato.methods.publish.tree_optimizer import SharedTree
    from sfumato.privacy.estimation.blocks import Level


MAX_COLUMNS = 10
# Fixed shares are rounded to multiples of 1 / _FINE.
_FINE = 1 << 40


def prepare(
    request: Request,
    *,
    fanout: object = None,
    budget: object = None,
    root: object = None,
    total: object = None,
) -> StrategyMethod:
    """Count nested blocks at several levels.

    Parameters
    ----------
    request : Request
        The columns and the price.
    fanout : int or "best", optional
        The most children of a block; the best by default.
    budget : str, optional
        "optimised" for the workload, or for all ranges without one (the default); "uniform" over
        the levels of all columns in step; "geometric", with larger shares for smaller blocks.
    root : bool or "yes" or "no", optional
        Whether "uniform" and "geometric" count the whole table too; yes by default.
    total : int, optional
        The number of rows, where it is public.
    """
    public = public_total(request, total)
    shape = checked(request)
    budget_name = options.choice(
        budget or "optimised", "budget", ["optimised", "uniform", "geometric"]
    )
    most = (
        None
        if fanout in (None, "best")
        else options.whole(fanout, "fanout", least=2, most=MAX_CELLS)
    )
    choices = [_up_to(nestings_of(points), most) for points in shape]
    if budget_name == "optimised":
        if root is not None:
            raise ParameterError(
                "option_not_applicable",
                "An optimised budget itself decides whether the whole is counted. "
                "Leave root out, or take budget uniform or geometric.",
            )
        search = TreeOptimizer(request.boxes, spendings(request.price), request.sensitivity)
        best_tree = search.of_cells(shape) if most is None else search.best(choices)
        return StrategyMethod(request, blocks_of(best_tree), {"budget": budget_name}, public)
    with_root = options.choice(_yes_or_no(root), "root", ["yes", "no"]) == "yes"
    deepest = max(map(len, choices))
    plans = [
        plan
        for depth in range(deepest)
        for plan in in_step(
            request,
            [axis_nestings[min(depth, len(axis_nestings) - 1)] for axis_nestings in choices],
            geometric=budget_name == "geometric",
            root=with_root,
            total=public,
        )
    ]
    return min(plans, key=lambda plan: plan.workload_mse)


def checked(request: Request) -> tuple[int, ...]:
    """Return the points of every column; refuse a request that no tree can serve."""
    shape = Domain(request.axes).shape
    if len(shape) > MAX_COLUMNS:
        raise ParameterError(
            "problem_too_large",
            f"Blocks can be counted over at most {MAX_COLUMNS} columns, not {len(shape)}. Take "
            "fewer, or publish as 'marginals'.",
        )
    if 0 in shape:
        raise ParameterError("domain_missing", "A column without declared values has no ranges.")
    boxes = request.boxes
    if boxes is not None and not holds_values(boxes).any():
        raise ParameterError(
            "workload_invalid",
            "None of the ranges of the workload holds a value. Give ranges that do, or none.",
        )
    return shape


def in_step(
    request: Request,
    nestings: Sequence[Nesting],
    *,
    geometric: bool,
    root: bool,
    total: int | None,
) -> list[StrategyMethod]:
    """Count the levels of all axes in step, with fixed shares; one plan for each way to pay."""
    deepest = max(nesting.depth for nesting in nestings)
    aligned = tuple(deepened(nesting, deepest) for nesting in nestings)
    shares = step_shares(aligned, geometric=geometric, root=root)
    chosen = {"budget": "geometric" if geometric else "uniform"}
    return [
        StrategyMethod(
            request,
            BlockCounts.shared(aligned, shares, spending, lambda _: request.sensitivity),
            chosen,
            total,
        )
        for spending in spendings(request.price)
    ]


def deepened(nesting: Nesting, depth: int) -> Nesting:
    """The same nesting with further levels on top that do not divide its only block."""
    return Nesting(nesting.points, (1,) * (depth - nesting.depth) + nesting.fanouts, nesting.cuts)


def step_shares(
    nestings: Sequence[Nesting], *, geometric: bool, root: bool
) -> Mapping[Level, Fraction]:
    """Equal shares of the levels, or shares that decrease with block size: size^((1/d - 1) / 3)."""
    depth = nestings[0].depth
    levels = range(0 if root else 1, depth + 1)
    line = np.zeros(depth + 1)
    for level in levels:
        size = np.prod([nesting.widths[level] for nesting in nestings], dtype=np.float64)
        line[level] = size ** ((1 / len(nestings) - 1) / 3) if geometric else 1.0
    if not geometric:
        return {(level,) * len(nestings): Fraction(1, len(levels)) for level in levels}
    shares = exact(line / line.sum(), _FINE)
    return {level * len(nestings): share for level, share in shares.items()}


def blocks_of(shared: SharedTree) -> BlockCounts:
    """Return the strategy of a search result, with shares as exact fractions."""
    budget = shared.budget
    shares = exact(shared.shares)
    return BlockCounts.shared(
        shared.nestings, shares, budget.spending, lambda _: budget.sensitivity
    )


def _up_to(nestings: list[Nesting], fanout: int | None) -> list[Nesting]:
    """Return all nestings, or the one with the largest fan-out up to a given one."""
    return (
        nestings
        if fanout is None
        else [next(nesting for nesting in nestings if max(nesting.fanouts) <= fanout)]
    )


def _yes_or_no(root: object) -> object:
    """Return the text of a Boolean option; yes is the default."""
    return "yes" if root is None or root is True else "no" if root is False else root
