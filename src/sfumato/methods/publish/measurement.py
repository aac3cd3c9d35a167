"""Measure counts with noise: the noise, its sensitivity, and checks of requests.

A strategy is a public matrix of whole numbers. Its product with the counts gets noise. An
irrational matrix is first rounded to whole numbers at a power-of-two scale, and the sensitivity is
that of the rounded matrix. Cells of missing values have rows of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import Neighbours, Sensitivity
from sfumato.errors import ParameterError
from sfumato.methods.publish.domain import points
from sfumato.privacy.mechanisms.laplace import Geometric, TruncatedGeometric
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from sfumato.data.counting.axes import Axis
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.smooth_median import SmoothMedian
    from sfumato.privacy.mechanisms.sparse_vector import SparseVector
    from sfumato.privacy.mechanisms.spending import Noise


def noise_name(noise: Noise) -> str:
    """Return the name of a noise in the parameters of a release."""
    return type(noise).__name__.lower()


def noise_error(noise: Noise | TruncatedGeometric) -> dict[str, float]:
    """Return the error of one figure with this noise: its sd and its 95 % bound."""
    return {"sd": noise.stddev, "bound95": noise.bound(0.05)}


class SingleNoise:
    """A method or strategy with the same noise on all of its measurements."""

    noise: Noise | TruncatedGeometric | SparseVector | SmoothMedian

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        return self.noise.event


@dataclass(frozen=True, kw_only=True)
class ColumnNorms:
    """The largest norms of the columns of a whole-number matrix: what one row can change."""

    l1: int
    l2_squared: int
    signed: bool
    """Whether two columns may point in opposite directions."""

    def sensitivity(self, request: Request) -> Sensitivity:
        """How far one person moves the product of the matrix and the counts.

        A norm is largest where all rows of a person lie in one cell. A replacement moves them to
        another cell: |a - b|^2 is at most |a|^2 + |b|^2 where no entry is negative, else twice.
        """
        person = request.sensitivity
        opposite = 2 if self.signed and request.unit.relation is Neighbours.REPLACE_ONE else 1
        return Sensitivity(
            l1=person.l1 * self.l1, l2_squared=person.l2_squared * self.l2_squared * opposite
        )

    def missing_weight(self, noise: Noise) -> int:
        """How often a cell outside the matrix can be counted without a higher sensitivity."""
        return self.l1 if isinstance(noise, Geometric) else isqrt(self.l2_squared)


def least_noise(request: Request, norms: ColumnNorms | None = None) -> Noise:
    """The noise of least variance for a price, on a histogram or on the product of a matrix."""
    sensitivity = request.sensitivity if norms is None else norms.sensitivity(request)
    noises = [spending.noise(sensitivity) for spending in spendings(request.price)]
    return min(noises, key=lambda noise: noise.variance)


def one_axis(request: Request, kind: str) -> Axis:
    """Return the only axis of a request, for kinds that take one ordered column."""
    if len(request.axes) != 1:
        raise ParameterError(
            "columns_invalid",
            f"A publication of kind {quoted(kind)} takes one ordered column, not "
            f"{len(request.axes)}. Name one column.",
        )
    axis = request.axes[0]
    if not points(axis):
        raise ParameterError(
            "domain_missing",
            f"Column {quoted(axis.column)} has no declared values to publish. Declare some.",
        )
    return axis


def without_postprocess(request: Request, kind: str) -> None:
    """Refuse post-processing where the release has no counts of cells."""
    if request.postprocess:
        raise ParameterError(
            "option_not_applicable",
            f"A publication of kind {quoted(kind)} has no counts of cells that could be "
            "post-processed. Leave post-processing out.",
        )
