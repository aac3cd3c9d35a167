"""Running counts told period by period: for a number of periods, or without end."""

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
# How the names begin of factors that are begun anew at powers of two.
SEGMENTS = "segments-"

# The most figures that a square root may remember: its periods times its cells.
LARGEST_STATE = 1 << 16


def step_figures(estimates: NDArray[Any], variance: float, *, is_whole: bool) -> StepFigures:
    """Estimates times SCALE as they are told: whole numbers, or floats made of noisy ones."""
    values = narrow(estimates // SCALE) if is_whole else (estimates / SCALE).astype(np.float64)
    return StepFigures(values, np.full(len(values), math.sqrt(variance)))


@lru_cache(maxsize=64)
def factor_of(name: str, points: int) -> AnyFactor:
    """A factor for so many periods, made once: a square root takes its time."""
    return FACTORS[name](points)


@dataclass(frozen=True)
class RunningCounts:
    """How many rows there were up to each period, for so many periods at one price.

    *Guarantee*: the price in full, epsilon or rho, for all steps together, whatever was told
    before decides of what comes after.
    *Sensitivity*: that of a person's rows by the unit, or in so many `days`, times the norm of the
    factor's columns: for a tree over n periods floor(log2 n) + 1 blocks, for the square root what
    its rounded entries add up to; in L1 or L2.
    *Error*: unbiased. A tree's step has as many noises as its number has digits 1, Honaker's
    nearly half of them, the square root's 1 + log(n) / pi together with its sensitivity, which
    Gaussian noise makes small. `variance` is exact for each step.
    *Edges*: a step behind the last is refused by whoever steps. Counts may fall.
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
        """The rows so far, with the noise of the blocks or entries that make them up."""
        after, estimates = self.factor.advance(state, counts, self.noise, entropy)
        return after, step_figures(
            estimates, self.variance(after["step"]), is_whole=self.factor.is_whole
        )


@dataclass(frozen=True)
class UnendingCounts:
    """How many rows there were up to each period, for ever, at one price.

    Periods 1, 2-3, 4-7, 8-15, ... are segments with a factor each, begun anew; a running count is
    what the segments that are over told at their ends, and what the present one tells.
    *Guarantee*: the price in full, epsilon or rho, for all steps that will ever be.
    *Sensitivity*: a segment's noise is made for a person all of whose rows lie in it. A person with
    the parts m_1, m_2, ... of what is allowed in several segments costs in them m_i epsilon each,
    or m_i^2 rho; the m_i add up to 1 at most, and so do their squares. With `days`, all periods
    of a person are taken to be one: a bound that holds for any division into segments.
    *Error*: grows like a power of log t: of each segment that is over the variance of its last
    step, and that of the present one. For Laplace noise that is less, on average over up to about
    500 periods, than with the end known: early segments have few levels.
    *Edges*: the first period is a segment of its own. Segments that are too long for a square root
    are Honaker's.
    *Reference*: Chan, Shi & Song 2011, section 4 (the hybrid mechanism), with the last block of
    each tree in the place of the logarithmic counter.
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
        """Of everything that a segment of 2^segment periods measures."""
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
        """What the segments before told at their ends, and what the present one tells."""
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
    """The most periods of a square root that remembers all of them for so many cells."""
    return min(LONGEST_ROOT, LARGEST_STATE // cells)


def running_ways(
    request: StreamRequest, method: str | None
) -> list[RunningCounts | UnendingCounts]:
    """Running counts by the method of a name, or else every one, at each way to spend the price.

    Segments need no end, and are a choice where there is one too; factors without an end are
    segments.
    """
    candidates: list[RunningCounts | UnendingCounts] = []
    for kind in FACTORS.values():
        never = request.periods is None
        if method in (None, f"{SEGMENTS}{kind.name}") or (never and method == kind.name):
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
