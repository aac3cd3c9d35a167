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

_ROUNDS = 150
_FEW_QUERIES = 32
_REMEMBERED = 8
_GOLDEN = 0.6180339887498949


def best_strategy(gram: Floats, queries: Floats, *, pure: bool) -> Floats:
    """Rows over few cells with columns of norm at most 1, for a workload's mean gram matrix.

    Descent begins at the queries themselves and at fixed scattered rows, as many as a quarter and
    an eighth of the cells (McKenna, Miklau, Hay & Machanavajjhala 2018, section 5: OPT_0).
    """
    cells = len(gram)

    def objective(rows: Floats) -> tuple[float, Floats]:
        return _error(rows, gram, pure=pure)

    tried = [_descended(objective, rows) for rows in _begun(cells, queries)]
    _, rows = min(tried, key=lambda one: one[0])
    return np.concatenate([np.eye(cells), rows]) / _norms(rows, pure=pure)


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


def _descended(objective: Objective, rows: Floats) -> tuple[float, Floats]:
    """Projected gradients with steps after Barzilai & Borwein, which may rise for a while."""
    value, slopes = objective(rows)
    step = 0.1 / max(float(np.abs(slopes).max()), 1e-300)
    seen, best = [value], (value, rows)
    for _ in range(_ROUNDS):
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
