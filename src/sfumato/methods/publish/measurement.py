"""Measuring counts with noise: how far a person moves what is measured.

A strategy is a matrix of whole numbers, known to everyone, whose product with the counts gets
noise. An irrational one is rounded to whole numbers at a power-of-two scale first, and what one
person can do is taken from the rounded matrix. Cells of missing values have rows of their own.
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
    """What a noise is called among a release's parameters."""
    return type(noise).__name__.lower()


def noise_error(noise: Noise | TruncatedGeometric) -> dict[str, float]:
    """How far one figure of this noise is off, for a release's error."""
    return {"sd": noise.stddev, "bound95": noise.bound(0.05)}


class SingleNoise:
    """A method or strategy that puts one noise on everything it measures."""

    noise: Noise | TruncatedGeometric | SparseVector | SmoothMedian

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.noise.event


@dataclass(frozen=True, kw_only=True)
class ColumnNorms:
    """The largest norms among the columns of a whole-number matrix: what one row can do."""

    l1: int
    l2_squared: int
    signed: bool
    """Whether two columns may point in opposite directions."""

    def sensitivity(self, request: Request) -> Sensitivity:
        """How far one person moves the matrix's product with the counts.

        A norm is largest where all rows of a person lie in one cell. Replaced, they go from there
        to another: |a - b|^2 is at most |a|^2 + |b|^2 where no entry is negative, else twice that.
        """
        person = request.sensitivity
        opposite = 2 if self.signed and request.unit.relation is Neighbours.REPLACE_ONE else 1
        return Sensitivity(
            l1=person.l1 * self.l1, l2_squared=person.l2_squared * self.l2_squared * opposite
        )

    def missing_weight(self, noise: Noise) -> int:
        """How many times a cell outside the matrix can be counted, by this noise, for nothing."""
        return self.l1 if isinstance(noise, Geometric) else isqrt(self.l2_squared)


def least_noise(request: Request, norms: ColumnNorms | None = None) -> Noise:
    """The noise of least variance that a price pays for, on a histogram or a matrix's product."""
    sensitivity = request.sensitivity if norms is None else norms.sensitivity(request)
    noises = [spending.noise(sensitivity) for spending in spendings(request.price)]
    return min(noises, key=lambda noise: noise.variance)


def one_axis(request: Request, kind: str) -> Axis:
    """The axis of a kind that takes one column, whose values it takes in the order of codes."""
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
    """Refuse post-processing where what is released are not counts of cells."""
    if request.postprocess:
        raise ParameterError(
            "option_not_applicable",
            f"A publication of kind {quoted(kind)} has no counts of cells that could be "
            "post-processed. Leave post-processing out.",
        )
