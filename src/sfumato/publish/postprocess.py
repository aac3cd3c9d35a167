"""What may be done to noisy counts afterwards, each step by its name; nothing is done unasked.

Post-processing costs no privacy, but it is not free of harm: setting negative counts to zero one
by one adds a bias to every empty cell, and sums over many cells add the biases up. So the steps
here are projections by weighted least squares that keep a total:

    nonnegative  the nearest counts of at least 0 that have the same total as the noisy ones
    total        the nearest counts that add up to a total which is public, given as total=N
    integer      whole numbers with the same total, by the largest remainders

Those asked for are applied in this order, the first two as one projection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError
from sfumato.schema.names import quoted, suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

STEPS = ("nonnegative", "total", "integer")
"""The names of the steps, in the order in which they are applied."""


def check(names: Sequence[str], *, total: int | None = None) -> None:
    """Refuse steps that are unknown or lack what they need, before anything is spent."""
    for name in names:
        if name not in STEPS:
            raise ParameterError(
                "postprocess_unknown",
                f"There is no post-processing {quoted(name)}; {suggestion(name, STEPS)}",
            )
    if ("total" in names) != (total is not None):
        raise ParameterError(
            "postprocess_total",
            "Post-processing to a public total needs both the step 'total' and its number: give "
            "the step and total=N, or neither.",
        )
    if total is not None and total < 0:
        raise ParameterError(
            "postprocess_total_negative", f"A total of counts must be at least 0, not {total}."
        )


def caveat(names: Sequence[str]) -> str:
    """Say what the steps do to the errors that are stated: an entry for a release's error."""
    done = ", ".join(step for step in STEPS if step in names)
    return f"stated for counts before post-processing ({done}), which makes them biased"


def postprocess(
    values: NDArray[np.float64],
    names: Sequence[str],
    *,
    variances: NDArray[np.float64] | float | None = None,
    total: int | None = None,
) -> NDArray[np.float64]:
    """Apply the named steps to noisy counts of any shape.

    `variances` (positive; equal ones if not given) weigh the cells: a cell moves in proportion to
    its own. A negative noisy total, which no counts of at least 0 can have, becomes 0.
    """
    check(names, total=total)
    flat = np.asarray(values, dtype=np.float64).ravel()
    weights = np.broadcast_to(1.0 if variances is None else variances, np.shape(values)).ravel()
    goal = float(flat.sum()) if total is None else float(total)
    if "nonnegative" in names:
        flat = _on_simplex(flat, weights, max(goal, 0.0))
    elif total is not None:
        flat = flat + weights * ((goal - flat.sum()) / weights.sum())
    if "integer" in names:
        flat = _whole(flat, total)
    return flat.reshape(np.shape(values))


def _on_simplex(
    values: NDArray[np.float64], variances: NDArray[np.float64], total: float
) -> NDArray[np.float64]:
    """The x >= 0 of this total with the least sum of (x - values)^2 / variances.

    x = max(values - t variances, 0) with the one t that gives the total: the cells above 0 are a
    prefix in the order of values / variances.
    """
    ratios = values / variances
    order = np.argsort(-ratios)
    excess = np.cumsum(values[order]) - total
    above = np.flatnonzero(ratios[order] * np.cumsum(variances[order]) > excess)
    if len(above) == 0:
        return np.zeros_like(values)
    kept = order[: above[-1] + 1]
    # Summed again in pairs, which rounds far less than a running sum.
    step = (values[kept].sum() - total) / variances[kept].sum()
    return np.asarray(np.maximum(values - step * variances, 0.0))


def _whole(values: NDArray[np.float64], total: int | None) -> NDArray[np.float64]:
    """Round down, and up again where the remainders are largest, as often as the total needs."""
    floors = np.floor(values)
    remainders = values - floors
    needed = remainders.sum() if total is None else total - floors.sum()
    raised = np.argsort(-remainders, kind="stable")[: round(float(needed))]
    floors[raised] += 1.0
    return floors
