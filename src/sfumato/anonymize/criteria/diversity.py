"""l-diversity in its four kinds: no class gives a sensitive value away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import exact
from sfumato.anonymize.criteria.base import Criterion, sign, whole_number
from sfumato.exact_numbers import positive

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.anonymize.classes import Classes, SensitiveCounts
    from sfumato.arrays import BoolArray, IntArray
    from sfumato.exact_numbers import Number


@dataclass(frozen=True)
class Diversity(Criterion):
    """A kind of l-diversity of one sensitive column."""

    l: int  # noqa: E741  # the literature's own name
    of: str

    leaves_open = (
        "A value may be much more common in a group than in the whole table, and values that are "
        "different in name may mean much the same: a group can still make something likely."
    )

    def __post_init__(self) -> None:
        whole_number(self.l, "l")

    @property
    def column(self) -> str:
        """The column that must be diverse."""
        return self.of

    @property
    def smallest(self) -> int:
        """Different values need as many rows."""
        return self.l


@dataclass(frozen=True)
class DistinctDiversity(Diversity):
    """Every class has at least l different values of the sensitive column.

    *Guarantee*: a class leaves at least l values possible; it says nothing of their odds.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; values are counted exactly.
    *Edges*: NULL counts as a value of its own.
    *Reference*: Machanavajjhala et al. 2006, section 4.

    Parameters
    ----------
    l : int
        How many values must be possible, at least 1.
    of : str
        The sensitive column.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.DistinctDiversity(2, "illness"))
    'distinct 2-diversity of illness'
    """

    absorbing = True

    def promise(self, counted: str) -> str:
        """Say how many values each group has."""
        del counted
        return (
            f"Every group that looks alike has at least {self.l:,} different values of {self.of}."
        )

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether it has l different values."""
        passes: BoolArray = classes.of(self.of).lengths >= self.l
        return passes

    def __str__(self) -> str:
        return f"distinct {self.l}-diversity of {self.of}"


_UNDECIDED = 1e-9  # per row; float64 errs by less than 1e-13 per row


@dataclass(frozen=True)
class EntropyDiversity(Diversity):
    """The entropy of the sensitive values of every class is at least ln l.

    *Guarantee*: n ln n - sum f ln f >= n ln l over the counts f of a class of n rows.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; what float64 cannot decide is decided by prime exponents and more digits, so that
    counts (2, 2, 2) are 3-diverse.
    *Edges*: NULL counts as a value; l = 1 always holds.
    *Reference*: Machanavajjhala et al. 2006, definition 4.1.

    Parameters
    ----------
    l : int
        How many values must be possible, at least 1.
    of : str
        The sensitive column.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.EntropyDiversity(2, "illness"))
    'entropy 2-diversity of illness'
    """

    @property
    def consequence(self) -> DistinctDiversity:
        """Fewer than l values have less entropy than ln l."""
        return DistinctDiversity(self.l, self.of)

    def promise(self, counted: str) -> str:
        """Say that values are at least as even as l equally common ones."""
        del counted
        return (
            f"In every group that looks alike the values of {self.of} are spread at least as "
            f"evenly as {self.l:,} equally common ones."
        )

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether its entropy is at least ln l."""
        cells = classes.of(self.of)
        sizes, counts = cells.sizes.astype(np.float64), cells.counts.astype(np.float64)
        # n times the entropy of a class: n ln n - sum f ln f, without dividing.
        spent = np.add.reduceat(counts * np.log(counts), cells.starts)
        surplus = sizes * (np.log(sizes) - np.log(self.l)) - spent
        passes: BoolArray = surplus >= 0
        # float64 cannot tell these from equality, where (2, 2, 2) must pass as 3-diverse.
        for index in np.flatnonzero(np.abs(surplus) <= _UNDECIDED * sizes):
            passes[index] = self._decide(cells, int(index))
        return passes

    def _decide(self, cells: SensitiveCounts, index: int) -> bool:
        """Decide one class exactly; for equal counts, the usual case, by their number."""
        start, length = int(cells.starts[index]), int(cells.lengths[index])
        counts = cells.counts[start : start + length].tolist()
        if min(counts) == max(counts):
            return length >= self.l
        size = sum(counts)
        terms = [(size, size), (-size, self.l), *((-count, count) for count in counts)]
        return sign(terms) >= 0

    def __str__(self) -> str:
        return f"entropy {self.l}-diversity of {self.of}"


@dataclass(frozen=True)
class FolkDiversity(Diversity):
    """The most frequent value of a class has at most 1/l of its rows, or people: l r_1 <= n.

    *Guarantee*: whoever knows a person's class guesses the value right with odds of at most 1/l.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; compared in integers, and equality passes.
    *Edges*: NULL counts as a value; a strict recursive (1/l, 1) condition is not the same.
    *Reference*: Machanavajjhala et al. 2006; Xiao and Tao 2006, definition 2.

    Parameters
    ----------
    l : int
        How many values must be possible, at least 1.
    of : str
        The sensitive column.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.FolkDiversity(2, "illness"))
    'folk 2-diversity of illness'
    """

    def promise(self, counted: str) -> str:
        """Say that no value has more than one in l rows."""
        return (
            f"No value of {self.of} is that of more than one in {self.l:,} of the {counted} in a "
            "group that looks alike."
        )

    @property
    def crowd(self) -> int:
        """People with the commonest value are at most one in l, so a class needs l people."""
        return self.l

    @property
    def consequence(self) -> DistinctDiversity:
        """A share of at most 1/l each needs l values."""
        return DistinctDiversity(self.l, self.of)

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether its commonest value has at most 1/l of the rows."""
        cells = classes.of(self.of)
        commonest = np.maximum.reduceat(cells.counts, cells.starts)
        scaled = exact(commonest, self.l * cells.original.rows) * self.l
        return np.asarray(scaled <= classes.counted, dtype=bool)

    def __str__(self) -> str:
        return f"folk {self.l}-diversity of {self.of}"


