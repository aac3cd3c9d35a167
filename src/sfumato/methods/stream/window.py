"""Sliding windows: the rows of the last periods, without end, with an error that does not grow.

Periods are divided into blocks of the window's length. A window is the end of one block and the
beginning of the next; both consist of smaller blocks of 1, 2, 4, ... periods.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.methods.stream.factorization import (
    HonakerTree,
    SquareRoot,
    block_variance,
    estimated,
    exact,
    level_norms,
    scaled,
)
from sfumato.methods.stream.running_counts import FACTORS, LARGEST_STATE, longest_root, step_figures
from sfumato.privacy.mechanisms.base import narrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.stream.method import State, StepFigures
    from sfumato.methods.stream.request import StreamRequest
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


def cover(low: int, stop: int, levels: int) -> Iterator[tuple[int, int]]:
    """The fewest blocks whose union is [low, stop): the level and index of each.

    Blocks of 2^level periods begin at multiples of their length.
    """
    while low < stop:
        level = min(levels, (stop - low).bit_length()) - 1
        while low & ((1 << level) - 1):
            level -= 1
        yield level, low >> level
        low += 1 << level


@dataclass(frozen=True)
class WindowBlocks:
    """The rows of the last `window` periods, after each period, without end, at one price.

    *Guarantee*: the price in full, epsilon or rho, for all future steps together.
    *Sensitivity*: a period is in one block of each of `levels` lengths, however long the stream is;
    a person's rows or `days` as for running counts.
    *Error*: one noise for each block of the window, less with estimates from smaller blocks: at
    most 2 log2(window) of them, however long the stream is; `variance` is exact.
    *Edges*: before the first window is full, all rows since the beginning.
    *Reference*: blocks of the window's length with a tree each, after Bolot, Fawaz, Muthukrishnan,
    Nikolov & Taft 2013, section 4; Honaker 2015 for the estimates.
    """

    request: StreamRequest
    levels: int
    helped: bool
    """Whether the smaller blocks within a block improve its estimate."""
    noise: Noise

    name: ClassVar[str] = "window"
    may_be_seized: ClassVar[bool] = False

    @property
    def window(self) -> int:
        """The number of periods of a full window."""
        assert self.request.window is not None
        return self.request.window

    @property
    def event(self) -> Event:
        """The privacy cost of all steps, however many there are."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The chosen blocks and noise."""
        name = "honaker" if self.helped else "tree"
        noise = type(self.noise).__name__.lower()
        return {"method": name, "noise": noise, "window": self.window, "levels": self.levels}

    def variance(self, step: int) -> float:
        """The variance of a step: of the beginning of its block, and the end of the one before."""
        at = (step - 1) % self.window + 1
        end = 0.0 if step <= self.window else self._weights_of_levels[1][at]
        return float(self._weights_of_levels[0][at] + end) * self.noise.variance

    @cached_property
    def _weights_of_levels(self) -> tuple[FloatArray, FloatArray]:
        """In noise variances, those of the first `at` periods of a block and of the others."""
        first, last = np.zeros(self.window + 1), np.zeros(self.window + 1)
        for at in range(1, self.window + 1):
            level = min(self.levels, (at & -at).bit_length()) - 1
            first[at] = first[at - (1 << level)] + self._of_block(level)
        for at in range(self.window - 1, -1, -1):
            level, _ = next(cover(at, self.window, self.levels))
            last[at] = last[at + (1 << level)] + self._of_block(level)
        return first, last

    def _of_block(self, level: int) -> float:
        return block_variance(level) if self.helped else 1.0

    def begin(self, entropy: Entropy) -> State:
        """The state before the first period; no noise is drawn."""
        del entropy
        blank = [[0] * self.request.cells for _ in range(self.levels)]
        closed: list[list[Any]] = [[] for _ in range(self.levels)]
        return {"step": 0, "open": blank, "closed": closed, "before": closed}

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """Close the blocks that end here, and sum the blocks of the window."""
        step = state["step"] + 1
        at = (step - 1) % self.window + 1
        opened = exact(state["open"]) + exact(counts)
        before, closed = state["before"], [list(blocks) for blocks in state["closed"]]
        ends = [level for level in range(self.levels) if at % (1 << level) == 0]
        # Blocks that end together get their noise together.
        noisy = self.noise.steps(narrow(opened[ends]), entropy)
        for level in ends:
            closed[level].append(self._estimate(level, noisy[level], closed).tolist())
        opened[ends] = 0
        estimates = self._sum(closed, cover(0, at, self.levels))
        if step > self.window:
            estimates = estimates + self._sum(before, cover(at, self.window, self.levels))
        if at == self.window:
            before, closed = closed, [[] for _ in range(self.levels)]
            opened[:] = 0  # blocks that the window cuts off are never measured
        after = {"step": step, "open": opened.tolist(), "closed": closed, "before": before}
        return after, step_figures(estimates, self.variance(step), is_whole=not self.helped)

    def _estimate(self, level: int, noisy: NDArray[Any], closed: list[list[Any]]) -> NDArray[Any]:
        if not self.helped or level == 0:
            return estimated(0, noisy, None)
        halves = exact(closed[level - 1][-2:]).sum(axis=0)
        return estimated(level, noisy, halves)

    def _sum(self, blocks: list[list[Any]], positions: Iterable[tuple[int, int]]) -> NDArray[Any]:
        sums = [blocks[level][number] for level, number in positions]
        return np.asarray(exact(sums or [[0] * self.request.cells]).sum(axis=0))


