"""Running counts, period by period: for a number of periods, or without end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.methods.stream.factorization import (
    LONGEST_ROOT,
    SCALE,
    DyadicTree,
    HonakerTree,
    SquareRoot,
    exact,
)
from sfumato.methods.stream.method import StepFigures
from sfumato.methods.stream.request import Norms
from sfumato.privacy.accounting.events import ConcentratedEvent, PureEvent
from sfumato.privacy.mechanisms.base import narrow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.methods.stream.factorization import Factor
    from sfumato.methods.stream.method import State
    from sfumato.methods.stream.request import StreamRequest
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

AnyFactor = DyadicTree | HonakerTree | SquareRoot
FACTORS: dict[str, type[AnyFactor]] = {
    factor.name: factor for factor in (DyadicTree, HonakerTree, SquareRoot)
}
# The prefix of the names of factors that start anew at powers of two.
SEGMENTS = "segments-"

# The most figures in the state of a square root: its periods times its cells.
LARGEST_STATE = 1 << 16


def step_figures(estimates: NDArray[Any], variance: float, *, is_whole: bool) -> StepFigures:
    """Released figures of estimates times SCALE: whole numbers, or floats."""
    values = narrow(estimates // SCALE) if is_whole else (estimates / SCALE).astype(np.float64)
    return StepFigures(values, np.full(len(values), math.sqrt(variance)))


@lru_cache(maxsize=64)
def factor_of(name: str, points: int) -> AnyFactor:
    """A factor for so many periods; cached, because a square root takes long to compute."""
    return FACTORS[name](points)


@dataclass(frozen=True)
class RunningCounts:
    """The rows up to each period, for a fixed number of periods at one price.

    *Guarantee*: the price in full, epsilon or rho, for all steps together, also where later data
    depend on earlier figures.
    *Sensitivity*: that of a person's rows by the unit, or in so many `days`, times the norm of the
    factor's columns: for a tree over n periods floor(log2 n) + 1 blocks, for the square root the
    sum of its rounded entries; in L1 or L2.
    *Error*: unbiased. A step of a tree has one noise for each binary digit 1 of its number,
    Honaker's has nearly half of them, the square root's 1 + log(n) / pi with its sensitivity
    included, which is small for Gaussian noise. `variance` is exact for each step.
    *Edges*: the caller refuses a step after the last. Counts may decrease.
    *Reference*: Dwork, Naor, Pitassi & Rothblum 2010; Chan, Shi & Song 2011; Honaker 2015;
    Fichtenberger, Henzinger & Upadhyay 2023, Theorem 1.
    """

    request: StreamRequest
    factor: Factor
    noise: Noise

    name: ClassVar[str] = "running"
    may_be_seized: ClassVar[bool] = False

    @property
    def event(self) -> Event:
        """The privacy cost of all steps together."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The factor and the noise that were chosen."""
        return {"method": self.factor.name, "noise": type(self.noise).__name__.lower()}

    def variance(self, step: int) -> float:
        """The variance of the figures of a step."""
        return self.factor.variance(step) * self.noise.variance

    def begin(self, entropy: Entropy) -> State:
        """The state before the first period; no noise is drawn."""
        del entropy
        return self.factor.begin(self.request.cells)

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """The running count after one more period, with noise."""
        after, estimates = self.factor.advance(state, counts, self.noise, entropy)
        return after, step_figures(
            estimates, self.variance(after["step"]), is_whole=self.factor.is_whole
        )


