"""The vector of at least 0 whose image comes nearest to a target, in its largest deviation.

    minimise t  such that  -t <= A x - y <= t,  x >= 0

An interior-point method (Mehrotra's predictor and corrector) finds it within a proven gap; then x
moves, with A x unchanged, until the columns of A that it uses are independent: a vertex, in which
at most as many entries are above 0 as A has rows. Decision `dependencies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

_MOST_STEPS = 200
_GAP, _ENOUGH = 1e-10, 1e-6
"""The gap to the least possible deviation, as a share of the target: wished for, and accepted."""
_PATIENCE = 5
_SHARES = (0.9995, 0.95, 0.8)
"""The share of the way to the next wall that a step goes: boldly first, then with care."""


class _Point(NamedTuple):
    """What is sought and what proves it: x, t, both slacks, and their multipliers."""

    x: Vector
    t: Vector
    above: Vector
    below: Vector
    u: Vector
    v: Vector
    z: Vector

    @property
    def pairs(self) -> tuple[tuple[Vector, Vector], ...]:
        """What must not be negative, with its multiplier."""
        return (self.above, self.u), (self.below, self.v), (self.x, self.z)

    @property
    def gap(self) -> float:
        """How far from the least deviation it can be at most, once the rest is settled."""
        return sum(float(one @ other) for one, other in self.pairs)


def nearest_vertex(matrix: Vector, target: Vector) -> Vector | None:
    """Such a vertex, or nothing if no gap could be closed, which no input is known to do."""
    largest = max(1.0, float(np.abs(target).max()))
    with np.errstate(all="ignore"):  # what is not finite is never the best
        for share in _SHARES:
            found = _interior(matrix, target / largest, share)
            if found is not None:
                return _vertex(matrix, found * largest)
    return None


def _interior(matrix: Vector, target: Vector, share: float) -> Vector | None:
    """The middle of all vectors that come nearest."""
    rows, columns = matrix.shape
    x = np.full(columns, 1 / columns)
    off = matrix @ x - target
    t = np.array([1 + np.abs(off).max()])
    half = np.full(rows, 0.5 / rows)
    at = _Point(x, t, t - off, t + off, half, half, np.full(columns, 1 / columns))
    slackness, span = 2 * rows + columns, _span(matrix)
    best, least, since = at, np.inf, 0
    for _ in range(_MOST_STEPS):
        gap = at.gap + _unsettled(matrix, target, at)
        best, least, since = (at, gap, 0) if gap < least else (best, least, since + 1)
        if least < _GAP or since == _PATIENCE:  # rounding allows no more
            break
        try:
            newton = _Newton(matrix, target, span, at)
        except np.linalg.LinAlgError:
            break
        straight = newton.step(*(-one * other for one, other in at.pairs))
        aimed = _moved(at, straight, 1.0).gap
        centre = (aimed / at.gap) ** 3 * at.gap / slackness
        bent = (
            centre - one * other - by * beside
            for (one, other), (by, beside) in zip(at.pairs, straight.pairs, strict=True)
        )
        at = _moved(at, newton.step(*bent), share)
    return best.x if least < _ENOUGH else None


def _unsettled(matrix: Vector, target: Vector, at: _Point) -> float:
    """How far the equations are off that make the gap a proof."""
    off = matrix @ at.x - target
    return float(
        np.abs(at.t - off - at.above).max()
        + np.abs(at.t + off - at.below).max()
        + np.abs(at.z - matrix.T @ (at.u - at.v)).max()
        + abs(1 - at.u.sum() - at.v.sum())
    )


class _Newton:
    """The linear system of a point, for several right-hand sides.

    It has the image of x and the multipliers' image in the span of the rows, side by side: neither
    is eliminated, because either elimination is singular somewhere near the end.
    """

    def __init__(self, matrix: Vector, target: Vector, span: tuple[Vector, Vector], at: _Point):
        self._matrix, self._at, self._span = matrix, at, span
        image = matrix @ at.x - target
        self._above_off = at.t - image - at.above
        self._below_off = at.t + image - at.below
        self._z_off = at.z - matrix.T @ (at.u - at.v)
        self._sum_off = 1 - at.u.sum() - at.v.sum()
        self._p, self._q = at.u / at.above, at.v / at.below
        self._ratio = at.x / at.z
        basis, inner = span
        rank, weights = len(inner), self._p + self._q
        side = basis.T @ (self._p - self._q)
        system = np.eye(2 * rank + 1)
        system[:rank, rank:-1] = (inner * self._ratio) @ inner.T
        system[rank:-1, :rank] = -(basis.T * weights) @ basis
        system[rank:-1, -1], system[-1, :rank] = side, side
        system[-1, -1] = -weights.sum()
        self._rows = 1 / np.abs(system).max(axis=1)
        even = system * self._rows[:, None]
        self._columns = 1 / np.abs(even).max(axis=0)
        self._system = even * self._columns
        self._inverse = np.linalg.inv(self._system)

    def step(self, above: Vector, below: Vector, x: Vector) -> _Point:
        """Where to go so that the products of the pairs change so much."""
        at, p, q = self._at, self._p, self._q
        basis, inner = self._span
        one = (above - at.u * self._above_off) / at.above
        other = (below - at.v * self._below_off) / at.below
        drift = x / at.z + self._ratio * self._z_off
        solved = self._solved(
            np.concatenate(
                [inner @ drift, basis.T @ (one - other), [self._sum_off - (one + other).sum()]]
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
            u=one + p * (image - t),
            v=other - q * (image + t),
            z=turned - self._z_off,
        )

    def _solved(self, side: Vector) -> Vector:
        """Solve the system, once more for what the first solution leaves."""
        even = side * self._rows
        found = self._inverse @ even
        found += self._inverse @ (even - self._system @ found)
        return np.asarray(found * self._columns)


def _span(matrix: Vector) -> tuple[Vector, Vector]:
    """The matrix as the product of independent columns, orthogonal ones, and independent rows."""
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    rank = int(np.count_nonzero(sizes > 1e-10 * sizes.max(initial=0.0)))
    return left[:, :rank], right[:rank] * sizes[:rank, None]


def _moved(at: _Point, step: _Point, share: float) -> _Point:
    """As far as nothing turns negative, what is sought and what proves it each on its own."""
    walls = [
        min(1.0, share * min(_reach(pair[side], by[side]) for pair, by in _both(at, step)))
        for side in (0, 1)
    ]
    sought = ("x", "t", "above", "below")
    return _Point(
        *(
            one + walls[name not in sought] * by
            for name, one, by in zip(_Point._fields, at, step, strict=True)
        )
    )


def _both(at: _Point, step: _Point) -> zip[tuple[tuple[Vector, Vector], tuple[Vector, Vector]]]:
    return zip(at.pairs, step.pairs, strict=True)


def _reach(values: Vector, by: Vector) -> float:
    falling = by < 0
    return float(np.min(values[falling] / -by[falling], initial=np.inf))


def _vertex(matrix: Vector, x: Vector) -> Vector:
    """Move x along what the matrix does not see until no such way is left, a block at a time."""
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
    """The same for so few entries that all ways are known at once."""
    _, sizes, ways = np.linalg.svd(matrix)
    rank = int(np.count_nonzero(sizes > 1e-10 * sizes.max(initial=0.0)))
    free = ways[rank:].T
    x = x.copy()
    while free.shape[1]:
        way = free[:, -1] if free[:, -1].max() > 0 else -free[:, -1]
        falling = np.flatnonzero(way > 1e-9)
        shares = x[falling] / way[falling]
        first = falling[np.argmin(shares)]
        x = np.maximum(x - shares.min() * way, 0.0)
        x[first] = 0.0
        # A reflection gathers all that is left of this entry in one way, which is dropped.
        mirror = free[first].copy()
        mirror[-1] += np.copysign(np.linalg.norm(mirror), mirror[-1])
        free -= np.outer(free @ mirror, mirror) * (2 / (mirror @ mirror))
        free = free[:, :-1]
        free[first] = 0.0
    return x
