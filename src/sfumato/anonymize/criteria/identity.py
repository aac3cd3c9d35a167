"""Against being found: k-anonymity, and k-map and delta-presence in a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import exact
from sfumato.anonymize.criteria.base import Criterion, whole_number
from sfumato.errors import ParameterError
from sfumato.exact_numbers import share

if TYPE_CHECKING:
    from sfumato.anonymize.classes import Classes
    from sfumato.arrays import BoolArray
    from sfumato.exact_numbers import Number


@dataclass(frozen=True)
class KAnonymity(Criterion):
    """Every released combination of quasi-identifiers belongs to at least k rows, or people.

    *Guarantee*: linking by quasi-identifiers leaves at least k candidates for each person.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; classes are counted exactly.
    *Edges*: NULL is a value like any other; suppressed rows are no class; k = 1 always holds. Where
    the unit is a person, the different people of a class are counted.
    *Reference*: Samarati 2001; Sweeney 2002.

    Parameters
    ----------
    k : int
        The least number of rows, or of people, that look alike, at least 1.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.KAnonymity(5))
    '5-anonymity'
    """

    k: int

    absorbing = True
    leaves_open = (
        "Facts that are true of a whole group are not hidden: if all who look alike have the "
        "same value, anyone who finds the group knows it. Someone who knows more about a person "
        "than these columns can find that person among fewer."
    )

    def __post_init__(self) -> None:
        whole_number(self.k, "k")

    def promise(self, counted: str) -> str:
        """Say how many rows or people look alike."""
        unit = "person" if counted == "people" else "row"
        return (
            f"Someone who looks for a person by the columns that can identify people finds that "
            f"{unit} only among at least {self.k - 1:,} other {counted} that look the same."
        )

    @property
    def crowd(self) -> int:
        """Classes below k fail."""
        return self.k

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether it has k rows or people."""
        passes: BoolArray = classes.counted >= self.k
        return passes

    def __str__(self) -> str:
        return f"{self.k}-anonymity"


@dataclass(frozen=True)
class KMap(Criterion):
    """Every released combination fits at least k people of the population table.

    *Guarantee*: linking a released row to the population leaves at least k candidates.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; matches are counted exactly.
    *Edges*: a class that the population lacks fails; the population is fixed and public, and
    each of its rows is a person.
    *Reference*: Sweeney 2002, section 5; El Emam and Dankar 2008.

    Parameters
    ----------
    k : int
        The least number of people of the population that fit, at least 1.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.KMap(5))
    '5-map'
    """

    k: int

    absorbing = True
    leaves_open = (
        "Someone who knows that a person is in the released table, and not only in the population, "
        "may have fewer candidates. Facts that are true of a whole group are not hidden."
    )

    def __post_init__(self) -> None:
        whole_number(self.k, "k")

    def promise(self, counted: str) -> str:
        """Say how many people of the population each row fits."""
        del counted
        return (
            f"Each released row fits at least {self.k:,} people of the population, of whom any may "
            "be the one."
        )

    @property
    def compares_population(self) -> bool:
        """The population is counted beside the table."""
        return True

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether k people of the population fall into it."""
        passes: BoolArray = classes.matches() >= self.k
        return passes

    def __str__(self) -> str:
        return f"{self.k}-map"


@dataclass(frozen=True)
class DeltaPresence(Criterion):
    """The share of a class's population that is in the table lies between two bounds.

    *Guarantee*: minimum <= rows of the class / people of the population in it <= maximum.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; compared in integers against exact rationals, and equality passes.
    *Edges*: with a minimum above 0, people who fall into no class are known to be absent: then no
    class passes. A class that the population lacks fails. Where the unit is a person, the people of
    a class are counted; each row of the population is a person.
    *Reference*: Nergiz, Atzori and Clifton 2007, definition 1.

    Parameters
    ----------
    minimum : int, float, str, Decimal or Fraction
        The least share of a class's population that is in the table, from 0 to 1.
    maximum : int, float, str, Decimal or Fraction
        The greatest such share, from the minimum to 1.

    Raises
    ------
    ParameterError
        If a number is not in its range.

    Example
    -------
    >>> import sfumato as sf
    >>> str(sf.DeltaPresence(0, "0.5"))
    '(0, 0.5)-presence'
    """

    minimum: Number
    maximum: Number

    leaves_open = (
        "Only whether someone is in the table is hidden. What is said of the people who are, is "
        "hidden by other criteria, or not at all."
    )

    def promise(self, counted: str) -> str:
        """Say how sure anyone can be that a person is in the table."""
        del counted
        low, high = (
            float(100 * share(bound, "presence")) for bound in (self.minimum, self.maximum)
        )
        return (
            f"For anyone who knows a person of the population, the chance that this person is in "
            f"the table is between {low:g} and {high:g} %."
        )

    def __post_init__(self) -> None:
        low, high = share(self.minimum, "presence"), share(self.maximum, "presence")
        if not low <= high <= 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"Presence must lie between two shares of at most 1, the lower first, not "
                f"{self.minimum} and {self.maximum}.",
                parameter="presence",
            )

    @property
    def compares_population(self) -> bool:
        """The population is counted beside the table."""
        return True

    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether its share of the population is within the bounds."""
        low, high = share(self.minimum, "presence"), share(self.maximum, "presence")
        # Whoever is in no released class is known to be absent: presence 0 is below the minimum.
        if low > 0 and classes.unmatched:
            return np.zeros(len(classes), dtype=bool)
        matches = classes.matches()
        most = int(max(matches.max(initial=0), classes.counted.max(initial=0)))
        largest = most * max(low.denominator, high.denominator)
        rows, people = exact(classes.counted, largest), exact(matches, largest)
        # Compared as cross products, so that no share is rounded.
        enough = rows * low.denominator >= people * low.numerator
        few_enough = rows * high.denominator <= people * high.numerator
        return np.asarray(enough & few_enough, dtype=bool)

    def __str__(self) -> str:
        return f"({self.minimum}, {self.maximum})-presence"
