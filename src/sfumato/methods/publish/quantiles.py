"""Several quantiles of one column: the middle rank first, then the ranks on both sides of it.

Decisions `selections-in-publications` and `smooth-sensitivity`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import Neighbours, Ties
from sfumato.errors import ParameterError
from sfumato.exact_numbers import exact, plain
from sfumato.methods import options
from sfumato.methods.publish.domain import blank_cells, figure_name, points
from sfumato.methods.publish.measurement import SingleNoise, one_axis, without_postprocess
from sfumato.privacy.accounting.events import ExponentialChoice, Repeated
from sfumato.privacy.mechanisms.quantile import Counted, Quantile
from sfumato.privacy.mechanisms.smooth_median import SmoothMedian
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Spending
    from sfumato.privacy.noise.entropy import Entropy

# Each point is divided into so many slots, so that a choice can split a point with many rows.
SLOTS_PER_POINT = 256

MAX_RANKS = 1000
# Ranks have at most six decimals.
_RANK_UNITS = 10**6
_DEFAULT_RANKS = ("0.25", "0.5", "0.75")
_MECHANISMS = ("exponential", "smooth")
_MAX_ROWS = 1 << 20


def prepare(
    request: Request, *, ranks: object = None, mechanism: object = None, rows: object = None
) -> Quantiles | SmoothQuantile:
    """Read the ranks and the mechanism that finds them.

    The mechanism "smooth" finds one rank, 0.5, by noise on the median of `rows` rows, which is a
    public number.
    """
    without_postprocess(request, "quantiles")
    one_axis(request, "quantiles")
    if options.choice(mechanism or "exponential", "mechanism", _MECHANISMS) == "smooth":
        return _smooth(request, ranks, rows)
    if rows is not None:
        raise ParameterError(
            "option_not_applicable",
            "The exponential mechanism needs no public number of rows. Leave rows out, or take "
            "mechanism='smooth'.",
        )
    return by_choices(request, ranks=ranks)


def by_choices(request: Request, *, ranks: object = None) -> Quantiles:
    """Find all ranks by exponential choices; the depths of the recursion share the price."""
    exact_ranks = _ranks(_DEFAULT_RANKS if ranks is None else ranks)
    candidates = [
        Quantiles(request, exact_ranks, spending) for spending in spendings(request.price)
    ]
    return max(candidates, key=lambda candidate: candidate.epsilon)


def _smooth(request: Request, ranks: object, rows: object) -> SmoothQuantile:
    """Find the median by smooth sensitivity, for people of one row each and a public row count."""
    if _ranks("0.5" if ranks is None else ranks) != (Fraction(1, 2),):
        raise ParameterError(
            "option_not_applicable",
            "Smooth sensitivity is known only for the median. Ask for ranks=[0.5], or take "
            "mechanism='exponential'.",
        )
    if rows is None:
        raise ParameterError(
            "parameter_missing",
            "The smooth median is that of a public number of rows: give rows=N, about as many as "
            "there are. The number of rows in the table itself is private.",
            parameter="rows",
        )
    replaced = request.unit.relation is Neighbours.REPLACE_ONE
    if request.sensitivity.l1 > (2 if replaced else 1):
        raise ParameterError(
            "unit_unsupported",
            "Smooth sensitivity is known where a person has one row, but a person may have more "
            "here. Protect the table with max_rows=1, or take mechanism='exponential'.",
        )
    size = points(request.axes[0])
    if size < 2:
        raise ParameterError(
            "column_unsuitable",
            f"Column {quoted(request.columns[0])} has one declared value, which is its median.",
        )
    price = request.price
    epsilon = spendings(price)[0].pure_epsilon()
    delta = price.delta if price.rho is None else Fraction(0)
    number = options.whole(rows, "rows", least=1, most=_MAX_ROWS)
    return SmoothQuantile(
        request, SmoothMedian(epsilon=epsilon, delta=delta, rows=number, size=size)
    )


@dataclass(frozen=True)
class SmoothQuantile(SingleNoise):
    """The median with noise scaled to its smooth sensitivity, low where many rows are near it.

    *Guarantee*: the price in full, epsilon or (epsilon, delta): with a delta the noise is Laplace,
    without one Cauchy.
    *Sensitivity*: one row that is added, removed or replaced changes one of `rows` values, whatever
    the table holds. Where the table has too few rows, or missing values, the lacking rows are put
    half at the lowest and half at the highest point, so one row more replaces one of them. Where it
    has too many, equally many are left out at both ends, so one row more moves one value in or out.
    So neighbours under either relation are tables of `rows` rows that differ in one of them.
    *Error*: depends on the table; `error` states the much larger bound for every table.
    *Edges*: the lower median of an even number. The answer lies on the declared grid.
    *Reference*: Nissim, Raskhodnikova & Smith 2007, Claim 3.3 and Lemma 2.9.
    """

    request: Request
    noise: SmoothMedian

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The rank, and the public number of rows."""
        return {"ranks": ["1/2"], "mechanism": "smooth", "rows": self.noise.rows}

    @property
    def error(self) -> Mapping[str, Any]:
        """A 95 % bound on the distance from the median, in points, for every table."""
        worst = {"points_bound95": self.noise.bound(0.05)}
        note = "in points of the column, for every table; far less where rows crowd at the median"
        return {"quantiles": {"1/2": worst}, "note": note}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows: its name and columns."""
        return {"quantiles": blank_cells(self.request.axes, "rank")}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row: the rank and the value."""
        counts = counter.of(self.request.columns)
        table = self.table(counts.codes[0], counts.counts)
        code = self.noise.sample(table[None], entropy)
        return {"quantiles": quantile_table(self.request.axes[0], [Fraction(1, 2)], code)}

    def table(self, codes: NDArray[np.integer], counts: IntArray) -> IntArray:
        """Exactly `rows` codes in order: the table padded or cut to the public number of rows."""
        present = np.flatnonzero(codes < self.noise.size)
        order = present[np.argsort(codes[present], kind="stable")]
        rows = self.noise.rows
        ends = np.cumsum(counts[order])
        row_count = int(ends[-1]) if len(ends) else 0
        # Kept positions among all rows in order; negative ones are padding at the lowest point.
        first = (row_count - rows) // 2 if row_count > rows else -((rows - row_count) // 2)
        positions = np.arange(first, first + rows)
        groups = np.searchsorted(ends, positions, side="right")
        values = np.append(codes[order].astype(np.int64), self.noise.size - 1)[groups]
        return np.where(positions < 0, 0, values)