@dataclass(frozen=True)
class WindowDifferences:
    """The rows of the last `window` periods as the difference of two running counts.

    *Guarantee*: that of running counts by a square root, from whose measurements it follows.
    *Sensitivity*: that of the square root's columns.
    *Error*: over all noises up to the step, the squared differences of two weights `window` apart.
    *Edges*: before the first window is full, all rows since the beginning.
    *Reference*: Fichtenberger, Henzinger & Upadhyay 2023.
    """

    request: StreamRequest
    factor: SquareRoot
    noise: Noise

    name: ClassVar[str] = "window"
    may_be_seized: ClassVar[bool] = False

    @property
    def window(self) -> int:
        """The number of periods of a full window."""
        assert self.request.window is not None
        return self.request.window

    @property
    def event(self) -> Event:
        """The privacy cost of all steps together."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The chosen factor and noise."""
        noise = type(self.noise).__name__.lower()
        return {"method": "root", "noise": noise, "window": self.window}

    @cached_property
    def _weights(self) -> FloatArray:
        weights = self.factor.weights.copy()
        weights[self.window :] -= self.factor.weights[: -self.window]
        return weights

    @cached_property
    def _variances(self) -> FloatArray:
        return np.cumsum(self._weights**2)

    def variance(self, step: int) -> float:
        """The variance of the figures of a step."""
        return float(self._variances[step - 1]) * self.noise.variance

    def begin(self, entropy: Entropy) -> State:
        """The state before the first period; no noise is drawn."""
        del entropy
        return self.factor.begin(self.request.cells)

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """Measure as the square root does, and estimate the window."""
        after, measured = self.factor.measure(state, counts, self.noise, entropy)
        step = after["step"]
        estimates = scaled(self._weights[:step][::-1] @ measured)
        return after, step_figures(estimates, self.variance(step), is_whole=False)


def window_ways(
    request: StreamRequest, method: str | None
) -> list[WindowBlocks | WindowDifferences]:
    """Windows by a named method, or by all methods, for each way to spend the price."""
    assert request.window is not None
    candidates: list[WindowBlocks | WindowDifferences] = []
    for kind in FACTORS.values():
        if method not in (None, kind.name):
            continue
        if kind is SquareRoot:
            if request.periods is not None and request.periods <= longest_root(request.cells):
                root = SquareRoot(request.periods)
                norms = root.norms(request.people.periods)
                candidates += [
                    WindowDifferences(request, root, request.noise(norms, spending))
                    for spending in request.spendings
                ]
        elif 4 * request.window * request.cells <= LARGEST_STATE:
            for levels in range(1, request.window.bit_length() + 1):
                norms = level_norms(levels, request.people.periods)
                candidates += [
                    WindowBlocks(
                        request, levels, kind is HonakerTree, request.noise(norms, spending)
                    )
                    for spending in request.spendings
                ]
    return candidates
