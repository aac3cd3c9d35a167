"""Minimality: an algorithm that stops as soon as it may says, by not stopping, what it met.

*Attacker*: knows everybody's quasi-identifiers, that classes are made no coarser than l-diversity
asks for, and which was asked for: distinct (l values in a class), folk (no value above 1/l),
entropy or recursive as the side-car says, else folk with the `l` given, or, where no side-car says
what was asked for, the largest that the release shows. A class that could have been parted into
smaller ones, and was not, holds values that forbid it: every world in which all parts were
l-diverse is impossible.
*Success*: the share of people whose value is guessed right by what is likeliest in the worlds that
are left. With A the event that all parts are l-diverse, x_iv the rows of part i with value v, a_i
its size, n_v and s those of the class, the chance of v for a person of part i is

    (n_v / s - E[x_iv; A] / a_i) / (1 - P(A))

where all ways to deal the values of the class out are alike; both are counted exactly. Parts are
people with equal values, or those whose label would be one step finer in one column; of these the
one that tells most.
*Baseline*: guessing the commonest value of the class.
*Victims*: people who are guessed with a chance above 1/l, and rightly. Classes too large to be
counted through are guessed as in the baseline; remarks say how many.
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
_MOST_CLASSES = 2_000
_MOST_WAYS = 20_000
_ASKED = re.compile(
    r"((?P<kind>distinct|folk|entropy) (?P<l>[0-9]+)|recursive \((?P<c>[^,]+), (?P<deep>[0-9]+)\))"
    r"-diversity of (?P<column>.+)"
)


def run(case: Case) -> Finding:
    """Guess by the worlds that a minimal algorithm leaves."""
    original = needed(case.original, NAME, "the original, to tell who is right", "original")
    if case.release.buckets is not None:
        raise cannot_run(NAME, "the groups of an anatomy are not made by generalizing.")
    quasi = needed_quasi(case, NAME, original)
    columns = [one for one in needed_sensitive(case, NAME) if one.name in original.names]
    if not columns:
        raise cannot_run(NAME, "the original has no sensitive column of the release.")
    found: dict[str, Finding] = {}
    refused: dict[str, ParameterError] = {}
    for column in columns:
        try:
            found[column.name] = _attacked(case, original, quasi, column)
        except ParameterError as error:  # of one column of several
            refused[column.name] = error
    if not found:
        raise next(iter(refused.values()))
    worst = of_columns(found)
    left = [f"Not of {name}: {reason_of(error)}" for name, error in refused.items()]
    return replace(worst, remarks=[*worst.remarks, *left])


@dataclass(frozen=True)
class Asked:
    """The diversity that was asked for, its kind and l, and of a recursive one its c."""

    kind: str
    least: int
    factor: Fraction = Fraction(1)

    def __str__(self) -> str:
        if self.kind == "recursive":
            return f"recursive ({self.factor}, {self.least})-diversity"
        return f"{self.kind} {self.least}-diversity"

    def fine(self, rows: Sequence[int]) -> bool:
        """Whether a class with so many rows of each value satisfies it, exactly."""
        size = sum(rows)
        match self.kind:
            case "distinct":
                return sum(one > 0 for one in rows) >= self.least
            case "entropy":  # n ln n - sum f ln f >= n ln l, as powers
                spent: int = prod(one**one for one in rows)
                return bool(size**size >= self.least**size * spent)
            case "recursive":
                ranked = sorted(rows, reverse=True)
                return ranked[0] < self.factor * sum(ranked[self.least - 1 :])
            case _:
                return max(rows) * self.least <= size

    def most(self, size: int) -> int:
        """The most rows of one value in a class of some size: all kinds need l values."""
        return size // self.least if self.kind == "folk" else size - self.least + 1


def asked_of(told: Mapping[str, Any], column: str) -> Asked | None:
    """What the side-car says was asked for of a column; None where it says nothing of it."""
    for criterion in told.get("criteria") or ():
        found = _ASKED.fullmatch(str(criterion))
        if found and found["column"] == column:
            if found["kind"] is None:
                return Asked("recursive", int(found["deep"]), Fraction(found["c"]))
            return Asked(found["kind"], int(found["l"]))
    return None


def _shown(case: Case, members: Sequence[ClassMembers]) -> Asked:
    """What is supposed, or the most that all classes satisfy."""
    if case.options.l is not None:
        return Asked("folk", case.options.l)
    commonest = (one.truth.sum(axis=0).max() for one in members)
    sizes = (one.sizes.sum() for one in members)
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


def _attacked(case: Case, original: HeldTable, quasi: Sequence[Column], column: Column) -> Finding:
    names = [one.name for one in quasi]
    asked = asked_of(case.release.told, column.name)
    if asked is None and case.options.l is None and "criteria" in case.release.told:
        raise cannot_run(
            NAME,
            f"no l-diversity of {column.name} was asked for, as the side-car says, so that no "
            f"class is as it is because of one. Give {option('l', metavar='L')}.",
        )
    real = original.counted([*names, column.name])
    found = boxes(case.release, quasi, [real])
    members = list(_members(found, real, column.name))
    if not members:
        raise cannot_run(NAME, "no class of the release is that of people of the original.")
    asked = asked or _shown(case, members)
    if asked.least < 2:
        raise cannot_run(
            NAME,
            f"some class has one {column.name} for more than half of its people, so no l-diversity "
            "was asked for that the attacker could reason from. Give it with "
            f"{option('l', metavar='L')}.",
        )
    right = guessed = 0.0
    victims, skipped, tried = 0.0, 0, 0
    taken = members[:: max(len(members) // _MOST_CLASSES, 1)]
    for one in taken:
        tried += int(one.sizes.sum())
        common = one.truth.sum(axis=0)
        plain = _right(one.truth, common == common.max())
        guessed += plain
        chances = _posterior(one, found, asked)
        if chances is None:
            skipped += 1
            right += plain
            continue
        best = chances.max(axis=1, keepdims=True)
        right += _right(one.truth, chances == best)
        victims += float(one.truth[(chances == best) & (best > Fraction(1, asked.least))].sum())
    told = [f"Supposed to be asked for: {asked} of {column.name}."]
    if skipped:
        told.append(f"{skipped:,} of {len(taken):,} classes tell nothing, or are too large.")
    if len(taken) < len(members):
        told.append(f"{len(taken):,} of {len(members):,} classes were looked at.")
    return Finding(
        attack=NAME,
        attacker=f"knows {', '.join(names)} of everybody, and that classes are as small as may be",
        meaning=f"People whose {column.name} is guessed right",
        success=Rate.share(right, tried),
        baseline=Rate.share(guessed, tried),
        victims=round(victims),
        remarks=told,
        rows=tried,
        reference="Wong et al. 2007",
    )


def _members(found: Boxes, real: Any, sensitive: str) -> Iterator[ClassMembers]:
    """The people of each class that is whole: as many of the original fit it as it has rows."""
    points = found.locate(real)
    pairs = list(fitting(points, found))
    if not pairs:
        return
    mine = np.concatenate([one for one, _ in pairs])
    theirs = np.concatenate([other for _, other in pairs])
    order = np.argsort(theirs, kind="stable")
    mine, theirs = mine[order], theirs[order]
    whole = np.bincount(theirs, real.counts[mine], len(found)) == found.sizes
    values = real.codes[real.columns.index(sensitive)]
    starts = np.flatnonzero(np.diff(theirs, prepend=-1))
    ends = np.append(starts, len(theirs))[1:]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if not whole[theirs[start]]:
            continue
        inside = mine[start:end]
        where = np.stack([leaves[inside] for leaves in points], axis=1)
        leaves, part = np.unique(where, axis=0, return_inverse=True)
        present, number = np.unique(values[inside], return_inverse=True)
        truth = np.zeros((len(leaves), len(present)), dtype=np.int64)
        np.add.at(truth, (part.ravel(), number), real.counts[inside])
        yield ClassMembers(leaves, truth, int(theirs[start]))


def _right(truth: IntArray, guess: BoolArray) -> float:
    """How many people are guessed right; equals share the guess."""
    ties = np.broadcast_to(guess, truth.shape).sum(axis=-1, keepdims=True)
    return float((truth * guess / ties).sum())


def _posterior(one: ClassMembers, found: Boxes, asked: Asked) -> NDArray[np.object_] | None:
    """The chance of each value for each combination, by the parting that tells most."""
    totals = one.truth.sum(axis=0)
    prior = totals.max() / totals.sum()
    best, sharpest = None, float(prior)
    for parts in _partings(one, found):
        count = int(parts.max()) + 1
        sizes = np.bincount(parts, one.sizes, count).astype(np.int64)
        if count < 2 or sizes.min() < asked.least:
            continue  # it could never have been parted so, and says nothing
        chances = left_possible(totals.tolist(), sizes.tolist(), asked)
        if chances is not None and float(chances.max()) > sharpest:
            best, sharpest = chances[parts], float(chances.max())
    return best


def _partings(one: ClassMembers, found: Boxes) -> Iterator[IntArray]:
    """Ways to part a class: into equal people, or one step finer in one column."""
    yield np.arange(len(one.leaves))
    for place, column in enumerate(found.columns):
        taxonomy = column.taxonomy
        codes = taxonomy.codes[one.leaves[:, place]]
        shared = (codes == codes[:1]).all(axis=0)
        level = int(np.argmax(shared))
        if level > 0:
            yield np.unique(codes[:, level - 1], return_inverse=True)[1]


def left_possible(
    totals: Sequence[int], sizes: Sequence[int], asked: Asked
) -> NDArray[np.object_] | None:
    """The chance of each value in each part when not all parts are l-diverse; None if too many.

    All deals of the values to the rows are counted by how many rows of each part have each value.
    """
    every = factorial(sum(totals)) // prod(map(factorial, totals))
    fine, expected = 0, np.zeros((len(sizes), len(totals)), dtype=object)
    for last in range(len(sizes)):
        others = [size for part, size in enumerate(sizes) if part != last]
        ways = _ways(tuple(totals), others, asked)
        if ways is None:
            return None
        fine = 0
        for rest, weight in ways.items():
            if asked.fine(rest):
                deals = weight * _deals(rest)
                fine += deals
                for value, rows in enumerate(rest):
                    expected[last, value] += deals * rows
    if fine == every:
        return None  # such a class is never made
    rows = sum(totals)
    chances = np.empty(expected.shape, dtype=object)
    for part, size in enumerate(sizes):
        for value, total in enumerate(totals):
            told = Fraction(total, rows) - Fraction(expected[part, value], every * size)
            chances[part, value] = told / (1 - Fraction(fine, every))
    return chances


def _ways(
    totals: tuple[int, ...], sizes: Sequence[int], asked: Asked
) -> dict[tuple[int, ...], int] | None:
    """What is left of the values after l-diverse parts, with the number of deals that leave it."""
    left = {totals: 1}
    for size in sizes:
        found: dict[tuple[int, ...], int] = {}
        for rest, weight in left.items():
            tops = [range(min(rows, asked.most(size)) + 1) for rows in rest]
            if prod(map(len, tops)) > _MOST_WAYS:
                return None
            for taken in product(*tops):
                if sum(taken) == size and asked.fine(taken):
                    key = tuple(a - b for a, b in zip(rest, taken, strict=True))
                    found[key] = found.get(key, 0) + weight * _deals(taken)
        if len(found) > _MOST_WAYS:
            return None
        left = found
    return left


def _deals(taken: Sequence[int]) -> int:
    return factorial(sum(taken)) // prod(map(factorial, taken))