@dataclass(frozen=True)
class RecursiveDiversity(Diversity):
    """r_1 < c (r_l + ... + r_m), where r_i is the count of the i-th commonest value of the class.

    *Guarantee*: ruling out l - 2 values still leaves none of the others nearly certain.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; c is an exact rational and the inequality strict.
    *Edges*: fewer than l values fail, as the sum is empty; NULL counts as a value.
    *Reference*: Machanavajjhala et al. 2006, definition 4.2.

    Parameters
    ----------
    l : int
        How many values must be possible, at least 1.
    of : str
        The sensitive column.
    c : int, float, str, Decimal or Fraction
        How many times the other values the commonest one may be, above 0.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.RecursiveDiversity(2, "illness", c=3))
    'recursive (3, 2)-diversity of illness'
    """

    c: Number = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.c, "c")

    def promise(self, counted: str) -> str:
        """Say that the commonest value is less than c times as common as the others."""
        del counted
        but = "" if self.l == 2 else f", even with the {self.l - 2:,} next commonest set aside"
        return (
            f"In every group that looks alike the commonest value of {self.of} is less than "
            f"{self.c} times as common as the others together{but}."
        )

    @property
    def consequence(self) -> DistinctDiversity:
        """The sum is empty with fewer than l values."""
        return DistinctDiversity(self.l, self.of)

    @property
    def _ratio(self) -> Fraction:
        return positive(self.c, "c")

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether r_1 < c (r_l + ... + r_m)."""
        cells = classes.of(self.of)
        ranked = descending(cells)
        rank = np.arange(len(ranked)) - cells.starts[cells.owners]
        # r_l + ... + r_m: the counts from the l-th commonest on.
        tail = np.add.reduceat(np.where(rank >= self.l - 1, ranked, 0), cells.starts)
        top, ratio = ranked[cells.starts], self._ratio
        largest = max(ratio.numerator, ratio.denominator) * cells.original.rows
        return np.asarray(
            exact(top, largest) * ratio.denominator < exact(tail, largest) * ratio.numerator,
            dtype=bool,
        )

    def __str__(self) -> str:
        return f"recursive ({self.c}, {self.l})-diversity of {self.of}"


def descending(cells: SensitiveCounts) -> IntArray:
    """Return the counts of each class, the largest first."""
    ceiling = int(cells.counts.max()) + 1
    # One sort of one integer per cell: first by class, then by falling count.
    packed = np.sort((cells.owners + 1) * ceiling - cells.counts)
    ranked: IntArray = (cells.owners + 1) * ceiling - packed
    return ranked
