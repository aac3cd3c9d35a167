"""Minimality: an algorithm that stops as early as possible reveals why it did not stop earlier.

*Attacker*: knows everybody's quasi-identifiers, that classes are no coarser than l-diversity
demands, and which kind was demanded: distinct (l values in a class), folk (no value above 1/l),
entropy or recursive from the side-car; else folk with the option `l`; else, without a side-car, the
largest l that the release satisfies. A class that could have been split but was not holds values
that forbid it: all worlds in which every part is l-diverse are impossible.
*Success*: the share of people whose value is the likeliest in the remaining worlds. Let A be the
event that all parts are l-diverse, x_iv the rows of part i with value v, a_i the size of part i,
n_v and s the counts of the class. The chance of v for a person of part i is

    (n_v / s - E[x_iv; A] / a_i) / (1 - P(A))

where all deals of the values of the class are equally likely; both terms are counted exactly. Parts
are people with equal values, or people whose label would be one step finer in one column; the split
that reveals most is used.
*Baseline*: guessing the commonest value of the class.
*Victims*: people guessed rightly with a chance above 1/l. Classes too large to count are guessed as
in the baseline; a remark says how many.
*Reference*: Wong, Fu, Wang and Pei, Minimality attack in privacy preserving data publishing, 2007.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import factorial, prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed, needed_quasi, needed_sensitive, reason_of
from sfumato.attack.classes import boxes
from sfumato.attack.finding import Finding, Rate, of_columns
from sfumato.attack.matching import fitting
from sfumato.errors import ParameterError, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.classes import Boxes
    from sfumato.data.schema.column import Column


NAME = "minimality"
# Counting worlds takes Python loops over exact integers; these two numbers bound the time.
_MOST_CLASSES = 2_000
_MOST_WAYS = 20_000
_ASKED = re.compile(
    r"((?P<kind>distinct|folk|entropy) (?P<l>[0-9]+)|recursive \((?P<c>[^,]+), (?P<deep>[0-9]+)\))"
    r"-diversity of (?P<column>.+)"
)


def run(case: Case) -> Finding:
    """Guess values from the worlds in which a minimal algorithm made this release."""
    original = needed(case.original, NAME, "the original, to score the guesses", "original")
    if case.release.buckets is not None:
        raise cannot_run(NAME, "the groups of an anatomy are not made by generalizing.")
    quasi = needed_quasi(case, NAME, original)
    columns = [column for column in needed_sensitive(case, NAME) if column.name in original.names]
    if not columns:
        raise cannot_run(NAME, "the original has no sensitive column of the release.")
    by_column: dict[str, Finding] = {}
    refused: dict[str, ParameterError] = {}
    for column in columns:
        try:
            by_column[column.name] = _attack_column(case, original, quasi, column)
        except ParameterError as error:  # the attack may still run on another column
            refused[column.name] = error
    if not by_column:
        raise next(iter(refused.values()))
    worst = of_columns(by_column)
    refusals = [f"Not of {name}: {reason_of(error)}" for name, error in refused.items()]
    return replace(worst, remarks=[*worst.remarks, *refusals])


@dataclass(frozen=True)
class Asked:
    """The kind of l-diversity that the release was made with, its l, and c of a recursive one."""

    kind: str
    least: int
    factor: Fraction = Fraction(1)

    def __str__(self) -> str:
        if self.kind == "recursive":
            return f"recursive ({self.factor}, {self.least})-diversity"
        return f"{self.kind} {self.least}-diversity"

    def fine(self, rows: Sequence[int]) -> bool:
        """Return whether a class with these numbers of rows satisfies it, in exact arithmetic."""
        size = sum(rows)
        match self.kind:
            case "distinct":
                return sum(count > 0 for count in rows) >= self.least
            case "entropy":  # n ln n - sum f ln f >= n ln l, as powers
                spent: int = prod(count**count for count in rows)
                # Integer powers instead of logarithms: the comparison is exact at the boundary.
                return bool(size**size >= self.least**size * spent)
            case "recursive":
                ranked = sorted(rows, reverse=True)
                return ranked[0] < self.factor * sum(ranked[self.least - 1 :])
            case _:
                return max(rows) * self.least <= size

    def most(self, size: int) -> int:
        """Return the most rows that one value can have in a class: every kind needs l values."""
        return size // self.least if self.kind == "folk" else size - self.least + 1


def asked_of(provenance: Mapping[str, Any], column: str) -> Asked | None:
    """Read the l-diversity of a column from a side-car; None if it has none."""
    for criterion in provenance.get("criteria") or ():
        match = _ASKED.fullmatch(str(criterion))
        if match and match["column"] == column:
            if match["kind"] is None:
                return Asked("recursive", int(match["deep"]), Fraction(match["c"]))
            return Asked(match["kind"], int(match["l"]))
    return None


def _shown(case: Case, members: Sequence[ClassMembers]) -> Asked:
    """Return the l-diversity that the owner supposes, else the largest that all classes have."""
    if case.options.l is not None:
        return Asked("folk", case.options.l)
    commonest = (member.truth.sum(axis=0).max() for member in members)
    sizes = (member.sizes.sum() for member in members)
    return Asked("folk", min(int(n // r) for n, r in zip(sizes, commonest, strict=True)))


@dataclass(frozen=True, eq=False)
class ClassMembers:
    """One class: who is in it by their exact values, and their real sensitive values.

    `leaves` has a row for each combination, `truth` its rows with each value of the class.
    """

    leaves: IntArray
    truth: IntArray
    place: int

    @property
    def sizes(self) -> IntArray:
        """The people of each combination."""
        sizes: IntArray = self.truth.sum(axis=1)
        return sizes


def _attack_column(
    case: Case, original: HeldTable, quasi: Sequence[Column], column: Column
) -> Finding:
    names = [column.name for column in quasi]
    asked = asked_of(case.release.provenance, column.name)
    if asked is None and case.options.l is None and "criteria" in case.release.provenance:
        raise cannot_run(
            NAME,
            f"the release was made without l-diversity of {column.name}, so its classes reveal "
            f"nothing about one. Give {option('l', metavar='L')}.",
        )
    real = original.counted([*names, column.name])
    released = boxes(case.release, quasi, [real])
    members = list(_members(released, real, column.name))
    if not members:
        raise cannot_run(NAME, "no class of the release is that of people of the original.")
    asked = asked or _shown(case, members)
    # l = 1 demands nothing, so no class was kept together by it.
    if asked.least < 2:
        raise cannot_run(
            NAME,
            f"some class has one {column.name} for more than half of its people, so the release "
            "has no l-diversity to reason from. Give the one that was required with "
            f"{option('l', metavar='L')}.",
        )
    right = guessed = 0.0
    victims, skipped, tried = 0.0, 0, 0
    # Evenly spread over all classes, and the same in every run.
    examined = members[:: max(len(members) // _MOST_CLASSES, 1)]
    for members_of_class in examined:
        tried += int(members_of_class.sizes.sum())
        common = members_of_class.truth.sum(axis=0)
        plain = _right(members_of_class.truth, common == common.max())
        guessed += plain
        chances = _posterior(members_of_class, released, asked)
        if chances is None:
            skipped += 1
            right += plain
            continue
        best = chances.max(axis=1, keepdims=True)
        right += _right(members_of_class.truth, chances == best)
        victims += float(
            members_of_class.truth[(chances == best) & (best > Fraction(1, asked.least))].sum()
        )
    remarks = [f"Supposed criterion: {asked} of {column.name}."]
    if skipped:
        remarks.append(
            f"{skipped:,} of {len(examined):,} classes reveal nothing, or are too large."
        )
    if len(examined) < len(members):
        remarks.append(f"{len(examined):,} of {len(members):,} classes were examined.")
    return Finding(
        attack=NAME,
        attacker=f"knows {', '.join(names)} of everybody, and that classes are as small as may be",
        meaning=f"People whose {column.name} is guessed right",
        success=Rate.share(right, tried),
        baseline=Rate.share(guessed, tried),
        victims=round(victims),
        remarks=remarks,
        rows=tried,
        reference="Wong et al. 2007",
    )


def _members(released: Boxes, real: Any, sensitive: str) -> Iterator[ClassMembers]:
    """Yield the people of each class that as many people of the original fit as it has rows."""
    points = released.locate(real)
    pairs = list(fitting(points, released))
    if not pairs:
        return
    mine = np.concatenate([matched for matched, _ in pairs])
    theirs = np.concatenate([their_classes for _, their_classes in pairs])
    order = np.argsort(theirs, kind="stable")
    mine, theirs = mine[order], theirs[order]
    is_complete = np.bincount(theirs, real.counts[mine], len(released)) == released.sizes
    values = real.codes[real.columns.index(sensitive)]
    starts = np.flatnonzero(np.diff(theirs, prepend=-1))
    ends = np.append(starts, len(theirs))[1:]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if not is_complete[theirs[start]]:
            continue
        inside = mine[start:end]
        where = np.stack([leaves[inside] for leaves in points], axis=1)
        leaves, part_number = np.unique(where, axis=0, return_inverse=True)
        present, number = np.unique(values[inside], return_inverse=True)
        truth = np.zeros((len(leaves), len(present)), dtype=np.int64)
        np.add.at(truth, (part_number.ravel(), number), real.counts[inside])
        yield ClassMembers(leaves, truth, int(theirs[start]))


def _right(truth: IntArray, guess: BoolArray) -> float:
    """Return how many people are guessed right; ties share the guess."""
    ties = np.broadcast_to(guess, truth.shape).sum(axis=-1, keepdims=True)
    return float((truth * guess / ties).sum())


def _posterior(members: ClassMembers, released: Boxes, asked: Asked) -> NDArray[np.object_] | None:
    """Return the chance of each value for each combination, from the split that reveals most."""
    totals = members.truth.sum(axis=0)
    prior = totals.max() / totals.sum()
    best, sharpest = None, float(prior)
    for parting in _partings(members, released):
        count = int(parting.max()) + 1
        sizes = np.bincount(parting, members.sizes, count).astype(np.int64)
        if count < 2 or sizes.min() < asked.least:
            continue  # a part smaller than l was never a possible split
        chances = left_possible(totals.tolist(), sizes.tolist(), asked)
        if chances is not None and float(chances.max()) > sharpest:
            best, sharpest = chances[parting], float(chances.max())
    return best


def _partings(members: ClassMembers, released: Boxes) -> Iterator[IntArray]:
    """Yield ways to split a class: into equal people, or one step finer in one column."""
    yield np.arange(len(members.leaves))
    for number, column in enumerate(released.columns):
        taxonomy = column.taxonomy
        codes = taxonomy.codes[members.leaves[:, number]]
        # The lowest level at which all people of the class share a label: one step finer splits it.
        shared = (codes == codes[:1]).all(axis=0)
        level = int(np.argmax(shared))
        if level > 0:
            yield np.unique(codes[:, level - 1], return_inverse=True)[1]


def left_possible(
    totals: Sequence[int], sizes: Sequence[int], asked: Asked
) -> NDArray[np.object_] | None:
    """Return the chance of each value in each part, given that not all parts are l-diverse.

    All deals of the values to the rows are counted exactly, by the number of rows of each value in
    each part. Returns None if there are too many, or if every deal is l-diverse.
    """
    # The multinomial coefficient: the number of deals of the values to the rows of the class.
    every = factorial(sum(totals)) // prod(map(factorial, totals))
    # `fine` is P(A) times all deals, `expected` is E[x_iv; A] times all deals. Each part in turn
    # comes last, so that its numbers are what the other parts leave.
    fine, expected = 0, np.zeros((len(sizes), len(totals)), dtype=object)
    for last in range(len(sizes)):
        other_sizes = [size for number, size in enumerate(sizes) if number != last]
        remainders = _remainders(tuple(totals), other_sizes, asked)
        if remainders is None:
            return None
        fine = 0
        for remainder, weight in remainders.items():
            if asked.fine(remainder):
                deals = weight * _deals(remainder)
                fine += deals
                for value, rows in enumerate(remainder):
                    expected[last, value] += deals * rows
    # Every deal is l-diverse, so the algorithm would have split the class.
    if fine == every:
        return None
    rows = sum(totals)
    chances = np.empty(expected.shape, dtype=object)
    for part_number, size in enumerate(sizes):
        for value, total in enumerate(totals):
            chance = Fraction(total, rows) - Fraction(expected[part_number, value], every * size)
            chances[part_number, value] = chance / (1 - Fraction(fine, every))
    return chances


def _remainders(
    totals: tuple[int, ...], sizes: Sequence[int], asked: Asked
) -> dict[tuple[int, ...], int] | None:
    """Return what l-diverse parts can leave of the values, each with its number of deals."""
    remainders = {totals: 1}
    for size in sizes:
        next_remainders: dict[tuple[int, ...], int] = {}
        for remainder, weight in remainders.items():
            tops = [range(min(rows, asked.most(size)) + 1) for rows in remainder]
            if prod(map(len, tops)) > _MOST_WAYS:
                return None
            for drawn in product(*tops):
                if sum(drawn) == size and asked.fine(drawn):
                    key = tuple(a - b for a, b in zip(remainder, drawn, strict=True))
                    next_remainders[key] = next_remainders.get(key, 0) + weight * _deals(drawn)
        if len(next_remainders) > _MOST_WAYS:
            return None
        remainders = next_remainders
    return remainders


def _deals(counts: Sequence[int]) -> int:
    return factorial(sum(counts)) // prod(map(factorial, counts))