def quantile_table(axis: Axis, ranks: Sequence[Fraction], codes: IntArray) -> pa.Table:
    """A table with one row for every rank: the rank and the value."""
    names = [figure_name([axis], "rank"), axis.column]
    figures = pa.array([float(rank) for rank in ranks])
    return pa.Table.from_arrays([figures, axis.decode(codes)], names=names)


def _ranks(value: object) -> tuple[Fraction, ...]:
    values = value.split(",") if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not 1 <= len(values) <= MAX_RANKS:
        raise ParameterError(
            "parameter_type_wrong",
            f"ranks must be a list of 1 to {MAX_RANKS:,} numbers such as 0.25,0.5,0.75, not "
            f"{arguments.shown(value)}.",
            parameter="ranks",
            given=arguments.shown(value),
        )
    ranks = sorted({exact(number, "rank") for number in values})
    for rank in ranks:
        if not 0 <= rank <= 1 or (rank * _RANK_UNITS).denominator != 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"Each rank must lie between 0 and 1 with at most six decimals, not "
                f"{plain(rank, digits=7)}.",
                parameter="ranks",
                given=plain(rank, digits=7),
            )
    return tuple(ranks)


@dataclass(frozen=True)
class _RankRange:
    """The ranks between two that were found before; `depth` is the recursion depth, from 0."""

    first: int
    stop: int
    depth: int

    @property
    def middle(self) -> int:
        return (self.first + self.stop) // 2

    def walk(self) -> Iterator[_RankRange]:
        """Yield this range and all below it, parents before children."""
        if self.first < self.stop:
            yield self
            yield from _RankRange(self.first, self.middle, self.depth + 1).walk()
            yield from _RankRange(self.middle + 1, self.stop, self.depth + 1).walk()


