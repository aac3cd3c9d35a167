"""The kind 'quadtree': counts of ever smaller quarters of the plane of two columns."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish import kdtree
from sfumato.methods.publish.domain import MAX_CELLS
from sfumato.methods.publish.postprocess import public_total
from sfumato.methods.publish.strategy import StrategyMethod
from sfumato.methods.publish.tree import blocks_of, checked, deepened, in_step
from sfumato.methods.publish.tree_optimizer import (
    SharedTree,
    ShareProblem,
    block_sizes,
    starting_shares,
)
from sfumato.privacy.estimation.blocks import Nesting, spectrum
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from sfumato.methods.publish.kdtree import KdTree
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Spending


def prepare(
    request: Request, *, height: object = None, budget: object = None, total: object = None
) -> StrategyMethod | KdTree:
    """Count quarters of quarters: of cells, or of boxes where the plane has too many cells.

    Without a height, a plane of more cells than can be released is halved down to single points,
    except in boxes of low noisy counts.
    """
    if len(request.axes) != 2:
        raise ParameterError(
            "columns_invalid",
            f"A quadtree divides the plane of two columns, not {len(request.axes)}. Name two "
            "columns, or publish as 'tree'.",
        )
    if prod(axis.size for axis in request.axes) > MAX_CELLS:
        return _of_boxes(request, height, budget, total)
    return of_cells(request, height=height, budget=budget, total=total)


def of_cells(
    request: Request, *, height: object = None, budget: object = None, total: object = None
) -> StrategyMethod:
    """Count quarters of quarters, `height` times (default: down to single cells).

    Budgets: "geometric" (the default without a workload), "uniform", "optimised" for the workload
    (the default with one). With a lower height the released blocks hold several values.

    *Guarantee*: the price in full, for all levels together.
    *Sensitivity*: of a histogram, for each level.
    *Error*: of any rectangle, exact and in closed form, after least squares over all levels.
    *Edges*: a column with fewer values than the other is not divided at the first levels.
    *Reference*: Cormode, Procopiuc, Srivastava, Shen & Yu 2012, sections 4.2 and 5: a level i
    above the leaves gets epsilon_i ~ 2^(-i/3).
    """
    public = public_total(request, total)
    shape = checked(request)
    default = "geometric" if request.boxes is None else "optimised"
    budget_name = options.choice(budget or default, "budget", ["geometric", "uniform", "optimised"])
    full = max(*((points - 1).bit_length() for points in shape), 1)
    depth = full if height is None else options.whole(height, "height", least=1, most=full)
    nestings = tuple(_halve_axis(points, depth) for points in shape)
    if budget_name != "optimised":
        plans = in_step(
            request, nestings, geometric=budget_name == "geometric", root=True, total=public
        )
    else:
        plans = [
            StrategyMethod(
                request,
                blocks_of(_optimise_shares(request, nestings, spending)),
                {"budget": budget_name},
                public,
            )
            for spending in spendings(request.price)
        ]
    return min(plans, key=lambda plan: plan.workload_mse)


def _of_boxes(request: Request, height: object, budget: object, total: object) -> KdTree:
    """Return the quadtree of a plane with too many cells to count one by one: an even kd-tree."""
    options.choice(budget or "geometric", "budget of so fine a plane", ["geometric"])
    if total is not None:
        raise ParameterError(
            "option_not_applicable",
            "Boxes of so fine a plane cannot be brought to a public total. Leave it out, or "
            "declare a coarser step.",
        )
    return kdtree.prepare(request, height=height, hybrid=0, prune=None if height is None else 0)


def _halve_axis(points: int, height: int) -> Nesting:
    """An axis halved `height` times, or until each block is one code."""
    needed = (points - 1).bit_length()
    if needed <= height:
        return deepened(Nesting(points, (2,) * needed), height)
    cuts = np.arange((1 << height) + 1, dtype=np.int64) * points >> height
    return Nesting(points, (2,) * height, cuts)


def _optimise_shares(
    request: Request, nestings: tuple[Nesting, ...], spending: Spending
) -> SharedTree:
    """Return the best shares of levels, all axes in step."""
    in_step_only = np.eye(nestings[0].depth + 1, dtype=bool)
    starts = starting_shares(nestings)
    starts = starts[~starts[:, ~in_step_only].any(axis=1)]
    energies = spectrum(nestings, request.boxes)
    problem = ShareProblem(
        energies, block_sizes(nestings), spending, request.sensitivity, in_step_only
    )
    improved = problem.improved(starts)
    return SharedTree(nestings, problem, improved[np.argmin(problem.error(improved))]).settled()
