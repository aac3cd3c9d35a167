"""Running histograms: counts of several cells after every period, and lists of the largest cells.

Cells are declared. The largest ones are read off noisy counts at no further cost. Where the list
changes rarely, it is cheaper to test privately after every period whether it still holds, and to
count anew only then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.data.schema.unit import count_sensitivity
from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least
from sfumato.methods.stream.catalogue import prepare as best_counter
from sfumato.methods.stream.method import StepFigures, of_cells, only
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.sparse_vector import ABOVE, SparseVector, SparseVectorRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.stream.method import State, StreamMethod
    from sfumato.methods.stream.request import StreamRequest
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


def prepare(request: StreamRequest) -> RunningHistogram:
    """A running count of every cell, by the counter of least error; an option names its factor."""
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
    """The rows of every cell up to each period, or in a window, at the price of one count.

    *Guarantee*: the price in full, epsilon or rho, for all cells and all steps together.
    *Sensitivity*: a row lies in one cell of one period, so every cell gets the full budget: a
    person moves all counters together by as much as one (`request.Norms`). A replaced row moves two
    cells, for which the unit's sensitivity is twice as large.
    *Error*: that of the counter, the same for every cell; that of a sum of cells grows with the
    square root of their number.
    *Edges*: cells are declared: an empty cell is released with noise like any other.
    *Reference*: Chan, Shi & Song 2011; Dwork, Naor, Pitassi & Rothblum 2010.
    """

    request: StreamRequest
    counter: StreamMethod

    name: ClassVar[str] = "histogram"
    may_be_seized: ClassVar[bool] = False

    @property
    def event(self) -> Event:
        """The privacy cost of all steps together."""
        return self.counter.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The chosen counter, and the number of cells."""
        return {**self.counter.parameters, "histogram": self.request.cells}

    def variance(self, step: int) -> float | None:
        """The variance of the counter, the same for every cell."""
        return self.counter.variance(step)

    def begin(self, entropy: Entropy) -> State:
        """The state of the counter before the first period."""
        return self.counter.begin(entropy)

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """A running count of every cell."""
        return self.counter.step(state, of_cells(counts, self.request.cells), entropy)


def shares(figures: StepFigures) -> tuple[FloatArray, FloatArray]:
    """The share of each cell in all rows, and its sd, from the figures of one step.

    A share is the ratio of two noisy counts. Its sd is a first-order approximation, which is good
    where the total is many times its own error. Shares are NaN where the total is not positive.
    """
    counts = figures.values.astype(np.float64)
    total = float(counts.sum())
    if total <= 0:
        blank = np.full(len(counts), math.nan)
        return blank, blank
    shares_found = counts / total
    variance = figures.stddev**2
    # Delta method for c / T with independent noise: (var c (1 - 2 s) + s^2 sum of all variances) /
    # T^2.
    spread = (1 - 2 * shares_found) * variance + shares_found**2 * float(variance.sum())
    return shares_found, np.sqrt(spread) / total


def ranked(figures: StepFigures, top: int) -> list[int]:
    """The cells of the largest released counts, largest first; ties in order of cells."""
    order = np.argsort(-figures.values.astype(np.float64), kind="stable")
    return [int(cell) for cell in order[:top]]


USUAL_TOP = 10
# By default, noise triggers a new count within so many periods without change with probability 5 %.
_BETA = 0.05
_QUESTIONS = 1000


def prepare_top(request: StreamRequest) -> TopCounts | TopChanges:
    """The largest cells: from running counts or, with the option `changes`, at each change."""
    only(request, TopCounts.name, "top", "changes", "margin", "counter")
    options = dict(request.options)
    top = integer_at_least(options.get("top", USUAL_TOP), "top", least=1)
    if top >= request.cells:
        raise ParameterError(
            "stream_invalid",
            f"A list of the {top:,} largest of {request.cells:,} cells leaves none out. Ask for "
            "fewer, or take method 'histogram'.",
        )
    if options.get("changes") is None:
        inner = {"counter": options["counter"]} if "counter" in options else {}
        return TopCounts(prepare(replace(request, options=inner)), top)
    if request.window is not None:
        raise ParameterError(
            "stream_invalid",
            "A list that is told when it changes is of all periods so far, not of a window. "
            "Leave the window out, or leave changes out.",
        )
    changes = integer_at_least(options["changes"], "changes", least=1)
    method = TopChanges(request, top, changes)
    margin = options.get("margin")
    if margin is None:
        return method
    return replace(method, asked=integer_at_least(margin, "margin", least=1))


def listed(counts: StepFigures, cells: list[int], note: str = "") -> StepFigures:
    """Figures of a list: the counts of its cells, at least 1; all other cells are 0."""
    values, stddev = np.zeros(len(counts.values)), np.zeros(len(counts.values))
    values[cells] = np.maximum(counts.values[cells].astype(np.float64), 1)
    stddev[cells] = counts.stddev[cells]
    order = "largest first: cells " + ", ".join(map(str, cells))
    return StepFigures(values, stddev, f"{order}; {note}" if note else order)


def lead(running: NDArray[Any], cells: list[int]) -> int:
    """The largest count outside a list minus the smallest inside."""
    inside = np.zeros(len(running), dtype=bool)
    inside[cells] = True
    return int(max(running[~inside]) - min(running[inside]))


