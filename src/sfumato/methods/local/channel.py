"""The channel of a mechanism as whole numbers, from which its epsilon is computed, not believed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.privacy.accounting.elementary import log_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray

MOST_CELLS = 1 << 21


@dataclass(frozen=True)
class Channel:
    """P(output y | input x) = weights[x, y] / total, exactly; rows are inputs."""

    weights: NDArray[Any]
    total: int

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Channel:
        """A channel of whole weights; each row must sum to the same total."""
        weights = np.array([list(row) for row in rows], dtype=object)
        totals = {int(sum(row)) for row in weights}
        assert len(totals) == 1, "the rows of a channel have one total"
        return cls(weights, totals.pop())

    @property
    def ratio(self) -> Fraction | None:
        """The largest ratio of the chances of an output between two inputs; None if unbounded."""
        low, high = self.weights.min(axis=0), self.weights.max(axis=0)
        sent = high > 0
        if (low[sent] == 0).any():
            return None
        return max(
            Fraction(int(a), int(b)) for a, b in set(zip(high[sent], low[sent], strict=True))
        )

    @property
    def epsilon(self) -> float:
        """The epsilon that it realises, rounded up."""
        ratio = self.ratio
        if ratio is None:
            return float("inf")
        return float(np.nextafter(float(log_up(ratio)), np.inf)) if ratio > 1 else 0.0

    def probabilities(self) -> FloatArray:
        """The matrix as floats."""
        return np.array([[weight / self.total for weight in row] for row in self.weights.tolist()])


def room_for(inputs: int, outputs: int) -> None:
    """Refuse the matrix of a channel that would not fit."""
    if inputs * outputs > MOST_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"The channel matrix would have {inputs:,} x {outputs:,} cells; at most "
            f"{MOST_CELLS:,} are written out. Ask for the channel of a smaller domain: epsilon "
            "does not depend on it.",
        )
