"""Partition searches against references that share no code with them, on random small tables.

The references handle rows one by one, recursively or by plain enumeration, and re-measure every
release from the rows it gives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import log
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.slices import drawn

from sfumato.anonymize.criteria import (
    Criterion,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    RecursiveDiversity,
    TCloseness,
)
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.partition import Partition
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.search import run
from sfumato.anonymize.search.refine import refine
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.hierarchy import Taxonomy
from sfumato.errors import CriterionError
from sfumato.release.recoding import ByColumn, ByRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Row = tuple[int, ...]
    Group = list[Row]
    Passes = Callable[[Group], bool]


@dataclass
class Case:
    """A random table: rows of leaf codes, the last column sensitive; numbers in some columns."""

    numbers: list[list[int] | None]  # the values of a numeric column, by code
    ways: list[list[list[int]]]  # column, leaf, level -> label; below the root
    rows: list[Row]

    @classmethod
    def draw(cls, seed: int, *, most_rows: int, most_leaves: int = 6) -> Case:
        generator = np.random.default_rng(seed)
        columns = int(generator.integers(1, 4))
        numbers: list[list[int] | None] = []
        ways = []
        for _ in range(columns):
            leaves = int(generator.integers(2, most_leaves + 1))
            half = np.sort(generator.integers(0, 3, leaves))
            ways.append([[leaf, int(half[leaf])] for leaf in range(leaves)])
            spread = np.cumsum(generator.integers(1, 5, leaves)).tolist()
            numbers.append(spread if generator.random() < 0.5 else None)
        count = int(generator.integers(2, most_rows + 1))
        sizes = [*(len(way) for way in ways), 3]
        skewed = generator.random((count, columns + 1)) ** generator.choice([1.0, 2.0])
        cells = (skewed * np.array(sizes)).astype(int)
        return cls(numbers, ways, [tuple(row) for row in cells.tolist()])

    @property
    def columns(self) -> int:
        return len(self.ways)

    def problem(self, *criteria: Criterion, limit: str = "0") -> Problem:
        names = [f"q{place}" for place in range(self.columns)]
        axes, codes = [], []
        for place, name in enumerate([*names, "s"]):
            column = np.array([row[place] for row in self.rows])
            present, coded = np.unique(column, return_inverse=True)
            values: list[object] = [self.value(place, code) for code in present.tolist()]
            axes.append(Listed(name, pa.array(values), declared=False))
            codes.append(coded.astype(np.int32))
        groups = group(codes, [axis.size for axis in axes], np.ones(len(self.rows), dtype=np.int64))
        first = groups.representatives
        table = Frequencies(tuple(axes), tuple(code[first] for code in codes), groups.counts)
        taxonomies = {name: self.taxonomy(place) for place, name in enumerate(names)}
        return Problem.build(table, taxonomies, names, criteria, suppression_limit=limit)

    def value(self, place: int, code: int) -> int | str:
        numbers = self.numbers[place] if place < self.columns else None
        return "abcdefgh"[code] if numbers is None else numbers[code]

    def taxonomy(self, place: int) -> Taxonomy:
        leaves = [self.value(place, code) for code in range(len(self.ways[place]))]
        return Taxonomy.build(leaves, [[f"<{way[1]}>" for way in self.ways[place]]], missing=False)

    def level(self, place: int, codes: set[int]) -> int:
        """The level of the lowest common ancestor."""
        if len(codes) == 1:
            return 0
        return 1 if len({self.ways[place][code][1] for code in codes}) == 1 else 2


def passing(criteria: Sequence[Criterion], rows: Sequence[Row]) -> Passes:
    """The criteria once more, row by row."""
    total = Counter(row[-1] for row in rows)

    def passes(group: Group) -> bool:
        counts = Counter(row[-1] for row in group)
        ranked = sorted(counts.values(), reverse=True)
        size = len(group)
        for one in criteria:
            match one:
                case KAnonymity():
                    holds = size >= one.k
                case DistinctDiversity():
                    holds = len(counts) >= one.l
                case EntropyDiversity():
                    entropy = -sum(c / size * log(c / size) for c in ranked)
                    holds = entropy >= log(one.l) - 1e-9
                case RecursiveDiversity():
                    holds = ranked[0] < Fraction(str(one.c)) * sum(ranked[one.l - 1 :])
                case TCloseness():
                    gaps = (
                        abs(Fraction(counts[v], size) - Fraction(total[v], len(rows)))
                        for v in total
                    )
                    holds = sum(gaps) / 2 <= Fraction(str(one.t))
                case _:
                    raise AssertionError
            if not holds:
                return False
        return True

    return passes


def mondrian(case: Case, passes: Passes) -> list[Group]:
    """Strict Mondrian, part by part: widest column with an allowable cut, then balance."""

    def line(place: int, code: int) -> int:
        numbers = case.numbers[place]
        return code if numbers is None else numbers[code]

    def width(place: int, group: Group) -> int:
        values = [line(place, row[place]) for row in group]
        return max(values) - min(values)

    spans = [width(place, case.rows) or 1 for place in range(case.columns)]

    def allowable(place: int, group: Group) -> tuple[int, Group, Group] | None:
        cuts = []
        for cut in sorted({row[place] for row in group})[:-1]:
            left = [row for row in group if row[place] <= cut]
            right = [row for row in group if row[place] > cut]
            cuts.append((-min(len(left), len(right)), cut, left, right))
        for balance, _, left, right in sorted(cuts)[:8]:
            if passes(left) and passes(right):
                return -balance, left, right
        return None

    def part(group: Group) -> list[Group]:
        found = []
        for place in range(case.columns):
            cut = allowable(place, group)
            if cut is not None:
                wide = Fraction(width(place, group), spans[place])
                found.append((-wide, -cut[0], place, cut[1], cut[2]))
        if not found:
            return [group]
        *_, left, right = min(found, key=lambda one: one[:3])
        return [*part(left), *part(right)]

    return part(case.rows)


def groups_of(case: Case, found: Partition) -> list[Counter[Row]]:
    """The groups as counted combinations of codes, from the shares."""
    shares = found.release.shares
    combinations_ = list(zip(*(leaves.tolist() for leaves in shares.points.leaves), strict=True))
    groups: dict[int, Counter[Row]] = defaultdict(Counter)
    for point, rows, number in zip(
        shares.point.tolist(), shares.rows.tolist(), shares.group.tolist(), strict=True
    ):
        groups[number][combinations_[point]] += rows
    assert sum(groups.values(), Counter()) + Counter() == Counter(r[:-1] for r in case.rows)
    return list(groups.values())


def released(case: Case, found: Partition) -> list[tuple[Row, tuple[str, ...]]]:
    """Every released row with its labels, read from the recoding alone."""
    recoding = found.recoding()
    codes = [
        dict(zip(one.values.to_pylist(), one.codes.to_pylist(), strict=True))
        for one in recoding.maps
    ]
    keyed = [
        (tuple(codes[p][case.value(p, row[p])] for p in range(case.columns)), row)
        for row in sorted(case.rows)
    ]
    if isinstance(recoding, ByColumn):
        gone = set(zip(*(one.to_pylist() for one in recoding.suppressed.columns), strict=True))
        texts = [
            dict(zip(one.codes.to_pylist(), one.labels.to_pylist(), strict=True))
            for one in recoding.maps
        ]
        return [
            (row, tuple(texts[p][code] for p, code in enumerate(key)))
            for key, row in keyed
            if key not in gone
        ]
    assert isinstance(recoding, ByRow)
    table = [list(line.values()) for line in recoding.shares.to_pylist()]
    left: dict[Row, list[tuple[str, ...]]] = defaultdict(list)
    for line in table:
        key, rows, labels = line[: case.columns], line[case.columns], line[case.columns + 1 :]
        left[tuple(key)] += [tuple(labels)] * rows
    return [(row, left[key].pop()) for key, row in keyed if left[key]]


def fits(case: Case, place: int, code: int, label: str) -> bool:
    """Whether a label may stand for a value."""
    value = case.value(place, code)
    if label in ("*", str(value), f"<{case.ways[place][code][1]}>"):
        return True
    if label.startswith("["):
        low, high = label[1:-1].split(", ")
        return int(low) <= int(value) <= int(high)
    return label.startswith("{") and str(value) in label[1:-1].split(", ")


def check_release(case: Case, found: Partition, passes: Passes) -> None:
    """Labels fit their rows, classes pass, and what is said of the release is so."""
    pairs = released(case, found)
    classes: dict[tuple[str, ...], Group] = defaultdict(list)
    for row, labels in pairs:
        assert all(fits(case, place, row[place], one) for place, one in enumerate(labels))
        classes[labels].append(row)
    assert all(map(passes, classes.values()))
    assert len(pairs) == found.released == found.rows - found.suppressed
    assert len(classes) == found.classes
    squares = sum(len(one) ** 2 for one in classes.values()) + found.suppressed * found.rows
    assert found.cost["discernability"] == squares


CRITERIA: list[tuple[Criterion, ...]] = [
    (KAnonymity(2),),
    (KAnonymity(3),),
    (KAnonymity(2), DistinctDiversity(2, of="s")),
    (KAnonymity(2), EntropyDiversity(2, of="s")),
    (RecursiveDiversity(2, of="s", c="1.5"),),
    (KAnonymity(2), TCloseness("0.3", of="s")),
]


@drawn(240)
def test_mondrian_is_the_recursive_reference(seed: int) -> None:
    case = Case.draw(seed, most_rows=40, most_leaves=8)
    criteria = CRITERIA[seed % len(CRITERIA)]
    passes = passing(criteria, case.rows)
    if not passes(case.rows):
        with pytest.raises(CriterionError):
            run(case.problem(*criteria), "mondrian")
        return
    found = run(case.problem(*criteria), "mondrian")
    assert isinstance(found, Partition)
    wanted = [Counter(row[:-1] for row in one) for one in mondrian(case, passes)]
    mine = groups_of(case, found)
    assert sorted(map(repr, map(sorted, (one.items() for one in mine)))) == sorted(
        map(repr, map(sorted, (one.items() for one in wanted)))
    )
    assert found.classes == len(wanted)
    check_release(case, found, passes)


@drawn(60)
def test_mondrian_keeps_the_bounds_of_the_paper(seed: int) -> None:
    case = Case.draw(seed, most_rows=120)
    k = 2 + seed % 4
    if len(case.rows) < k:
        return
    strict = run(case.problem(KAnonymity(k)), "mondrian")
    copies = max(Counter(row[:-1] for row in case.rows).values())
    assert isinstance(strict, Partition)
    sizes = strict.release.sizes
    assert sizes.min() >= k
    assert sizes.max() <= 2 * case.columns * (k - 1) + copies
    relaxed = run(case.problem(KAnonymity(k)), "mondrian-relaxed")
    assert isinstance(relaxed, Partition)
    groups_of(case, relaxed)
    assert relaxed.release.shares.sizes.min() >= k
    assert relaxed.release.shares.sizes.max() <= 2 * k - 1
    check_release(case, relaxed, passing([KAnonymity(k)], case.rows))


@drawn(60)
def test_relaxed_mondrian_reaches_every_criterion(seed: int) -> None:
    case = Case.draw(1000 + seed, most_rows=60)
    criteria = CRITERIA[seed % len(CRITERIA)]
    passes = passing(criteria, case.rows)
    if passes(case.rows):
        found = run(case.problem(*criteria), "mondrian-relaxed")
        assert isinstance(found, Partition)
        check_release(case, found, passes)


def best_intervals(case: Case, passes: Passes, allowed: int) -> int | None:
    """The least discernability over all sets of cuts."""
    splits = [
        (place, code)
        for place in range(case.columns)
        for code in sorted({row[place] for row in case.rows})[1:]
    ]
    least = None
    for chosen in product([False, True], repeat=len(splits)):
        cuts = [split for split, taken in zip(splits, chosen, strict=True) if taken]
        classes: dict[tuple[int, ...], Group] = defaultdict(list)
        for row in case.rows:
            key = tuple(
                sum(row[place] >= code for at, code in cuts if at == place)
                for place in range(case.columns)
            )
            classes[key].append(row)
        gone = sum(len(one) for one in classes.values() if not passes(one))
        if gone <= allowed:
            kept = sum(len(one) ** 2 for one in classes.values() if passes(one))
            cost = kept + gone * len(case.rows)
            least = cost if least is None else min(least, cost)
    return least


@drawn(120)
def test_k_optimize_is_the_best_of_all_sets_of_cuts(seed: int) -> None:
    case = Case.draw(seed, most_rows=25, most_leaves=4)
    criteria, limit = CRITERIA[seed % len(CRITERIA)], ("0", "0.2")[seed // 6 % 2]
    problem = case.problem(*criteria, limit=limit)
    passes = passing(criteria, case.rows)
    least = best_intervals(case, passes, problem.allowed)
    if least is None:
        with pytest.raises(CriterionError):
            run(problem, "k-optimize")
        return
    found = run(problem, "k-optimize")
    assert isinstance(found, Partition)
    assert found.cost["discernability"] == least == found.bound
    assert found.optimal
    assert found.suppressed <= problem.allowed
    check_release(case, found, passes)


def fewest(rows: Sequence[Row], k: int, price: Callable[[Group], int]) -> int:
    """The least price over all groupings into groups of k to 2k - 1 rows."""

    @cache
    def best(left: frozenset[int]) -> float:
        if not left:
            return 0
        first, *rest = sorted(left)
        return min(
            (
                best(left - {first, *others}) + price([rows[first], *(rows[i] for i in others)])
                for size in range(k, min(2 * k, len(left) + 1))
                for others in combinations(rest, size - 1)
            ),
            default=float("inf"),
        )

    return int(best(frozenset(range(len(rows)))))


@drawn(150)
def test_approximations_stay_within_their_factors(seed: int) -> None:
    case = Case.draw(seed, most_rows=9, most_leaves=5)
    k = 1 + seed % 3
    if len(case.rows) < k:
        return

    def starred(group: Group) -> int:
        columns = range(case.columns)
        return len(group) * sum(len({row[place] for row in group}) > 1 for place in columns)

    def steps(group: Group) -> int:
        columns = range(case.columns)
        return len(group) * sum(case.level(p, {row[p] for row in group}) for p in columns)

    problem, passes = case.problem(KAnonymity(k)), passing([KAnonymity(k)], case.rows)
    least = fewest(tuple(case.rows), k, starred)
    for name in ("meyerson-williams", "aggarwal-suppress"):
        found = run(problem, name)
        assert isinstance(found, Partition)
        assert found.factor is not None
        assert least <= found.starred <= found.factor * least
        groups_of(case, found)
        check_release(case, found, passes)
    found = run(problem, "aggarwal-generalize")
    assert isinstance(found, Partition)
    assert found.factor is not None
    taken = round(found.cost["precision"] * len(case.rows) * case.columns * 2)
    lowest = fewest(tuple(case.rows), k, steps)
    assert lowest <= taken <= found.factor * lowest
    assert found.release.shares.sizes.max() <= max(k, 3 * k - 3)
    check_release(case, found, passes)


@drawn(60)
def test_refinement_releases_more_and_still_passes(seed: int) -> None:
    case = Case.draw(seed, most_rows=60)
    criteria = CRITERIA[seed % len(CRITERIA)]
    passes = passing(criteria, case.rows)
    cost = ("loss", "discernability")[seed // 6 % 2]
    try:
        before = run(case.problem(*criteria, limit="0.6"), "optimal", cost=cost)
    except CriterionError:
        return
    assert isinstance(before, Generalization)
    found = refine(before, cost=cost)
    assert found.gain >= 0
    assert found.outcome.cost[cost] == pytest.approx(before.cost[cost] - found.gain)
    assert found.outcome.suppressed <= before.suppressed
    assert (found.rounds == 0) == (found.outcome.suppressed == before.suppressed)
    check_release(case, found.outcome, passes)
