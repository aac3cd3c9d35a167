"""Post-processing of noisy counts, in named steps that the request lists; none by default.

Post-processing costs no privacy, but it can do harm: setting negative counts to zero one by one
adds a bias to every empty cell, and sums over many cells add the biases up. So the steps are
projections by weighted least squares that keep totals, from the whole table down to cells:

    nonnegative  counts of at least 0: the parts of a block get the nearest ones with its total
    total        the nearest counts that sum to a public total, given as total=N
    integer      whole numbers with the total of their block, rounded by largest remainders

The steps are applied in this order. The blocks are those that a method measures. Cells without
blocks are projected all at once, which is best for reading single cells, and not for ranges over
many of them. The error after post-processing depends on the data, so none is stated.

Decision `postprocessing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.privacy.estimation.trees import distribute_down, flat_line, generations, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.estimation.trees import Line


# The names of the steps, in the order in which they are applied.
STEPS = ("nonnegative", "total", "integer")


def check(names: Sequence[str], *, total: int | None = None) -> None:
    """Refuse steps that are unknown or lack a parameter, before any budget is spent."""
    for name in names:
        if name not in STEPS:
            raise ParameterError(
                "choice_unknown",
                f"There is no post-processing {quoted(name)}; {suggestion(name, STEPS)}",
                parameter="postprocess",
            )
    if ("total" in names) != (total is not None):
        raise ParameterError(
            "parameter_missing",
            "Post-processing to a public total needs both the step 'total' and its number: give "
            "the step and total=N, or neither.",
            parameter="total",
        )
    if total is not None and total < 0:
        raise ParameterError(
            "parameter_out_of_range",
            f"A total of counts must be at least 0, not {total}.",
            parameter="total",
            given=total,
        )


def public_total(request: Request, total: object) -> int | None:
    """Read the public total, if one is given, and check the steps of post-processing."""
    public = None if total is None else options.whole(total, "total", least=0, most=1 << 53)
    check(request.postprocess, total=public)
    return public


def caveat(names: Sequence[str]) -> str:
    """A note for the error of a release: the steps make the stated errors biased."""
    steps = ", ".join(step for step in STEPS if step in names)
    return f"stated for counts before post-processing ({steps}), which makes them biased"


def unstated(error: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return the error after the steps: figures become None, and earlier ones are kept apart."""
    if not names:
        return error
    figures = {name: None for name, value in error.items() if not isinstance(value, str)}
    steps = ", ".join(step for step in STEPS if step in names)
    note = (
        f"How far counts are off after post-processing ({steps}) depends on the data and is not "
        "known. `before_postprocess` is of the noise alone, before these steps."
    )
    return {**figures, "note": note, "before_postprocess": dict(error)}


def postprocess(
    values: FloatArray,
    names: Sequence[str],
    *,
    lines: Sequence[Line] | None = None,
    variances: FloatArray | float | None = None,
    total: float | None = None,
) -> FloatArray:
    """Apply the named steps to noisy counts of any shape, from the whole down to cells.

    `lines` are the blocks along each axis, by default the whole alone. `variances` (positive, equal
    by default) weigh the cells: a cell moves in proportion to its variance. A negative noisy total
    becomes 0 where counts must be at least 0.
    """
    array = np.asarray(values, dtype=np.float64)
    if not names or not array.size:
        return array
    integer, nonnegative = "integer" in names, "nonnegative" in names
    goal = float(array.sum()) if total is None else float(total)
    goals = np.array([max(goal, 0.0) if nonnegative else goal])
    goals = np.rint(goals) if integer else goals
    spread = np.broadcast_to(1.0 if variances is None else variances, array.shape)
    blocks = [flat_line(size) for size in array.shape] if lines is None else lines
    generation_list = generations(array, spread, blocks)
    processed = distribute_down(generation_list, goals, nonnegative=nonnegative, integer=integer)
    return processed.reshape(array.shape)


def with_missing(
    inner: FloatArray,
    missing: FloatArray,
    names: Sequence[str],
    *,
    variances: tuple[float, float] = (1.0, 1.0),
    lines: Sequence[Line] | None = None,
    total: int | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Apply the steps to cells and, separately, to the cells of missing values.

    Each of the two keeps its own total. A public total is that of both together; `variances` (of
    the sum of all cells, and of one cell of missing values) decide how far each of them moves.
    """
    goals: list[float | None] = [None, None]
    if total is not None:
        sums = np.array([inner.sum(), missing.sum()])
        weights = np.array([variances[0], len(missing) * variances[1]])
        present = slice(2) if len(missing) else slice(1)
        goals[present] = _nearest_sums(sums[present], weights[present], float(total), names)
    processed = [
        postprocess(inner, names, lines=lines, total=goals[0]),
        postprocess(missing, names, total=goals[1]),
    ]
    if "integer" in names:
        return processed[0].astype(np.int64), processed[1].astype(np.int64)
    return processed[0], processed[1]


def _nearest_sums(
    sums: FloatArray, weights: FloatArray, total: float, names: Sequence[str]
) -> list[float]:
    """Return the sums nearest to two sums that add up to a total; whole numbers for integers."""
    below = np.zeros(len(sums), dtype=np.int64)
    goal = np.array([total])
    if "nonnegative" in names:
        projected = nearest(sums, weights, below, goal)
    else:
        projected = sums + weights * ((total - sums.sum()) / weights.sum())
    first = float(np.rint(projected[0])) if "integer" in names else float(projected[0])
    return [first, total - first][: len(sums)]
