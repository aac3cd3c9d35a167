"""The kind 'auto': the strategy of least expected error for a workload, from public facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.publish.purse import purses
from sfumato.publish.tree.kind import blocks_of, checked, public_total
from sfumato.publish.tree.method import Planned
from sfumato.publish.tree.regions import regions
from sfumato.publish.tree.search import Search
from sfumato.publish.wavelet import halves, planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.publish.request import Request

_WORTH = 0.9
"""Single values are given up for blocks only where that takes a tenth off the error."""


def prepare(request: Request, *, total: object = None) -> Planned:
    """Take the best of all strategies whose error is known exactly before anything is spent.

    Counts of blocks of every fan-out, of all columns in step or each at its own scale, with shares
    optimised for the workload (all ranges where there is none): cells, trees, quadtrees, marginals
    and strips are among them; wavelets; the same over blocks that no query divides; and for few
    queries weighted sums of the regions that they make.
    """
    public = public_total(request, total)
    shape = checked(request)
    search = Search(request.boxes, purses(request.price), request.sensitivity)
    found = {"tree": Planned(request, blocks_of(search.of_cells(shape)), {})}
    ladders = tuple(halves(points) for points in shape)
    for way in ("uniform", "optimised"):
        plans = planned(request, ladders, way, None)
        found[f"wavelet, {way}"] = min(plans, key=lambda one: one.workload_mse)
    found |= _for_workload(request, search, shape)
    chosen = min(found, key=lambda name: _handicapped(found[name]))
    # To six digits: the last ones may depend on the machine, and these are a release's parameters.
    errors = {name: float(f"{plan.workload_mse:.6g}") for name, plan in found.items()}
    return Planned(
        request, found[chosen].strategy, {"chosen": chosen, "considered": errors}, public
    )


def _handicapped(plan: Planned) -> float:
    return plan.workload_mse / (_WORTH if plan.strategy.coarse else 1)


def _for_workload(request: Request, search: Search, shape: Sequence[int]) -> dict[str, Planned]:
    """Trees of the blocks that no query divides, and the regions of few queries."""
    if request.boxes is None:
        return {}
    held = request.boxes[(request.boxes[:, :, 0] <= request.boxes[:, :, 1]).all(axis=1)]
    cuts = [_cuts(points, held[:, axis]) for axis, points in enumerate(shape)]
    merged = [None if len(one) > size else one for one, size in zip(cuts, shape, strict=True)]
    found = {}
    if any(one is not None for one in merged):
        blocks = blocks_of(search.of_cells(shape, merged))
        found["tree of blocks"] = Planned(request, blocks, {})
    plans = [Planned(request, one, {}) for one in regions(request, cuts, held)]
    if plans:
        found["regions"] = min(plans, key=lambda one: one.workload_mse)
    return found


def _cuts(points: int, ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where some range begins or ends: what lies between is never divided."""
    return np.unique(np.concatenate([[0, points], ranges[:, 0], ranges[:, 1] + 1]))