@dataclass(frozen=True)
class UnendingCounts:
    """The rows up to each period, without end, at one price.

    Periods 1, 2-3, 4-7, 8-15, ... are segments, each with a new factor. A running count is the sum
    of the last figures of all finished segments and of the present one.

    *Guarantee*: the price in full, epsilon or rho, for all future steps together.
    *Sensitivity*: the noise of a segment hides a person all of whose rows lie in it. A person with
    the fractions m_1, m_2, ... of the allowed rows in several segments costs m_i epsilon in each,
    or m_i^2 rho; the m_i sum to at most 1, and so do their squares. With `days`, all periods of a
    person are taken to be one, a bound for any division into segments.
    *Error*: grows like a power of log t: the variances of the last steps of finished segments, plus
    that of the present one. For Laplace noise it is lower than with a known end, on average over up
    to about 500 periods: early segments have few levels.
    *Edges*: the first period is its own segment. Segments too long for a square root use Honaker's
    tree.
    *Reference*: Chan, Shi & Song 2011, section 4 (the hybrid mechanism), with the last block of
    each tree instead of the logarithmic counter.
    """

    request: StreamRequest
    kind: type[AnyFactor]
    spending: Spending

    name: ClassVar[str] = "unending"
    may_be_seized: ClassVar[bool] = False

    @property
    def event(self) -> Event:
        """The privacy cost of all steps, however many there are."""
        if self.spending.epsilon is not None:
            return PureEvent(epsilon=self.spending.epsilon)
        assert self.spending.rho is not None
        return ConcentratedEvent(rho=self.spending.rho)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The factor and the noise that were chosen."""
        noise = type(self.noise(0)).__name__.lower()
        return {"method": f"{SEGMENTS}{self.kind.name}", "noise": noise}

    def noise(self, segment: int) -> Noise:
        """The noise of all measurements of a segment of 2^segment periods."""
        if segment not in self._noises:
            column, days = self._factor(segment).norms(), self.request.people.periods
            norms = Norms(l1=column.l1 * days, l2_squared=column.l2_squared * days**2)
            self._noises[segment] = self.request.noise(norms, self.spending)
        return self._noises[segment]

    @cached_property
    def _noises(self) -> dict[int, Noise]:
        return {}

    def _factor(self, segment: int) -> AnyFactor:
        points = 1 << segment
        fits = self.kind is not SquareRoot or points <= longest_root(self.request.cells)
        return factor_of((self.kind if fits else HonakerTree).name, points)

    def variance(self, step: int) -> float:
        """The variance of the figures of a step."""
        current = step.bit_length() - 1
        over = sum(self._share_of_step(segment, 1 << segment) for segment in range(current))
        return over + self._share_of_step(current, step + 1 - (1 << current))

    def _share_of_step(self, segment: int, position: int) -> float:
        return self._factor(segment).variance(position) * self.noise(segment).variance

    def begin(self, entropy: Entropy) -> State:
        """The state before the first period; no noise is drawn."""
        del entropy
        cells = self.request.cells
        return {"step": 0, "before": [0] * cells, "segment": self._factor(0).begin(cells)}

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """The last figures of finished segments plus those of the present one."""
        step = state["step"] + 1
        segment = step.bit_length() - 1
        factor, before = self._factor(segment), exact(state["before"])
        inner, figures = factor.advance(state["segment"], counts, self.noise(segment), entropy)
        estimates = before + figures
        if inner["step"] == factor.points:
            before, inner = estimates, self._factor(segment + 1).begin(self.request.cells)
        after = {"step": step, "before": before.tolist(), "segment": inner}
        return after, step_figures(estimates, self.variance(step), is_whole=factor.is_whole)


def longest_root(cells: int) -> int:
    """The most periods of a square root whose state holds all of them for so many cells."""
    return min(LONGEST_ROOT, LARGEST_STATE // cells)


def running_ways(
    request: StreamRequest, method: str | None
) -> list[RunningCounts | UnendingCounts]:
    """Running counts by a named method, or by all methods, for each way to spend the price.

    Segments need no end, and are candidates also where there is one. Without an end, the name of a
    factor means segments of it.
    """
    candidates: list[RunningCounts | UnendingCounts] = []
    for kind in FACTORS.values():
        endless = request.periods is None
        if method in (None, f"{SEGMENTS}{kind.name}") or (endless and method == kind.name):
            candidates += [
                UnendingCounts(request, kind, spending) for spending in request.spendings
            ]
        if request.periods is None or method not in (None, kind.name):
            continue
        if kind is SquareRoot and request.periods > longest_root(request.cells):
            continue
        factor = factor_of(kind.name, request.periods)
        norms = factor.norms(request.people.periods)
        candidates += [
            RunningCounts(request, factor, request.noise(norms, spending))
            for spending in request.spendings
        ]
    return candidates
