"""The plan of a synthesis of one declared table.

Decision `synthesis`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.schema.column import Kind
from sfumato.data.schema.constraints import describe
from sfumato.errors import ParameterError, option
from sfumato.methods.method import AnswerSize, Plan
from sfumato.methods.synth.encode.constraints import possible_codes
from sfumato.methods.synth.encode.decoder import lost_constraints
from sfumato.methods.synth.encode.identifiers import key_room, too_many_for_keys
from sfumato.methods.synth.forecast import SynthesisForecast
from sfumato.methods.synth.synthesis import MOST_CODES, Synthesis
from sfumato.methods.synth.synthesis_model import SynthesisModel, drawn, rows_to_draw
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.noise.entropy import random_key
from sfumato.report.display import Card
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.data.counting.axes import Axis
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.layout import FileLayout
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import Dataset
    from sfumato.methods.synth.encode.encoding import Encoding
    from sfumato.methods.synth.measurement_log import ColumnSet, MeasurementLog
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.release import Guarantee, Release

    ColumnSets = tuple[tuple[str, ...], ...]

ROWS, MODEL = "rows", "model"
"""The tables of the release as it is stored."""
WEIGHING = ("aim", "mst")
"""The methods that choose by themselves, and to which tables with a target matter more."""
NAMING = ("aim", "workload")
"""The methods that take sets of columns which matter."""
MOST_HELD = 1 << 17
"""A table of so many rows is counted in one passage, and not for every few columns again."""
MOST_BYTES = 1 << 28
"""The most that the rows of a release may take, which the ledger stores."""


_USUAL_LENGTH = 10
"""Of a made-up text where none is declared: it is a number."""


@dataclass(frozen=True, repr=False, kw_only=True)
class SynthesisRequest(Plan):
    """The plan of a synthesis of one table: the request and its one method."""

    dataset: str
    encoding: Encoding
    unit: Unit
    price: Price
    method: str = "auto"
    rows: int | None = None
    sets: ColumnSets = ()
    """The sets of columns that matter, for methods that take some."""
    target: str | None = None
    """A column that the others are to tell, for methods that choose by themselves."""

    name = "synthesize"

    def __post_init__(self) -> None:
        most, room = most_rows(self._assumed), key_room(self.encoding)
        if self.rows is not None and not 1 <= self.rows <= most:
            asked = f"{self.rows:,}" if abs(self.rows) < 10**18 else arguments.shown(self.rows)
            raise ParameterError(
                "parameter_out_of_range",
                f"{option('rows')} must be from 1 to {most:,}, not {asked}. A model that "
                f"{option('model')} writes draws any number.",
                parameter="rows",
                given=asked,
            )
        if room is not None and self.rows is not None and self.rows > room:
            raise too_many_for_keys(self.rows, room)
        _ = self._declared  # what cannot be measured is refused before anything is charged
        check_cells(self._declared.axes, self.sets)

    def _card(self) -> Card:
        columns = ", ".join(column.name for column in self.encoding.output_columns)
        line = f"synthesis of {columns} in {self.dataset}, would cost {self.price.sentence()}"
        return Card(line, {"Method": self.method}, notes=self.explain().text().splitlines())

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data set it reads."""
        return (self.dataset,)

    @property
    def columns(self) -> dict[str, tuple[Column, ...]]:
        """The columns that are drawn, by table."""
        return {self.dataset: self.encoding.output_columns}

    @property
    def layouts(self) -> dict[str, FileLayout]:
        """How a file of its table is written, so that its schema reads it."""
        return {self.dataset: self.encoding.schema.layout}

    @cached_property
    def _assumed(self) -> Encoding:
        """The plan as if nothing were discovered."""
        return self.encoding.discovered({column.name: () for column in self.encoding.open})

    @cached_property
    def _declared(self) -> Synthesis:
        """The synthesis of the columns that are declared, by what discovery leaves of the price."""
        remaining = self.encoding.paid(self.price).remaining
        axes = tuple(self.encoding.declared_axes)
        return Synthesis(
            axes=axes, unit=self.unit, price=remaining, method=self.method, rows=self.rows
        )

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        before, measuring = self.encoding.paid(self.price).events, self._declared.event
        return Composed((*before, measuring)) if before else measuring

    @property
    def answer_size(self) -> AnswerSize | None:
        """At most how large the table is, where the number of its rows is asked for."""
        if self.rows is None:
            return None
        bytes_per_row = _row_bytes(self._assumed)
        return AnswerSize(0, min(self.rows * bytes_per_row, MOST_BYTES), work=0)

    def explain(self) -> SynthesisForecast:
        """How far off each method would be, told from public facts alone; spends nothing."""
        searched = self.encoding.paid(self.price).searched
        asked = self._assumed, self.encoding.open, self._declared, self.price, self.sets
        return forecast_of(*asked, searched)

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form."""
        return {
            "columns": [column.name for column in self.encoding.output_columns],
            "domain": declared_digest(self.encoding),
            "cost": self.price.to_record(),
            "rows": self.rows,
            "workload": [list(names) for names in self.sets],
            "unit": self.unit.sentence(),
            "method": {"method": self.method}
            | ({} if self.target is None else {"target": self.target}),
        }

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Discover, measure, fit and draw. What is read of the table are counts alone."""
        data = datasets[self.dataset]
        # Fresh for each release, and never shown: it keys the hash by which rows are kept.
        salt = random_key(entropy)
        paid = self.encoding.paid(self.price)
        discovered = paid.run(data.engine, data.table, salt, entropy)
        encoding = with_room(self.encoding.discovered(*discovered), self.sets)
        options = set_options(self.method, encoding, self.sets, self.target)
        synthesis = replace(
            self._declared,
            axes=encoding.axes,
            options=options,
            possible=possible_codes(encoding),
        )
        counter = BoundedCounter(data.engine, data.table, encoding.axes, self.unit, salt)
        log = synthesis.measure(counter.held(MOST_HELD), entropy)
        model = SynthesisModel(encoding, synthesis.fit(log), log)
        rows = min(rows_to_draw(model, self.rows), most_rows(encoding))
        tables = {ROWS: drawn(model, rows, entropy), MODEL: model.packed}
        return self._release(tables, noise_error(log))

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        notes = lost_constraints(self.encoding)
        facts = {"notes": notes} if notes else {}
        return self._promise(self.price, self.unit, table=self.dataset, **facts)


