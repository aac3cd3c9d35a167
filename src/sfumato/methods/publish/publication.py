"""Publications: the plan of a kind, which may answer ranges of values from its release."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import Grid
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.methods.kinds import kind_named
from sfumato.methods.method import AnswerSize, KindPlan
from sfumato.methods.publish.catalogue import KINDS
from sfumato.methods.publish.postprocess import unstated
from sfumato.methods.publish.request import (
    AnswersRanges,
    BoundsUnevenness,
    EstimatesVariance,
    PredictsVariance,
    Request,
    to_codes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis
    from sfumato.methods.publish.request import FormRequest


# Bytes of one number in a table.
_NUMBER_BYTES = 8


@dataclass(frozen=True, repr=False)
class Publication(KindPlan):
    """The plan of a publication of columns, whose release may answer ranges of values."""

    request: Request
    family: str = "publish"

    @cached_property
    def answer_size(self) -> AnswerSize | None:
        """The largest size of the release, where it has a figure for every declared cell."""
        cells: int | None = getattr(self.method, "released_cells", None)
        if cells is None:
            return None
        size = cells * (_NUMBER_BYTES + sum(map(_value_bytes, self.request.axes)))
        return AnswerSize(cells, size, work=size)

    @property
    def error(self) -> Mapping[str, Any]:
        """The forecast of the error; figures are None where post-processing makes them unknown."""
        return unstated(self.method.error, self.request.postprocess)

    def ranges(self, tables: Mapping[str, pa.Table], queries: ArrayLike) -> FloatArray:
        """Estimate from released tables how many rows lie within ranges of values."""
        if not isinstance(self.method, AnswersRanges):
            raise ParameterError(
                "ranges_not_answerable",
                f"A publication of kind {self.kind!r} does not answer ranges. Publish as 'auto', "
                "'tree' or 'histogram'.",
            )
        return self.method.ranges(tables, to_codes(self.request.axes, queries))

    def ranges_stddev(
        self, queries: ArrayLike, tables: Mapping[str, pa.Table] | None = None
    ) -> FloatArray:
        """The standard deviation of estimates of ranges, in advance or from released tables."""
        if self.request.postprocess:
            raise ParameterError(
                "ranges_not_answerable",
                "How far ranges are off after post-processing "
                f"({', '.join(self.request.postprocess)}) depends on the data and is not known. "
                "Publish without post-processing, or plan without it to learn what the noise alone "
                "does.",
            )
        boxes = to_codes(self.request.axes, queries)
        if tables is not None and isinstance(self.method, EstimatesVariance):
            return np.sqrt(self.method.ranges_variance_of(tables, boxes))
        if isinstance(self.method, PredictsVariance):
            return np.sqrt(self.method.ranges_variance(boxes))
        raise ParameterError(
            "ranges_not_answerable",
            f"How far ranges of a publication of kind {self.kind!r} are off depends on the data "
            "and is not known. Publish as 'auto', 'tree' or 'histogram'.",
        )

    def ranges_unevenness(self, tables: Mapping[str, pa.Table], queries: ArrayLike) -> FloatArray:
        """Bound the error beyond noise of estimates whose ranges end within a counted block."""
        if not isinstance(self.method, BoundsUnevenness):
            raise ParameterError(
                "ranges_not_answerable",
                f"How unevenly rows lie within what a publication of kind {self.kind!r} counts is "
                "not known. Publish as 'auto', 'tree' or 'histogram'.",
            )
        return self.method.ranges_unevenness(tables, to_codes(self.request.axes, queries))


def _value_bytes(axis: Axis) -> int:
    """Return the bytes of the longest value of an axis."""
    if isinstance(axis, Grid) or not pa.types.is_string(axis.values.type):
        return _NUMBER_BYTES
    return int(pc.max(pc.binary_length(axis.values)).as_py() or 0)


def prepare(kind: str, request: Request, options: Mapping[str, object]) -> Publication:
    """Plan a publication of columns; every choice is made from public facts."""
    return Publication(kind, request, _make_method(kind, request, options))


def prepare_form(kind: str, request: FormRequest, options: Mapping[str, object]) -> KindPlan:
    """Plan a publication of a table whose rows are edges, points or items."""
    return KindPlan(kind, request, _make_method(kind, request, options), "publish")


def _make_method(kind: str, request: Request | FormRequest, options: Mapping[str, object]) -> Any:
    """Make the method of a kind from a request and the options of the kind."""
    title = f"A publication of kind {quoted(kind)}"
    return kind_named(KINDS, kind, "publication").make(request, options, title)
