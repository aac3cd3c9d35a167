"""A synthesis with all its parameters: charged once from public facts, then measured and drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato import arguments
from sfumato.data.schema.unit import count_sensitivity
from sfumato.errors import ParameterError
from sfumato.methods.synth.fitted_model import fit_network
from sfumato.methods.synth.junction_tree import fit_junction
from sfumato.methods.synth.measurement_log import TableShape
from sfumato.methods.synth.privbayes import select_network
from sfumato.methods.synth.row_sampling import draw
from sfumato.methods.synth.selection import (
    measure_columns,
    select_adaptively,
    select_automatically,
    select_tree,
    select_workload,
)
from sfumato.methods.synth.workbench import Workbench
from sfumato.privacy.accounting.events import ConcentratedEvent, PureEvent
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.arrays import BoolArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.synth.fitted_model import FittedModel
    from sfumato.methods.synth.measurement_log import ColumnSet, MeasurementLog
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.mechanisms.spending import Spending
    from sfumato.privacy.noise.entropy import Entropy

    Fitting = Callable[[MeasurementLog], FittedModel]


MOST_CODES = 1 << 22
"""The most codes of one column."""


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """Measure some tables, fit a distribution, and draw rows from it.

    *Guarantee*: the price in full, epsilon or rho, for everything that is measured and chosen: it
    is charged before anything is read, and the workbench pays each step out of it and refuses
    what would pass it. Fitting and drawing read the log alone.
    *Sensitivity*: a person of m rows moves any table by m in L1 and L2 (2 m and m sqrt(2) if
    replaced), and a misfit by as much; scores of dependence say their own.
    *Error*: of every measured table known beforehand; of any table within measured ones known from
    the log (`LogEstimate`); of the rows, which also lack what no table told, not known.
    *Edges*: axes must be declared. A missing value is one more code. The number of rows is noisy
    unless `rows` says how many to draw. A table without rows gives noise, at least one row.
    *Reference*: McKenna, Miklau & Sheldon 2021; McKenna, Mullins, Sheldon & Miklau 2022; Zhang,
    Cormode, Procopiuc, Srivastava & Xiao 2017.
    """

    axes: tuple[Axis, ...]
    unit: Unit
    price: Price
    method: str = "auto"
    rows: int | None = None
    """How many rows to draw; the noisy number of rows if nobody says."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the method takes: `sets` for a workload, `score` for privbayes."""

    possible: Mapping[ColumnSet, BoolArray] = field(default_factory=dict)
    """Of some sets of axes, which combinations of codes there can be, where it is not all."""

    def __post_init__(self) -> None:
        arguments.one_of(self.method, "method", tuple(METHODS))
        for axis in self.axes:
            assert axis.declared
            if axis.size > MOST_CODES:
                raise ParameterError(
                    "problem_too_large",
                    f"Column {axis.column!r} has {axis.size:,} values; at most {MOST_CODES:,} can "
                    "be synthesized. Declare a coarser domain.",
                )

    @property
    def spending(self) -> Spending:
        """A rho where the price has one or buys one, as Gaussian noise suits many tables best."""
        return spendings(self.price)[-1]

    @property
    def event(self) -> ConcentratedEvent | PureEvent:
        """What it costs."""
        spending = self.spending
        if spending.epsilon is not None:
            return PureEvent(epsilon=spending.epsilon)
        assert spending.rho is not None
        return ConcentratedEvent(rho=spending.rho)

    def measure(self, counter: Counter, entropy: Entropy) -> MeasurementLog:
        """Choose and measure, by the whole price: the only step that sees the table."""
        bench = Workbench(
            TableShape.of(self.axes),
            counter,
            self.spending,
            count_sensitivity(self.unit, grouped=True),
            entropy,
        )
        select, _ = METHODS[self.method]
        select(bench, **self.options)
        return bench.log

    def fit(self, log: MeasurementLog) -> FittedModel:
        """The distribution that explains a log, which any method may have written."""
        _, fitting = METHODS[self.method]
        # A network has no place for one more table.
        return fit_junction(log, self.possible) if self.possible else fitting(log)

    def draw(self, model: FittedModel, entropy: Entropy) -> pa.Table:
        """Rows of the columns' own values."""
        rows = max(round(model.total), 1) if self.rows is None else self.rows
        return decoded(self.axes, draw(model, rows, entropy))

    def release(self, counter: Counter, entropy: Entropy) -> pa.Table:
        """All steps, one after another."""
        return self.draw(self.fit(self.measure(counter, entropy)), entropy)


def decoded(axes: tuple[Axis, ...], codes: list[Any]) -> pa.Table:
    """Codes as a table of values."""
    return pa.table(
        {axis.column: axis.decode(column) for axis, column in zip(axes, codes, strict=True)}
    )


# The methods of synthesis by name: what to measure, and how to fit what was measured.

METHODS: dict[str, tuple[Callable[..., None], Fitting]] = {
    "auto": (select_automatically, fit_junction),
    "aim": (select_adaptively, fit_junction),
    "mst": (select_tree, fit_junction),
    "privbayes": (select_network, fit_network),
    "workload": (select_workload, fit_junction),
    "independent": (measure_columns, fit_junction),
}
"""Each selection measures with a workbench, and takes the options that it names; any fit reads any
log."""
