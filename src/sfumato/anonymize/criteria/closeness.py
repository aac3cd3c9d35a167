"""Closeness to the original: how much a class reveals about sensitive values beyond the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from sfumato import arguments
from sfumato.anonymize.classes import exact
from sfumato.anonymize.criteria.base import Criterion, sign
from sfumato.data.schema.toml_document import add_line
from sfumato.errors import ParameterError, SchemaError
from sfumato.exact_numbers import decimal_of, positive, share

if TYPE_CHECKING:
    from sfumato.anonymize.classes import Classes, Exact, Original, SensitiveCounts
    from sfumato.arrays import BoolArray, IntArray
    from sfumato.exact_numbers import Number

Distance = Literal["equal", "ordered", "hierarchy"]


class Closeness(Criterion):
    """A kind of closeness of one sensitive column to the original table."""

    of: str

    leaves_open = (
        "A group may still reveal a little about a value: its shares may differ from those of the "
        "whole table within the limit, and facts that hold for everyone are not hidden."
    )

    @property
    def column(self) -> str:
        """The column whose shares are compared."""
        return self.of


@dataclass(frozen=True)
class TCloseness(Closeness):
    """The earth mover's distance between a class and the original table is at most t.

    *Guarantee*: EMD(p, q) <= t, where q is the distribution in the original table before
    suppression. Ground distance: equal, all values 1 apart; ordered, by ranks over m - 1 in the
    order that is declared, else by number, date or alphabet; hierarchy, the level of the lowest
    common ancestor over the height.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; distances are integers over one denominator, t is an exact rational, and equality
    passes.
    *Edges*: only values that occur count as ranks; NULL is a value, the last in the order; one
    value alone has distance 0.
    *Reference*: Li, Li and Venkatasubramanian 2007, section 5.

    Parameters
    ----------
    t : int, float, str, Decimal or Fraction
        The largest distance, from 0 to 1.
    of : str
        The sensitive column.
    distance : {"equal", "ordered", "hierarchy"}
        How far apart two values are.

    Raises
    ------
    ParameterError
        If t is not in its range, or the distance is not known.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.TCloseness("0.4", "illness"))
    '0.4-closeness of illness (equal distance)'
    """

    t: Number
    of: str
    distance: Distance = field(default="equal", kw_only=True)

    def __post_init__(self) -> None:
        asked = share(self.t, "t")
        if asked > 1:
            percent = decimal_of(min(asked, Fraction(100)))
            raise ParameterError(
                "parameter_out_of_range",
                f"t must be between 0 and 1, but {arguments.shown(self.t)} was given: "
                f"{percent} % is written {decimal_of(Fraction(percent) / 100)} or '{percent}%'.",
                parameter="t",
            )
        if self.distance not in get_args(Distance):
            raise ParameterError(
                "choice_unknown",
                f"Distance {arguments.shown(self.distance)} is not known; take one of "
                f"{', '.join(get_args(Distance))}.",
                parameter="distance",
            )

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether it is close to the original."""
        cells = classes.of(self.of)
        work, scale = distances(cells, self.distance)
        # work / (size rows scale) <= t, in integers: t rows scale is integer_part + remainder / d.
        limit = share(self.t, "t") * cells.original.rows * scale
        integer_part, remainder = divmod(limit.numerator, limit.denominator)
        largest = max(cells.original.rows * max(integer_part, remainder), limit.denominator)
        sizes = exact(cells.sizes, 2 * largest)
        return np.asarray(
            work <= integer_part * sizes + remainder * sizes // limit.denominator, dtype=bool
        )

    def promise(self, counted: str) -> str:
        """Say that shares differ little from those of the whole table."""
        del counted
        most = f"{float(100 * share(self.t, 't')):g} %"
        if self.distance == "equal":
            return (
                f"In every group that looks alike the shares of the values of {self.of} differ "
                f"from those in the whole table by at most {most}."
            )
        direction = "their order" if self.distance == "ordered" else "their hierarchy"
        return (
            f"In every group that looks alike the values of {self.of} are spread as in the whole "
            f"table, except for at most {most} of the largest distance along {direction}."
        )

    def worded(self, original: Original | None) -> str:
        """Name the order, where there is one."""
        if self.distance != "ordered" or original is None:
            return str(self)
        return f"{self.t}-closeness of {self.of} (ordered distance, {original.order})"

    def __str__(self) -> str:
        return f"{self.t}-closeness of {self.of} ({self.distance} distance)"


