"""The published sparse-vector variants that are not private (Lyu, Su & Li 2017, algorithms 3-6).

All take a threshold of 0, queries of sensitivity 1 and epsilon 1; an output lists one part a query.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Pure

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    from sfumato.testing.audit import Audit

ONE = Pure(epsilon=Fraction(1))
STOPPED = -99
FIRST = np.array([0] * 5 + [1] * 5)
SECOND = np.array([1] * 5 + [0] * 5)


def cut_off(above: NDArray[np.bool_], limit: int) -> Any:
    """Mark the answers given before the limit of positive ones is reached."""
    return np.cumsum(above, axis=1) - above < limit


def algorithm_3(queries: NDArray[Any], size: int, generator: Generator) -> Any:
    """Roth 2011: a positive answer releases the very noisy value that was compared."""
    threshold = generator.laplace(0, 2, (size, 1))
    noisy = queries + generator.laplace(0, 2, (size, len(queries)))
    above = noisy >= threshold
    answers = np.where(above, np.round(noisy), -50)
    return np.where(cut_off(above, 1), answers, STOPPED)


def algorithm_4(queries: NDArray[Any], size: int, generator: Generator) -> Any:
    """Lee & Clifton 2014: noise on the queries does not grow with the limit of 5."""
    threshold = generator.laplace(0, 4, (size, 1))
    above = queries + generator.laplace(0, 4 / 3, (size, len(queries))) >= threshold
    return np.where(cut_off(above, 5), above, STOPPED)


def algorithm_5(queries: NDArray[Any], size: int, generator: Generator) -> Any:
    """Stoddard et al. 2014: no noise on the queries."""
    return queries >= generator.laplace(0, 2, (size, 1))


def algorithm_6(queries: NDArray[Any], size: int, generator: Generator) -> Any:
    """Chen et al. 2015: no limit on the positive answers."""
    threshold = generator.laplace(0, 2, (size, 1))
    return queries + generator.laplace(0, 2, (size, len(queries))) >= threshold


def threshold_without_noise(queries: NDArray[Any], size: int, generator: Generator) -> Any:
    above = queries + generator.laplace(0, 2, (size, len(queries))) >= 0
    return np.where(cut_off(above, 5), above, STOPPED)


WRONG: list[tuple[Callable[..., Any], NDArray[Any], NDArray[Any]]] = [
    (algorithm_3, np.array([0] * 5 + [1]), np.array([1] * 5 + [0])),
    (algorithm_4, FIRST, SECOND),
    (algorithm_5, FIRST, SECOND),
    (algorithm_6, FIRST, SECOND),
    (threshold_without_noise, np.zeros(10), np.ones(10)),
]


@pytest.mark.parametrize(
    ("wrong", "first", "second"), WRONG, ids=[row[0].__name__ for row in WRONG]
)
def test_wrong_sparse_vector_is_caught(
    accuse: Callable[..., Audit],
    wrong: Callable[..., Any],
    first: NDArray[Any],
    second: NDArray[Any],
) -> None:
    found = accuse(wrong, (first, second), ONE)
    assert found.violated, found.sentence()