@dataclass(frozen=True)
class Quantiles:
    """The middle rank by the exponential mechanism, then the ranks of both sides among their rows.

    *Guarantee*: the price in full for all quantiles together. Each depth is one exponential choice
    with an equal share: given the points found before, its ranges are disjoint, and each scores its
    own rows only.
    *Sensitivity*: of the rank score in each range, known from the unit: a person's rows in all
    ranges together weigh no more than all of them in one. Where people are replaced, rows leave one
    range and enter another, so below the first depth each range has half of its depth's epsilon.
    *Error*: with probability 1 - beta the rank of each quantile is off by at most the sum of the
    bounds of the choices above it and of its own, and by 1/256 of the rows of one value per depth.
    *Edges*: quantiles never cross. Missing values are left out. Rows of the same value are spread
    over its 256 slots in a fixed order, so that adding or removing rows moves no others. Without
    rows every quantile is a uniform point above the previous one.
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
        """The number of consecutive choices."""
        return len(self.ranks).bit_length()

    @property
    def ties(self) -> int:
        """The number of slots of each point; a single quantile needs one."""
        room = 1 << max(62 - points(self._axis).bit_length(), 0)
        return 1 if len(self.ranks) == 1 else min(SLOTS_PER_POINT, room)

    @cached_property
    def epsilon(self) -> Fraction:
        """The epsilon of each depth."""
        return self.spending.choice_epsilon(Fraction(1, self.depths))

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        return Repeated(ExponentialChoice(epsilon=self.epsilon), self.depths)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The ranks, exactly."""
        return {"ranks": [str(rank) for rank in self.ranks]}

    def _mechanism(self, rank_range: _RankRange, size: int) -> Quantile:
        """Return the choice of a range's middle rank, relative to the ranks at its ends."""
        low = self.ranks[rank_range.first - 1] if rank_range.first else Fraction(0)
        high = self.ranks[rank_range.stop] if rank_range.stop < len(self.ranks) else Fraction(1)
        unit, epsilon = self.request.unit, self.epsilon
        if (
            rank_range.depth
            and unit.relation is Neighbours.REPLACE_ONE
            and not isinstance(unit, Ties)
        ):
            # A replacement removes one row and adds another: two changes, in two ranges or one.
            unit, epsilon = replace(unit, relation=Neighbours.ADD_REMOVE), epsilon / 2
        rank = (self.ranks[rank_range.middle] - low) / (high - low)
        return Quantile(epsilon=epsilon, rank=rank, size=size, unit=unit)

    @property
    def error(self) -> Mapping[str, Any]:
        """A 95 % bound on the error of each quantile's rank, in rows."""
        size = points(self._axis) * self.ties
        path: list[Quantile] = []
        bounds = {}
        for rank_range in _RankRange(0, len(self.ranks), 0).walk():
            path[rank_range.depth :] = [self._mechanism(rank_range, size)]
            # Each boundary above may cut off one row more or less than its slot.
            bounds[rank_range.middle] = (
                sum(mechanism.bound(0.05 / len(path)) for mechanism in path) + rank_range.depth
            )
        stated = {
            str(rank): {"rank_bound95": bounds[index]} for index, rank in enumerate(self.ranks)
        }
        share = math.ceil(1000 * (self.depths - 1) / self.ties) / 10
        ties = f", and by {share} % of the rows of any one value"
        return {"quantiles": stated, "note": f"in rows{ties if self.ties > 1 and share else ''}"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows: its name and columns."""
        return {"quantiles": blank_cells([self._axis], "rank")}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every rank, in order: the rank and the value."""
        counts = counter.of(self.request.columns)
        codes = self.choose(counts.codes[0], counts.counts, entropy)
        return {"quantiles": quantile_table(self._axis, self.ranks, codes)}

    def choose(self, codes: NDArray[np.integer], counts: IntArray, entropy: Entropy) -> IntArray:
        """Return the code of each quantile."""
        present = codes < points(self._axis)
        slots, rows = _spread(codes[present].astype(np.int64), counts[present], self.ties)
        chosen = np.empty(len(self.ranks), dtype=np.int64)
        for rank_range in _RankRange(0, len(self.ranks), 0).walk():
            # The first range begins at slot 0; every other one just above its lower end.
            low = int(chosen[rank_range.first - 1]) if rank_range.first else -1
            high = (
                int(chosen[rank_range.stop])
                if rank_range.stop < len(chosen)
                else points(self._axis) * self.ties - 1
            )
            begin, end = np.searchsorted(slots, [low, high], side="right")
            start = max(low, 0)
            counted = Counted(
                slots[begin:end] - start, rows[begin:end], np.zeros(end - begin, np.int64), 1
            )
            mechanism = self._mechanism(rank_range, high - start + 1)
            chosen[rank_range.middle] = start + mechanism.sample(counted, entropy)[0]
        return chosen // self.ties


def _spread(codes: IntArray, counts: IntArray, ties: int) -> tuple[IntArray, IntArray]:
    """Spread the rows of each point over its slots; return the occupied slots and their rows.

    The first row goes to slot 0, the next ones to 1/2, 1/4, 3/4, ... of the point (bit-reversed
    order): any run of slots gets nearly its fair share, and one more row moves no other row.
    """
    bits = ties.bit_length() - 1
    turns = np.arange(ties)
    reversed_turns = np.zeros_like(turns)
    for bit in range(bits):
        reversed_turns |= ((turns >> bit) & 1) << (bits - 1 - bit)
    slot_counts = np.minimum(counts, ties)
    firsts = np.repeat(np.cumsum(slot_counts) - slot_counts, slot_counts)
    turn = np.arange(len(firsts)) - firsts
    slots = np.repeat(codes, slot_counts) * ties + reversed_turns[turn]
    # Rows fill the slots in turn, one row per slot and round.
    rows = (np.repeat(counts, slot_counts) - turn - 1) // ties + 1
    order = np.argsort(slots)
    return slots[order], rows[order]
