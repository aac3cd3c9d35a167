"""Several quantiles of one column at once, in order: the middle one first, then both sides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.mechanisms.quantile import Counted, Quantile
from sfumato.privacy.events import ExponentialChoice, Repeated
from sfumato.privacy.numbers import exact
from sfumato.privacy.units import Neighbours
from sfumato.publish.domain import blank_cells, figure_name, points
from sfumato.publish.measurement import one_axis, spendings, without_postprocess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from sfumato.counting.axes import Axis
    from sfumato.counting.frequencies import Counter
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.publish.measurement import Spending
    from sfumato.publish.request import Request

TIES = 256
"""Into how many places each point is divided, so that a point with many rows can be split."""

MOST = 1000
_FINEST = 10**6
_DEFAULT = ("0.25", "0.5", "0.75")


def prepare(request: Request, *, ranks: object = None) -> Quantiles:
    """Read the wanted ranks and share the price among the depths of the recursion."""
    without_postprocess(request, "quantiles")
    one_axis(request, "quantiles")
    wanted = _ranks(_DEFAULT if ranks is None else ranks)
    made = [Quantiles(request, wanted, spending) for spending in spendings(request.price)]
    return max(made, key=lambda one: one.epsilon)


def _ranks(value: object) -> tuple[Fraction, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not 1 <= len(parts) <= MOST:
        raise ParameterError(
            "ranks_not_list",
            f"ranks must be a list of 1 to {MOST:,} numbers such as 0.25,0.5,0.75, not {value!r}.",
        )
    found = sorted({exact(part, "rank") for part in parts})
    for rank in found:
        if not 0 <= rank <= 1 or (rank * _FINEST).denominator != 1:
            raise ParameterError(
                "ranks_out_of_range",
                f"Each rank must lie between 0 and 1 with at most six decimals, not {rank}.",
            )
    return tuple(found)


@dataclass(frozen=True)
class _Part:
    """The ranks between two that were found before, the middle one first; its depth is from 0."""

    first: int
    stop: int
    depth: int

    @property
    def middle(self) -> int:
        return (self.first + self.stop) // 2

    def walk(self) -> Iterator[_Part]:
        """This part and all below it, parents before children."""
        if self.first < self.stop:
            yield self
            yield from _Part(self.first, self.middle, self.depth + 1).walk()
            yield from _Part(self.middle + 1, self.stop, self.depth + 1).walk()


@dataclass(frozen=True)
class Quantiles:
    """The middle rank by the exponential mechanism, then the ranks of either side among its rows.

    *Guarantee*: the price in full for all quantiles together. Each depth is one exponential choice
    of an equal share: given the points found before, its parts are disjoint, and each scores its
    own rows only.
    *Sensitivity*: of the rank score in each part, known from the unit: a person's rows in all
    parts together weigh no more than all of them in one. Where people are replaced, rows leave one
    part and enter another, so below the first depth each part has half of its depth's epsilon.
    *Error*: the rank of each quantile is off by at most the sum of the bounds of the choices above
    and of its own, but for probability beta, and by 1/256 of the rows of one value at each depth.
    *Edges*: quantiles never cross. Missing values are left out. Rows of the same value are spread
    over 256 places in it in a fixed order, so that rows more or fewer move no others. Without rows
    every quantile is a uniform point above the one before.
    *Reference*: Kaplan, Schnapp & Stemmer 2022, Algorithm 1; Smith 2011.
    """

    request: Request
    ranks: tuple[Fraction, ...]
    spending: Spending

    @property
    def _axis(self) -> Axis:
        return self.request.axes[0]

    @property
    def depths(self) -> int:
        """How many choices follow upon each other."""
        return len(self.ranks).bit_length()

    @property
    def ties(self) -> int:
        """Into how many places each point is divided; a single quantile splits none."""
        room = 1 << max(62 - points(self._axis).bit_length(), 0)
        return 1 if len(self.ranks) == 1 else min(TIES, room)

    @cached_property
    def epsilon(self) -> Fraction:
        """What each depth costs."""
        return self.spending.choice_epsilon(Fraction(1, self.depths))

    @property
    def event(self) -> Event:
        """What it costs."""
        return Repeated(ExponentialChoice(epsilon=self.epsilon), self.depths)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The ranks, exactly."""
        return {"ranks": [str(rank) for rank in self.ranks]}

    def _mechanism(self, part: _Part, size: int) -> Quantile:
        """The choice of a part's middle rank, relative to the ranks at its ends."""
        low = self.ranks[part.first - 1] if part.first else Fraction(0)
        high = self.ranks[part.stop] if part.stop < len(self.ranks) else Fraction(1)
        unit, epsilon = self.request.unit, self.epsilon
        if part.depth and unit.relation is Neighbours.REPLACE_ONE:
            # A row that leaves and one that enters are two changes, in two parts or in one.
            unit, epsilon = replace(unit, relation=Neighbours.ADD_REMOVE), epsilon / 2
        rank = (self.ranks[part.middle] - low) / (high - low)
        return Quantile(epsilon=epsilon, rank=rank, size=size, unit=unit)

    @property
    def error(self) -> Mapping[str, Any]:
        """How many rows the rank of each quantile is off by, at most, with 95 %."""
        size = points(self._axis) * self.ties
        path: list[Quantile] = []
        bounds = {}
        for part in _Part(0, len(self.ranks), 0).walk():
            path[part.depth :] = [self._mechanism(part, size)]
            # Each boundary above may cut one row more or less than the places tell.
            bounds[part.middle] = sum(one.bound(0.05 / len(path)) for one in path) + part.depth
        stated = {
            str(rank): {"rank_bound95": bounds[place]} for place, rank in enumerate(self.ranks)
        }
        ties = f", and by {self.depths - 1}/{self.ties} of the rows of any one value"
        return {"quantiles": stated, "note": f"in rows{ties if self.ties > 1 else ''}"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        return {"quantiles": blank_cells([self._axis], "rank")}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every rank, in order: the rank and the value."""
        counts = counter.of(self.request.columns)
        return {"quantiles": self._table(self.choose(counts.codes[0], counts.counts, entropy))}

    def _table(self, codes: NDArray[np.int64]) -> pa.Table:
        ranks = pa.array([float(rank) for rank in self.ranks])
        names = [figure_name(self.request.axes, "rank"), self._axis.column]
        return pa.Table.from_arrays([ranks, self._axis.decode(codes)], names=names)

    def choose(
        self, codes: NDArray[np.integer], counts: NDArray[np.int64], entropy: Entropy
    ) -> NDArray[np.int64]:
        """The code of each quantile."""
        present = codes < points(self._axis)
        places, rows = _spread(codes[present].astype(np.int64), counts[present], self.ties)
        found = np.empty(len(self.ranks), dtype=np.int64)
        for part in _Part(0, len(self.ranks), 0).walk():
            # The first part has rows from place 0 on; another one those above its lower end.
            low = int(found[part.first - 1]) if part.first else -1
            high = (
                int(found[part.stop])
                if part.stop < len(found)
                else points(self._axis) * self.ties - 1
            )
            begin, end = np.searchsorted(places, [low, high], side="right")
            start = max(low, 0)
            own = Counted(
                places[begin:end] - start, rows[begin:end], np.zeros(end - begin, np.int64), 1
            )
            mechanism = self._mechanism(part, high - start + 1)
            found[part.middle] = start + mechanism.sample(own, entropy)[0]
        return found // self.ties


def _spread(
    codes: NDArray[np.int64], counts: NDArray[np.int64], ties: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Spread the rows of each point over its places, in order: places that have rows, and how many.

    The first row goes to place 0, the next ones to 1/2, 1/4, 3/4, ... of the point: any stretch of
    places gets nearly its fair share, and one more row goes to one place without moving another.
    """
    bits = ties.bit_length() - 1
    turns = np.arange(ties)
    reversed_turns = np.zeros_like(turns)
    for bit in range(bits):
        reversed_turns |= ((turns >> bit) & 1) << (bits - 1 - bit)
    taken = np.minimum(counts, ties)
    firsts = np.repeat(np.cumsum(taken) - taken, taken)
    turn = np.arange(len(firsts)) - firsts
    places = np.repeat(codes, taken) * ties + reversed_turns[turn]
    # Every round of as many rows as there are places puts one row into each.
    rows = (np.repeat(counts, taken) - turn - 1) // ties + 1
    order = np.argsort(places)
    return places[order], rows[order]
