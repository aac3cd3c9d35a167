"""Strategies for few cells: what to measure besides the cells, by descent on the expected error.

The strategy [I; T] D of non-negative rows T, with D such that every column has norm 1 (L1 for
Laplace noise, L2 for Gaussian), measures all cells and has an error that is smooth in T.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Objective = Callable[[Floats], tuple[float, Floats]]

_ROUNDS, _LEAST_ROUNDS = 150, 30
_FEW_CELLS = 96
"""So many cells are few: descent from every start takes less than a second."""
_FEW_QUERIES = 32
_MOST_WORK = 1 << 26
"""Queries squared times cells beyond which a step of many cells takes too long."""
_ALL_WORK = 1 << 30
_REMEMBERED = 8
_GOLDEN = 0.6180339887498949


def manageable(cells: int, queries: int) -> bool:
    """Whether a strategy for so many can be found in a few seconds."""
    return cells <= _FEW_CELLS or (queries <= cells and queries**2 * cells <= _MOST_WORK)


def best_strategy(queries: Floats, weights: Floats, *, pure: bool) -> Floats:
    """Rows over few cells with columns of norm at most 1, for queries that matter by weights.

    Descent begins at the queries themselves and at fixed scattered rows, as many as a quarter and
    an eighth of the cells (McKenna, Miklau, Hay & Machanavajjhala 2018, section 5: OPT_0). Of many
    cells it begins at the queries only, at the scale at which their error is least.
    """
    cells = queries.shape[1]
    scaled = queries * np.sqrt(weights)[:, None]
    if cells <= _FEW_CELLS:
        gram = scaled.T @ scaled
        tried = [
            _descended(lambda rows: _error(rows, gram, pure=pure), rows, _ROUNDS)
            for rows in _begun(cells, queries)
        ]
        _, rows = min(tried, key=lambda one: one[0])
    else:
        rows = _of_many(scaled, queries, pure=pure)
    return np.concatenate([np.eye(cells), rows]) / _norms(rows, pure=pure)


def _of_many(scaled: Floats, queries: Floats, *, pure: bool) -> Floats:
    """Rows for more cells than queries, descended from the queries themselves."""

    def objective(rows: Floats) -> tuple[float, Floats]:
        return _error_of_few(rows, scaled, pure=pure)

    begun = min(
        (scale * queries for scale in (0.05, 0.5, 1, 5, 20)), key=lambda rows: objective(rows)[0]
    )
    work = len(queries) ** 2 * queries.shape[1]
    rounds = min(max(_ALL_WORK // work, _LEAST_ROUNDS), _ROUNDS)
    return _descended(objective, begun, rounds)[1]


def _begun(cells: int, queries: Floats) -> Sequence[Floats]:
    scattered: Floats = np.arange(1.0, cells * cells + 1) * _GOLDEN % 1
    sizes = {max(cells // 8, 1), max(cells // 4, 1)}
    found: list[Floats] = [scattered[: size * cells].reshape(size, cells) for size in sorted(sizes)]
    # The scale at which queries alone, or cells alone, are measured, and one between them.
    few = len(queries) <= min(cells, _FEW_QUERIES)
    return [*found, 0.05 * queries, queries, 20 * queries] if few else found


def _norms(rows: Floats, *, pure: bool) -> Floats:
    """The norms of the columns of [I; T]."""
    return np.asarray(1 + rows.sum(axis=0) if pure else np.sqrt(1 + (rows**2).sum(axis=0)))


def _error(rows: Floats, gram: Floats, *, pure: bool) -> tuple[float, Floats]:
    """The error of a strategy with noise of variance 1, and its gradient in the rows."""
    norms = _norms(rows, pure=pure)
    inverse = np.linalg.inv(np.eye(len(gram)) + rows.T @ rows)
    scaled = gram * np.outer(norms, norms)
    by_norms = 2 * (gram * inverse) @ norms
    slopes = -2 * rows @ (inverse @ scaled @ inverse)
    slopes += by_norms if pure else rows * (by_norms / norms)
    return float((scaled * inverse).sum()), slopes


def _error_of_few(rows: Floats, queries: Floats, *, pure: bool) -> tuple[float, Floats]:
    """The same where rows and queries are fewer than cells, whose gram matrix is never made.

    By the identity of Woodbury the inverse of I + T'T is I - T'(I + TT')^-1 T.
    """
    norms = _norms(rows, pure=pure)
    within = np.linalg.solve(np.eye(len(rows)) + rows @ rows.T, rows)
    asked = queries * norms
    met = asked @ within.T
    inverse = asked - met @ rows  # of the queries, each times the inverse
    by_norms = 2 * (queries * inverse).sum(axis=0)
    slopes = -2 * met.T @ inverse
    slopes += by_norms if pure else rows * (by_norms / norms)
    return float((asked * inverse).sum()), slopes


def _descended(objective: Objective, rows: Floats, rounds: int) -> tuple[float, Floats]:
    """Projected gradients with steps after Barzilai & Borwein, which may rise for a while."""
    value, slopes = objective(rows)
    step = 0.1 / max(float(np.abs(slopes).max()), 1e-300)
    seen, best = [value], (value, rows)
    for _ in range(rounds):
        way = np.maximum(rows - step * slopes, 0.0) - rows
        fall = float((slopes * way).sum())
        if fall > -1e-9 * value:
            break
        part = 1.0
        while True:
            found, turned = objective(rows + part * way)
            if found <= max(seen[-_REMEMBERED:]) + 1e-4 * part * fall or part < 1e-6:
                break
            part /= 2
        bend = float((part * way * (turned - slopes)).sum())
        step = float(np.clip(part**2 * (way**2).sum() / bend, 1e-8, 1e8)) if bend > 0 else step * 10
        rows, value, slopes = rows + part * way, found, turned
        seen.append(value)
        best = min(best, (value, rows), key=lambda one: one[0])
    return best
