"""Running histograms: a count for each of several cells, told again after every period."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods.stream.catalogue import prepare as best_counter
from sfumato.methods.stream.method import of_cells, only

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.stream.method import State, StepFigures, StreamMethod
    from sfumato.methods.stream.request import StreamRequest
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


def prepare(request: StreamRequest) -> RunningHistogram:
    """A running count of every cell, by the counter of the least error; options name its factor."""
    only(request, RunningHistogram.name, "counter")
    if request.cells < 2:
        raise ParameterError(
            "stream_invalid",
            "A running histogram has two cells or more. Take method 'auto' for one count.",
        )
    plain = replace(request, options={})
    counter = best_counter(plain, str(request.options.get("counter", "auto")))
    return RunningHistogram(request, counter)


@dataclass(frozen=True)
class RunningHistogram:
    """The rows of every cell up to each period, or in the last ones, at the price of one count.

    *Guarantee*: the price in full, epsilon or rho, for all cells and all steps together.
    *Sensitivity*: a row lies in one cell of one period, so the cells share one counter's noise and
    not its budget: a person moves all counters together by as much as one (`stream.norms`). A row
    that is replaced moves two cells, for which the unit's sensitivity is twice as large.
    *Error*: that of the counter, the same for every cell; that of a sum of cells grows with the
    square root of their number.
    *Edges*: cells are declared: one that nobody is in is told with noise like any other.
    *Reference*: Chan, Shi & Song 2011; Dwork, Naor, Pitassi & Rothblum 2010.
    """

    request: StreamRequest
    counter: StreamMethod

    name: ClassVar[str] = "histogram"
    may_be_seized: ClassVar[bool] = False

    @property
    def event(self) -> Event:
        """What all steps cost together."""
        return self.counter.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The counter that was chosen, and for how many cells."""
        return {**self.counter.parameters, "histogram": self.request.cells}

    def variance(self, step: int) -> float | None:
        """The counter's, for every cell."""
        return self.counter.variance(step)

    def begin(self, entropy: Entropy) -> State:
        """The counter's."""
        return self.counter.begin(entropy)

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """A running count of every cell."""
        return self.counter.step(state, of_cells(counts, self.request.cells), entropy)


def shares(figures: StepFigures) -> tuple[FloatArray, FloatArray]:
    """Each cell's share of all rows and how far off that is, from what one step told.

    A share is the ratio of two noisy counts; its error is that of the first order, which is right
    where the total is many times its own error. Without rows in sight, shares are not told (NaN).
    """
    counts = figures.values.astype(np.float64)
    total = float(counts.sum())
    if total <= 0:
        blank = np.full(len(counts), math.nan)
        return blank, blank
    shares_found = counts / total
    variance = figures.stddev**2
    spread = (1 - 2 * shares_found) * variance + shares_found**2 * float(variance.sum())
    return shares_found, np.sqrt(spread) / total


def ranked(figures: StepFigures, top: int) -> list[int]:
    """The cells of the largest counts as they were told, the largest first, of equals the first."""
    order = np.argsort(-figures.values.astype(np.float64), kind="stable")
    return [int(cell) for cell in order[:top]]
