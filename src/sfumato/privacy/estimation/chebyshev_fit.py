"""Nonnegative Chebyshev fit: x >= 0 such that the largest deviation of A x from a target is least.

    minimise t  such that  -t <= A x - y <= t,  x >= 0

A primal-dual interior-point method (Mehrotra's predictor and corrector) finds x within a proven
gap. Then x moves, with A x unchanged, until the columns of A that it uses are independent. That is
a vertex: at most as many entries are above 0 as A has rows. Decision `dependencies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

# The most steps; it also stops after _PATIENCE steps without a smaller gap.
_MAX_STEPS = 200
_TARGET_GAP, _ACCEPTED_GAP = 1e-10, 1e-6
"""The gap to the least possible deviation, as a share of the target: aimed at, and accepted."""
_PATIENCE = 5
_STEP_SHARES = (0.9995, 0.95, 0.8)
"""Shares of the way to the nearest bound that a step goes; after a failure the next is tried."""


class _Point(NamedTuple):
    """A primal-dual point: x, t and both slacks (primal), and their multipliers u, v, z (dual)."""

    x: Vector
    t: Vector
    above: Vector
    below: Vector
    u: Vector
    v: Vector
    z: Vector

    @property
    def pairs(self) -> tuple[tuple[Vector, Vector], ...]:
        """The nonnegative primal variables, each with its multiplier."""
        return (self.above, self.u), (self.below, self.v), (self.x, self.z)

    @property
    def gap(self) -> float:
        """The duality gap: it bounds the distance from the optimum at a feasible point."""
        return sum(float(values @ multipliers) for values, multipliers in self.pairs)


def nearest_vertex(matrix: Vector, target: Vector) -> Vector | None:
    """Find a vertex among the x >= 0 whose image is nearest to the target.

    Parameters
    ----------
    matrix : (m, n) array
        A, of any rank.
    target : (m,) array
        y, of any magnitude: the problem is scaled by its largest entry.

    Returns
    -------
    (n,) array or None
        x with at most m entries above 0; None if the gap stays above 1e-6 with every step share,
        which no input is known to cause.
    """
    largest = max(1.0, float(np.abs(target).max()))
    with np.errstate(all="ignore"):  # a point that is not finite never becomes the best one
        for share in _STEP_SHARES:
            solution = _interior(matrix, target / largest, share)
            if solution is not None:
                return _vertex(matrix, solution * largest)
    return None


def _interior(matrix: Vector, target: Vector, share: float) -> Vector | None:
    """A solution in the interior of the optimal set, or None if the gap stays too large."""
    rows, columns = matrix.shape
    x = np.full(columns, 1 / columns)
    residual = matrix @ x - target
    t = np.array([1 + np.abs(residual).max()])
    half = np.full(rows, 0.5 / rows)
    point = _Point(x, t, t - residual, t + residual, half, half, np.full(columns, 1 / columns))
    pair_count, span = 2 * rows + columns, _rank_factors(matrix)
    best, least, since = point, np.inf, 0
    for _ in range(_MAX_STEPS):
        gap = point.gap + _infeasibility(matrix, target, point)
        best, least, since = (point, gap, 0) if gap < least else (best, least, since + 1)
        if least < _TARGET_GAP or since == _PATIENCE:  # rounding errors prevent further progress
            break
        try:
            newton = _Newton(matrix, target, span, point)
        except np.linalg.LinAlgError:
            break
        affine_step = newton.step(*(-values * multipliers for values, multipliers in point.pairs))
        affine_gap = _moved(point, affine_step, 1.0).gap
        centre = (affine_gap / point.gap) ** 3 * point.gap / pair_count
        corrected = (
            centre - values * multipliers - value_step * multiplier_step
            for (values, multipliers), (value_step, multiplier_step) in zip(
                point.pairs, affine_step.pairs, strict=True
            )
        )
        point = _moved(point, newton.step(*corrected), share)
    return best.x if least < _ACCEPTED_GAP else None


def _infeasibility(matrix: Vector, target: Vector, point: _Point) -> float:
    """The largest violations of the primal and dual equations, on which the gap's proof rests."""
    residual = matrix @ point.x - target
    return float(
        np.abs(point.t - residual - point.above).max()
        + np.abs(point.t + residual - point.below).max()
        + np.abs(point.z - matrix.T @ (point.u - point.v)).max()
        + abs(1 - point.u.sum() - point.v.sum())
    )


