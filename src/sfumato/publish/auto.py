"""The kind 'auto': the strategy of least expected error for a workload, from public facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.publish import answers
from sfumato.publish.measurement import spendings
from sfumato.publish.postprocess import public_total
from sfumato.publish.tree import blocks_of, checked
from sfumato.publish.tree.method import StrategyMethod
from sfumato.publish.tree.regions import regions
from sfumato.publish.tree.search import TreeSearch
from sfumato.publish.wavelet import halves, planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.publish.answers import WorkloadAnswers
    from sfumato.publish.request import Request

_DIRECT = "noise on the queries"
_WORTH = 0.9
"""Single values are given up for blocks only where that takes a tenth off the error."""


def prepare(request: Request, *, total: object = None) -> StrategyMethod | WorkloadAnswers:
    """Take the best of all strategies whose error is known exactly before anything is spent.

    Counts of blocks of every fan-out, of all columns in step or each at its own scale, with shares
    optimised for the workload (all ranges where there is none): cells, trees, quadtrees, marginals
    and strips are among them; wavelets; the same over blocks that no query divides; for few queries
    weighted sums of the regions that they make; and noise on the queries themselves.
    """
    public = public_total(request, total)
    shape = checked(request)
    search = TreeSearch(request.boxes, spendings(request.price), request.sensitivity)
    found = {"tree": StrategyMethod(request, blocks_of(search.of_cells(shape)), {})}
    nestings = tuple(halves(points) for points in shape)
    for way in ("uniform", "optimised"):
        plans = planned(request, nestings, way, None)
        found[f"wavelet, {way}"] = min(plans, key=lambda one: one.workload_mse)
    cuts = _cuts(request, shape)
    found |= _for_workload(request, search, cuts)
    name = min(found, key=lambda name: _handicapped(found[name]))
    errors = {name: plan.workload_mse for name, plan in found.items()}
    # Answers alone cannot be brought to anything, and tell of no other range: they must be better.
    direct = answers.prepare(request, cuts) if cuts and not request.postprocess else None
    if direct is not None:
        errors[_DIRECT] = direct.workload_mse
        name = _DIRECT if direct.workload_mse < errors[name] else name
    # To six digits: the last ones may depend on the machine, and these are a release's parameters.
    considered = {one: float(f"{error:.6g}") for one, error in errors.items()}
    chosen = {"chosen": name, "considered": considered}
    if direct is not None and name == _DIRECT:
        return replace(direct, chosen=chosen)
    return StrategyMethod(request, found[name].strategy, chosen, public)


def _handicapped(plan: StrategyMethod) -> float:
    return plan.workload_mse / (_WORTH if plan.strategy.coarse else 1)


def _for_workload(
    request: Request, search: TreeSearch, cuts: Sequence[NDArray[np.int64]]
) -> dict[str, StrategyMethod]:
    """Trees of the blocks that no query divides, and the regions of few queries."""
    if request.boxes is None:
        return {}
    shape = [int(one[-1]) for one in cuts]
    merged = [None if len(one) > size else one for one, size in zip(cuts, shape, strict=True)]
    found = {}
    if any(one is not None for one in merged):
        blocks = blocks_of(search.of_cells(shape, merged))
        found["tree of blocks"] = StrategyMethod(request, blocks, {})
    held = request.boxes[(request.boxes[:, :, 0] <= request.boxes[:, :, 1]).all(axis=1)]
    plans = [StrategyMethod(request, one, {}) for one in regions(request, cuts, held)]
    if plans:
        found["regions"] = min(plans, key=lambda one: one.workload_mse)
    return found


def _cuts(request: Request, shape: Sequence[int]) -> list[NDArray[np.int64]]:
    """Where in each column some range begins or ends: what lies between is never divided."""
    if request.boxes is None:
        return []
    held = request.boxes[(request.boxes[:, :, 0] <= request.boxes[:, :, 1]).all(axis=1)]
    return [
        np.unique(np.concatenate([[0, points], held[:, axis, 0], held[:, axis, 1] + 1]))
        for axis, points in enumerate(shape)
    ]
