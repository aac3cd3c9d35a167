"""A publication of any kind as the gatekeeper charges and runs it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato import arguments
from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods.method import AnswerSize
from sfumato.methods.publish.catalogue import KINDS, PublicationKind
from sfumato.methods.publish.form_kinds import FormPublication, FormRequest
from sfumato.methods.publish.options import of_maker
from sfumato.methods.publish.postprocess import unstated
from sfumato.methods.publish.request import (
    AnswersRanges,
    BoundsUnevenness,
    EstimatesVariance,
    PredictsVariance,
    to_codes,
)
from sfumato.methods.publish.rounding import readable
from sfumato.privacy.noise.entropy import secret
from sfumato.release.release import Guarantee, Provenance, Release, today
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis
    from sfumato.methods.method import Dataset
    from sfumato.methods.publish.request import Method, Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


_NUMBER = 8


@dataclass(frozen=True, repr=False)
class Publication(Shown):
    """What the gatekeeper charges and runs. Nothing in it saw data."""

    kind: str
    request: Request
    method: Method

    public = ()

    def _card(self) -> Card:
        columns, price = ", ".join(self.request.columns), self.request.price.sentence()
        line = f"{self.kind} of {columns} in {self.request.dataset}, would cost {price}"
        return Card(line, {**self.error, **self.method.parameters}, notes=["Nothing was spent."])

    @property
    def name(self) -> str:
        """The method's name, for the ledger and the release."""
        return f"publish {self.kind}"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data set it reads."""
        return (self.request.dataset,)

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        return self.method.event

    @cached_property
    def answer_size(self) -> AnswerSize | None:
        """At most how large the release is, where it has a figure for every declared cell."""
        cells: int | None = getattr(self.method, "released_cells", None)
        if cells is None:
            return None
        size = cells * (_NUMBER + sum(map(_value_bytes, self.request.axes)))
        return AnswerSize(cells, size, work=size)

    @property
    def error(self) -> Mapping[str, Any]:
        """How far the release will be off, known before anything is spent; null where it is not."""
        return unstated(self.method.error, self.request.postprocess)

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form."""
        request = self.request
        boxes = request.boxes
        return {
            "columns": list(request.columns),
            "domain": _digest(repr([_declared(axis, request.groups) for axis in request.axes])),
            "cost": request.price.to_record(),
            "workload": None if boxes is None else _digest(boxes.tobytes()),
            "postprocess": list(request.postprocess),
            "unit": request.unit.sentence(),
            "method": dict(self.method.parameters),
        }

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Count what the method asks for, bounded by the unit, add noise, and give the release."""
        data = datasets[self.request.dataset]
        # Fresh for each release, and never shown: it keys the hash by which rows are kept.
        salt = secret(entropy)
        request = self.request
        counter = BoundedCounter(data.engine, data.table, request.axes, request.unit, salt)
        tables = self.method.release(counter, entropy)
        return Release(
            readable(tables, self.method.error, request.columns),
            self.guarantee,
            Provenance(self.name, self.parameters, fingerprint="", made=today()),
            self.error,
        )

    def ranges(self, tables: Mapping[str, pa.Table], queries: ArrayLike) -> FloatArray:
        """Estimate from released tables how many rows lie within ranges of values."""
        if not isinstance(self.method, AnswersRanges):
            raise ParameterError(
                "ranges_unsupported",
                f"A publication of kind {self.kind!r} does not answer ranges. Publish as 'auto', "
                "'tree' or 'histogram'.",
            )
        return self.method.ranges(tables, to_codes(self.request.axes, queries))

    def ranges_stddev(
        self, queries: ArrayLike, tables: Mapping[str, pa.Table] | None = None
    ) -> FloatArray:
        """The standard deviation of such estimates, before anything is spent or from a release."""
        if self.request.postprocess:
            raise ParameterError(
                "ranges_postprocessed",
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
            "ranges_unforeseen",
            f"How far ranges of a publication of kind {self.kind!r} are off depends on the data "
            "and is not known. Publish as 'auto', 'tree' or 'histogram'.",
        )

    def ranges_unevenness(self, tables: Mapping[str, pa.Table], queries: ArrayLike) -> FloatArray:
        """Bound what estimates are off besides their noise, where ranges end within a count."""
        if not isinstance(self.method, BoundsUnevenness):
            raise ParameterError(
                "unevenness_unknown",
                f"How unevenly rows lie within what a publication of kind {self.kind!r} counts is "
                "not known. Publish as 'auto', 'tree' or 'histogram'.",
            )
        return self.method.ranges_unevenness(tables, to_codes(self.request.axes, queries))

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        price = self.request.price.charged(self.event)
        return Guarantee(*price.promise(self.request.unit, table=self.request.dataset))


def _declared(axis: Axis, groups: Mapping[str, Any]) -> tuple[object, ...]:
    """All that is declared of an axis: another domain makes another publication."""
    if isinstance(axis, Grid):
        bounds = axis.bounds
        ends = (str(bounds.low), str(bounds.high), str(bounds.grid_step))
        return axis.column, str(axis.kind), ends, axis.nullable
    return axis.column, axis.values.to_pylist(), groups.get(axis.column)


def _value_bytes(axis: Axis) -> int:
    """The bytes of the longest value of an axis."""
    if isinstance(axis, Grid) or not pa.types.is_string(axis.values.type):
        return _NUMBER
    return int(pc.max(pc.binary_length(axis.values)).as_py() or 0)


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def kind_named(kind: str) -> PublicationKind:
    """A kind by its name."""
    if arguments.text(kind, "kind") not in KINDS:
        raise ParameterError(
            "kind_unknown",
            f"There is no kind of publication {quoted(kind)}; {suggestion(kind, list(KINDS))}",
        )
    return KINDS[kind]


def prepare(kind: str, request: Request, options: Mapping[str, object]) -> Publication:
    """Make a request ready to be charged and run; every choice is made from public facts."""
    return Publication(kind, request, _made(kind, request, options))


def prepare_form(kind: str, request: FormRequest, options: Mapping[str, object]) -> FormPublication:
    """The same of a table whose rows are not people."""
    return FormPublication(kind, request, _made(kind, request, options))


def maker(kind: str) -> Callable[..., Any]:
    """What makes a method of a request for a kind; its keywords are the kind's options."""
    module, _, function = kind_named(kind).home.partition(":")
    home = module if module.startswith("sfumato.") else f"sfumato.methods.publish.{module}"
    found: Callable[..., Any] = getattr(import_module(home), function or "prepare")
    return found


def _made(kind: str, request: Request | FormRequest, options: Mapping[str, object]) -> Any:
    """The method that a kind makes of a request, with options that it has."""
    return of_maker(maker(kind), options, f"A publication of kind {quoted(kind)}")(request)