@dataclass(frozen=True)
class TopCounts:
    """The largest cells by a running histogram.

    *Guarantee*: that of the histogram: the list follows from its noisy counts.
    *Sensitivity*: that of the histogram.
    *Error*: two cells whose counts are within a few `stddev` can be confused. Counts of listed
    cells are slightly too large, because high noise helps a cell into the list.
    *Edges*: of equal counts the first declared comes first; a count below 1 is released as 1.
    *Reference*: Dwork, Naor, Pitassi & Rothblum 2010; post-processing of noisy counts is free.
    """

    histogram: RunningHistogram
    top: int

    name: ClassVar[str] = "top"
    may_be_seized: ClassVar[bool] = False

    @property
    def event(self) -> Event:
        """The privacy cost of all steps together."""
        return self.histogram.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the histogram, and the length of the list."""
        return {**self.histogram.parameters, "top": self.top}

    def variance(self, step: int) -> float | None:
        """The variance of the histogram, for every listed cell."""
        return self.histogram.variance(step)

    def begin(self, entropy: Entropy) -> State:
        """The state of the histogram before the first period."""
        return self.histogram.begin(entropy)

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """The largest cells up to this period, and their counts."""
        after, figures = self.histogram.step(state, counts, entropy)
        return after, listed(figures, ranked(figures, self.top))


@dataclass(frozen=True)
class TopChanges:
    """The largest cells, counted anew only when a cell outside the list overtakes one inside.

    *Guarantee*: epsilon-differential privacy for all steps together, as many as there are. Half of
    it is for the sparse vector, which tests after every period whether the list still holds, and
    pays for `changes` failures; half is for that many new counts, and the first.
    *Sensitivity*: L1 of a histogram of all rows of the stream by the unit, d. The query is the
    largest count outside the list minus the smallest inside: the one grows by a person's rows
    outside, the other by the rows inside, so the difference moves by at most d.
    *Error*: counts of a list are `changes` + 1 times as noisy as those of a single histogram, and
    as old as the list. A cell may be missing while it leads by less than the margin plus a few
    scales of the sparse vector.
    *Edges*: the first period is always counted. When all changes are used up, the last list stays.
    The state holds exact counts and the noise of the threshold: it is as secret as the data.
    *Reference*: Dwork, Naor, Reingold, Rothblum & Vadhan 2009; Lyu, Su & Li 2017, Algorithm 7.
    """

    request: StreamRequest
    top: int
    changes: int
    asked: int | None = None

    name: ClassVar[str] = "top"
    may_be_seized: ClassVar[bool] = False

    @cached_property
    def _epsilon(self) -> Fraction:
        return self.request.spendings[0].pure_epsilon()

    @cached_property
    def _moved(self) -> Fraction:
        """The L1 change of the counts of the whole stream by one person."""
        people = self.request.people
        return count_sensitivity(self.request.unit, grouped=True).l1 * people.periods

    @cached_property
    def sparse(self) -> SparseVector:
        """The sparse vector that tests whether the list still holds."""
        return SparseVector(epsilon=self._epsilon / 2, cutoff=self.changes, sensitivity=self._moved)

    @cached_property
    def noise(self) -> Geometric:
        """The noise of new counts."""
        # The first count and `changes` later ones share the other half by basic composition.
        share = self._epsilon / 2 / (self.changes + 1)
        return Geometric(epsilon=share, l1_sensitivity=self._moved)

    @property
    def margin(self) -> int:
        """The lead of a cell outside that ends the list; by default one that noise rarely gives."""
        if self.asked is not None:
            return self.asked
        return math.ceil(self.sparse.bound(_BETA, queries=_QUESTIONS))

    @property
    def event(self) -> Event:
        """The privacy cost of all steps, however many there are."""
        return PureEvent(epsilon=self._epsilon)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The length of the list, the number of changes, and the margin."""
        parameters = {"top": self.top, "changes": self.changes, "margin": self.margin}
        return {"method": self.name, "histogram": self.request.cells, **parameters}

    def variance(self, step: int) -> float:
        """The variance of new counts; the counts of an older list are also outdated."""
        del step
        return self.noise.stddev**2

    def begin(self, entropy: Entropy) -> State:
        """The state before the first period, with the noise of the threshold, drawn once."""
        # Drawn once for the whole stream: a new threshold at each step would need budget at each
        # step.
        line = int(self.sparse.start(self.margin, entropy).lines[0])
        cells = self.request.cells
        return {"counts": [0] * cells, "line": line, "changed": 0, "list": [], "told": [0] * cells}

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """The list after a period, counted anew if a cell outside has overtaken it."""
        fresh = of_cells(counts, self.request.cells).astype(object)
        running = np.array(state["counts"], dtype=object) + fresh
        after = {**state, "counts": running.tolist()}
        is_first = not state["list"]
        if not is_first and not self._is_outgrown(state, running, entropy):
            ended = state["changed"] == self.changes
            return after, self._figures(after, "as before" + ", and no change is left" * ended)
        noisy = self.noise.steps(running, entropy)
        after["told"] = [int(count) for count in noisy]
        after["changed"] = state["changed"] + (not is_first)
        after["list"] = ranked(StepFigures(noisy, np.zeros(len(noisy))), self.top)
        return after, self._figures(after, "counted anew")

    def _is_outgrown(self, state: State, running: Any, entropy: Entropy) -> bool:
        lines, positives = np.array([state["line"]]), np.array([state["changed"]])
        run = SparseVectorRun(self.sparse, lines, positives, entropy)
        return bool(run.ask(np.array([lead(running, state["list"])])).verdicts[0] == ABOVE)

    def _figures(self, state: State, note: str) -> StepFigures:
        counts = np.array(state["told"], dtype=object)
        spread = np.full(len(counts), self.noise.stddev)
        return listed(StepFigures(counts, spread), state["list"], note)