class _Newton:
    """The Newton system at a point, inverted once for several right-hand sides.

    Its unknowns are the image of x and the dual image within the row span, side by side. Neither is
    eliminated, because either elimination becomes singular somewhere near the optimum.
    """

    def __init__(self, matrix: Vector, target: Vector, span: tuple[Vector, Vector], point: _Point):
        self._matrix, self._at, self._span = matrix, point, span
        image = matrix @ point.x - target
        self._above_off = point.t - image - point.above
        self._below_off = point.t + image - point.below
        self._z_off = point.z - matrix.T @ (point.u - point.v)
        self._sum_off = 1 - point.u.sum() - point.v.sum()
        self._p, self._q = point.u / point.above, point.v / point.below
        self._ratio = point.x / point.z
        basis, inner = span
        rank, weights = len(inner), self._p + self._q
        side = basis.T @ (self._p - self._q)
        system = np.eye(2 * rank + 1)
        system[:rank, rank:-1] = (inner * self._ratio) @ inner.T
        system[rank:-1, :rank] = -(basis.T * weights) @ basis
        system[rank:-1, -1], system[-1, :rank] = side, side
        system[-1, -1] = -weights.sum()
        self._rows = 1 / np.abs(system).max(axis=1)
        row_scaled = system * self._rows[:, None]
        self._columns = 1 / np.abs(row_scaled).max(axis=0)
        self._system = row_scaled * self._columns
        self._inverse = np.linalg.inv(self._system)

    def step(self, above: Vector, below: Vector, x: Vector) -> _Point:
        """The step that changes the complementarity products of the pairs by these amounts."""
        point, p, q = self._at, self._p, self._q
        basis, inner = self._span
        u_base = (above - point.u * self._above_off) / point.above
        v_base = (below - point.v * self._below_off) / point.below
        drift = x / point.z + self._ratio * self._z_off
        solved = self._solved(
            np.concatenate(
                [
                    inner @ drift,
                    basis.T @ (u_base - v_base),
                    [self._sum_off - (u_base + v_base).sum()],
                ]
            )
        )
        t = solved[-1]
        turned = inner.T @ solved[len(inner) : -1]
        moved = drift - self._ratio * turned
        image = basis @ solved[: len(inner)]
        return _Point(
            x=moved,
            t=np.array([t]),
            above=self._above_off - image + t,
            below=self._below_off + image + t,
            u=u_base + p * (image - t),
            v=v_base - q * (image + t),
            z=turned - self._z_off,
        )

    def _solved(self, side: Vector) -> Vector:
        """Solve the system, with one step of iterative refinement."""
        row_scaled = side * self._rows
        solution = self._inverse @ row_scaled
        solution += self._inverse @ (row_scaled - self._system @ solution)
        return np.asarray(solution * self._columns)


def _rank_factors(matrix: Vector) -> tuple[Vector, Vector]:
    """Factor the matrix into orthonormal columns times independent rows, both of its rank."""
    left_vectors, singular_values, right_vectors = np.linalg.svd(matrix, full_matrices=False)
    rank = int(np.count_nonzero(singular_values > 1e-10 * singular_values.max(initial=0.0)))
    return left_vectors[:, :rank], right_vectors[:rank] * singular_values[:rank, None]


def _moved(point: _Point, step: _Point, share: float) -> _Point:
    """Move along a step within the bounds; primal and dual have step lengths of their own."""
    step_lengths = [
        min(
            1.0,
            share
            * min(
                _largest_step(pair[side], direction[side])
                for pair, direction in zip(point.pairs, step.pairs, strict=True)
            ),
        )
        for side in (0, 1)
    ]
    primal_names = ("x", "t", "above", "below")
    return _Point(
        *(
            values + step_lengths[name not in primal_names] * direction
            for name, values, direction in zip(_Point._fields, point, step, strict=True)
        )
    )


def _largest_step(values: Vector, direction: Vector) -> float:
    falling = direction < 0
    return float(np.min(values[falling] / -direction[falling], initial=np.inf))


def _vertex(matrix: Vector, x: Vector) -> Vector:
    """Move x along the matrix's null space until its used columns are independent, in blocks.

    Entries below 1e-9 of the largest count as zero.
    """
    rows = len(matrix)
    x = np.where(x > 1e-9 * x.max(initial=0.0), x, 0.0)
    used = np.zeros(0, dtype=np.intp)
    for start in range(0, len(x), rows):
        fresh = start + np.flatnonzero(x[start : start + rows])
        used = np.concatenate([used, fresh])
        x[used] = _reduced(matrix[:, used], x[used])
        used = used[x[used] > 0]
    return x


def _reduced(matrix: Vector, x: Vector) -> Vector:
    """`_vertex` for so few entries that the whole null space is computed at once."""
    _, singular_values, right_vectors = np.linalg.svd(matrix)
    rank = int(np.count_nonzero(singular_values > 1e-10 * singular_values.max(initial=0.0)))
    free = right_vectors[rank:].T
    x = x.copy()
    while free.shape[1]:
        direction = free[:, -1] if free[:, -1].max() > 0 else -free[:, -1]
        falling = np.flatnonzero(direction > 1e-9)
        step_lengths = x[falling] / direction[falling]
        first = falling[np.argmin(step_lengths)]
        x = np.maximum(x - step_lengths.min() * direction, 0.0)
        x[first] = 0.0
        # A Householder reflection moves this entry's share of the null space into the last basis
        # vector, which is dropped: the rest of the basis is 0 there.
        mirror = free[first].copy()
        mirror[-1] += np.copysign(np.linalg.norm(mirror), mirror[-1])
        free -= np.outer(free @ mirror, mirror) * (2 / (mirror @ mirror))
        free = free[:, :-1]
        free[first] = 0.0
    return x