def check_cells(axes: Sequence[Axis], sets: ColumnSets) -> None:
    """Refuse named sets of columns whose tables would be too large."""
    sizes = {axis.column: axis.size for axis in axes}
    for names in sets:
        cells = np.prod([float(sizes.get(name, 1)) for name in names])
        if cells > MOST_CODES:
            raise ParameterError(
                "problem_too_large",
                f"The table of {' x '.join(names)} has {cells:,.0f} cells; at most "
                f"{MOST_CODES:,} are possible. Name fewer columns in one set.",
            )


def with_room(encoding: Encoding, sets: ColumnSets) -> Encoding:
    """The plan with the declared bins of columns whose named sets would be too large otherwise.

    Bins that follow atoms and rows may be more than were declared when sets were checked.
    """
    for names in sets:
        while True:
            sizes = {axis.column: axis.size for axis in encoding.axes if axis.column in names}
            cut = [name for name in sizes if name in encoding.cuts]
            if prod(sizes.values()) <= MOST_CODES or not cut:
                break
            widest = max(cut, key=sizes.__getitem__)
            cuts = {name: starts for name, starts in encoding.cuts.items() if name != widest}
            encoding = replace(encoding, cuts=cuts)
    return encoding


def forecast_of(
    assumed: Encoding,
    open_columns: Sequence[Column],
    declared: Synthesis,
    price: Price,
    sets: ColumnSets,
    searched: tuple[str, ...] = (),
) -> SynthesisForecast:
    """How far off each method would be, told from public facts alone."""
    return SynthesisForecast(
        columns=tuple(axis.column for axis in assumed.axes),
        cells=tuple(axis.size for axis in assumed.axes),
        open=tuple(column.name for column in open_columns),
        by_quantiles=assumed.by_quantiles,
        searched=searched,
        spending=declared.spending,
        unit=declared.unit,
        price=price,
        method=declared.method,
        sets=sets,
        rows=assumed.rows,
        lost_constraints=tuple(lost_constraints(assumed)),
    )


def declared_digest(encoding: Encoding) -> str:
    """What marks the declared domain of what is asked."""
    constraints = [describe(constraint) for constraint in encoding.schema.constraints]
    drawn = [
        [column.name, str(column.kind), repr(column.spelling)] for column in encoding.output_columns
    ]
    text = dumps([encoding.to_record(), constraints, drawn], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def set_options(
    method: str, encoding: Encoding, named: ColumnSets, target: str | None = None
) -> dict[str, Any]:
    """What a method takes: named sets, and a target whose tables matter more; else nothing."""
    names = [axis.column for axis in encoding.axes]
    sets: list[ColumnSet] = [tuple(sorted(map(names.index, columns))) for columns in named]
    options: dict[str, Any] = {"sets": sets} if method in NAMING else {}
    return options if target is None else {**options, "target": names.index(target)}


def most_rows(encoding: Encoding) -> int:
    """The most rows of a release, whatever noise says of their number."""
    return MOST_BYTES // _row_bytes(encoding)


def _row_bytes(encoding: Encoding) -> int:
    """The bytes of one row of a release."""
    texts = [
        max((len(text.encode()) for text in axis.values.drop_null().to_pylist()), default=0)
        for axis in encoding.axes
        if isinstance(axis, Listed) and axis.values.type == pa.string()
    ]
    made_up = [
        column.length or _USUAL_LENGTH for column in encoding.invented if column.kind is Kind.TEXT
    ]
    return 8 * len(encoding.output_columns) + sum(texts) + sum(made_up)


def noise_error(log: MeasurementLog) -> dict[str, float | None]:
    """How far noise takes shares of columns and of measured pairs off, in the mean, from the log.

    As total variation distance: half of the sum of all expected deviations, at most 1. Pairs that
    were not measured together are off by what the model does not know besides.
    """
    columns = log.shape.columns
    pairs = [
        pair
        for pair in log.shape.pairs()
        if any(set(pair) <= set(measured) for measured in log.measured)
    ]
    estimate = log.estimate([*((column,) for column in columns), *pairs])
    total = log.total()

    def mean(sets: list[ColumnSet]) -> float | None:
        off = [
            min(
                log.shape.cells(marginal)
                * (2 * estimate.variance(marginal) / np.pi) ** 0.5
                / (2 * total),
                1,
            )
            for marginal in sets
        ]
        return float(np.mean(off)) if off else None

    return {"one_way": mean([(column,) for column in columns]), "two_way": mean(pairs)}