def distances(cells: SensitiveCounts, distance: Distance) -> tuple[Exact, int]:
    """Return the distance of each class as (work, scale): it is work / (size rows scale)."""
    return _MEASURES[distance](cells)


def farthest(cells: SensitiveCounts, distance: Distance) -> Fraction:
    """Return the largest distance of any class, exactly: the t that was reached."""
    work, scale = distances(cells, distance)
    rows = cells.original.rows * scale
    pairs = {(int(w), int(n)) for w, n in zip(work, cells.sizes, strict=True)}
    return max(Fraction(w, n * rows) for w, n in pairs)


def _equal(cells: SensitiveCounts) -> tuple[Exact, int]:
    """Return half of sum |p - q|: the surplus of the values above their share."""
    rows, totals = cells.original.rows, cells.original.totals
    # n_class * n_total * (p - q) of each value, as an integer.
    above = cells.counts * rows - cells.sizes[cells.owners] * totals[cells.values]
    return cells.sums(np.maximum(above, 0)), 1


def _ordered(cells: SensitiveCounts) -> tuple[Exact, int]:
    """sum over ranks |P - Q| of the cumulated distributions, over m - 1.

    P is constant from one value of the class to the next, and Q never falls. So each such run of
    ranks is summed in closed form, split where Q overtakes P.
    """
    rows, count = cells.original.rows, len(cells.original.totals)
    largest = rows * rows * (count + 1)
    # n_total * Q: cumulated counts of the original, by rank.
    reached = np.cumsum(cells.original.totals)
    area = exact(np.concatenate([[0], reached]), largest).cumsum()
    sizes = cells.sizes[cells.owners]
    running = np.cumsum(cells.counts)
    before = (running - cells.counts)[cells.starts][cells.owners]
    passed = (running - before) * rows
    first = cells.values.astype(np.int64)
    last = np.append(first[1:], count)
    last[np.append(cells.starts[1:], len(first)) - 1] = count
    turn = np.clip(np.searchsorted(reached, passed // sizes, side="right"), first, last)
    wide, span = exact(sizes, largest), exact(passed, largest)
    work = span * (2 * turn - first - last) + wide * (area[first] + area[last] - 2 * area[turn])
    lead = exact(cells.sizes, largest) * area[first[cells.starts]]
    return cells.sums(work) + lead, max(count - 1, 1)


def _hierarchical(cells: SensitiveCounts) -> tuple[Exact, int]:
    """Sum over labels the mass that moves between their children, times level over height.

    Children above their share give to the others; min(above, above - own surplus) stays below the
    label. A label that a class does not have gives nothing.
    """
    original = cells.original
    if original.taxonomy is None or original.leaves is None:
        raise SchemaError(
            "hierarchy_missing",
            f"The hierarchical distance of column {original.name!r} needs a hierarchy of it. "
            + add_line(original.name, 'hierarchy = { file = "..." }')
            + ", or take the equal or ordered distance.",
        )
    # Li et al. 2007, equation for EMD along a hierarchy, from the leaves up.
    height, rows = original.taxonomy.height, original.rows
    largest = rows * rows * (height + 1) * 2
    work = exact(np.zeros(len(cells.starts), dtype=np.int64), largest)
    above: IntArray | None = None
    owners, leaves, counts = cells.owners, original.leaves[cells.values], cells.counts
    for level in range(height + 1):
        labels = original.taxonomy.codes[:, level].astype(np.int64)
        width = len(original.taxonomy.labels[level])
        shares = np.bincount(labels[original.leaves], original.totals, width).astype(np.int64)
        keys = owners * width + labels[leaves]
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        first = order[starts]
        owners, leaves = owners[first], leaves[first]
        counts = np.add.reduceat(counts[order], starts)
        surplus = counts * rows - cells.sizes[owners] * shares[labels[leaves]]
        if above is not None:
            from_children = np.add.reduceat(above[order], starts)
            moved = exact(np.minimum(from_children, from_children - surplus), largest) * level
            np.add.at(work, owners, moved)
        above = np.maximum(surplus, 0)
    return work, height


_MEASURES = {"equal": _equal, "ordered": _ordered, "hierarchy": _hierarchical}


_UNDECIDED = 1e-9


@dataclass(frozen=True)
class DeltaDisclosure(Closeness):
    """|ln(p / q)| < delta for every value, p its share in the class and q in the original.

    *Guarantee*: natural logarithm, strict; q is the original table's before suppression.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; what float64 cannot decide is decided with more digits.
    *Edges*: a value that the class lacks has ln 0 and fails it, so every class needs every value;
    NULL counts as a value.
    *Reference*: Brickell and Shmatikov 2008, definition 5.

    Parameters
    ----------
    delta : int, float, str, Decimal or Fraction
        The bound on the logarithm, above 0.
    of : str
        The sensitive column.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.DeltaDisclosure(2, "illness"))
    '2-disclosure privacy of illness'
    """

    delta: Number
    of: str

    def promise(self, counted: str) -> str:
        """Say that no value is much more or much less common than in the whole table."""
        del counted
        times = math.exp(float(positive(self.delta, "delta_disclosure")))
        return (
            f"In every group that looks alike each value of {self.of} is less than {times:.3g} "
            "times as common, and as rare, as in the whole table."
        )

    def __post_init__(self) -> None:
        positive(self.delta, "delta_disclosure")

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether all its shares are close to those of the original."""
        cells = classes.of(self.of)
        rows, totals = cells.original.rows, cells.original.totals
        delta = positive(self.delta, "delta_disclosure")
        observed = cells.counts * rows
        expected = cells.sizes[cells.owners] * totals[cells.values]
        gain = np.abs(np.log(observed / expected))
        near = gain < float(delta)
        for cell in np.flatnonzero(np.abs(gain - float(delta)) <= _UNDECIDED):
            larger, smaller = sorted((int(observed[cell]), int(expected[cell])), reverse=True)
            near[cell] = sign([(1, larger), (-1, smaller)], delta) < 0
        # A value that the class lacks has ln 0, which is below every -delta.
        complete = cells.lengths == len(totals)
        return np.asarray(complete & np.logical_and.reduceat(near, cells.starts), dtype=bool)

    def __str__(self) -> str:
        return f"{self.delta}-disclosure privacy of {self.of}"


@dataclass(frozen=True)
class BetaLikeness(Closeness):
    """(p - q) / q <= beta for every sensitive value, p its share in the class, q in the original.

    *Guarantee*: seeing the class raises no value's odds above (1 + beta) q; q is the original
    table's before suppression.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; compared in integers against beta as an exact rational, and equality passes.
    *Edges*: values that become rarer or vanish are allowed; NULL counts as a value.
    *Reference*: Cao and Karras 2012, definition 2 (basic beta-likeness).

    Parameters
    ----------
    beta : int, float, str, Decimal or Fraction
        By how many times of itself a share may grow, above 0.
    of : str
        The sensitive column.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.BetaLikeness(1, "illness"))
    '1-likeness of illness'
    """

    beta: Number
    of: str

    def promise(self, counted: str) -> str:
        """Say that no value is much more common than in the whole table."""
        del counted
        times = float(1 + positive(self.beta, "beta"))
        return (
            f"In no group that looks alike is a value of {self.of} more than {times:g} times as "
            "common as in the whole table."
        )

    def __post_init__(self) -> None:
        positive(self.beta, "beta")

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether no value became too common."""
        cells = classes.of(self.of)
        rows, ratio = cells.original.rows, 1 + positive(self.beta, "beta")
        largest = rows * rows * ratio.numerator
        observed = exact(cells.counts * rows, largest) * ratio.denominator
        expected = cells.sizes[cells.owners] * cells.original.totals[cells.values]
        near = np.asarray(observed <= exact(expected, largest) * ratio.numerator, dtype=bool)
        return np.logical_and.reduceat(near, cells.starts)

    def __str__(self) -> str:
        return f"{self.beta}-likeness of {self.of}"
