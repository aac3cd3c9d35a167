"""Full-domain searches against plain enumeration of random tables, hierarchies and criteria.

The oracle shares no code with the searches: it generalizes rows one by one with dictionaries and
compares fractions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise, product
from math import log, log2, prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from sfumato.anonymize.cost import named
from sfumato.anonymize.criteria import (
    BetaLikeness,
    Criterion,
    DeltaDisclosure,
    DeltaPresence,
    DistinctDiversity,
    EntropyDiversity,
    FolkDiversity,
    KAnonymity,
    KMap,
    RecursiveDiversity,
    TCloseness,
)
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.search import run
from sfumato.anonymize.search.full_domain import walk
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.hierarchy import Taxonomy
from sfumato.errors import CriterionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Levels = tuple[int, ...]
    Row = tuple[int, ...]
    Class = list[Row]

TOLERANCE = 1e-9
LABELS = "abcdefgh"


@dataclass
class Case:
    """A random table: quasi columns, then a sensitive one; and a population of quasi columns."""

    ways: list[list[list[int]]]  # column, leaf, level -> label
    tree: list[list[int]]  # of the sensitive column
    rows: list[Row]
    population: list[Row]
    criteria: list[Criterion]
    limit: Fraction

    @property
    def width(self) -> int:
        return len(self.ways)

    @property
    def allowed(self) -> int:
        return int(self.limit * len(self.rows))

    def label(self, row: Row, levels: Levels) -> Row:
        return tuple(self.ways[i][row[i]][level] for i, level in enumerate(levels))

    def group(self, levels: Levels) -> dict[Row, Class]:
        groups: dict[Row, Class] = defaultdict(list)
        for row in self.rows:
            groups[self.label(row, levels)].append(row)
        return groups

    def people(self, levels: Levels) -> Counter[Row]:
        return Counter(self.label(row, levels) for row in self.population)

    @cached_property
    def nodes(self) -> list[Levels]:
        return list(product(*(range(len(way[0])) for way in self.ways)))

    @cached_property
    def suppressed(self) -> dict[Levels, int]:
        """The rows suppressed at each node."""
        return {levels: self._suppressed(levels) for levels in self.nodes}

    def _suppressed(self, levels: Levels) -> int:
        people, groups = self.people(levels), self.group(levels)
        absent = sum(count for label, count in people.items() if label not in groups)
        return sum(
            len(rows)
            for label, rows in groups.items()
            if not all(passes(c, rows, self, people[label], absent) for c in self.criteria)
        )

    @cached_property
    def admissible(self) -> list[Levels]:
        return [levels for levels in self.nodes if self.suppressed[levels] <= self.allowed]

    def problem(self) -> Problem:
        names = [f"q{i}" for i in range(self.width)]
        sizes = [len(way) for way in self.ways]
        taxonomies = {name: taxonomy(way, name) for name, way in zip(names, self.ways, strict=True)}
        taxonomies["s"] = taxonomy(self.tree, "s")
        table = counted([*names, "s"], [*sizes, len(self.tree)], self.rows)
        population = counted(names, sizes, self.population)
        return Problem.build(
            table,
            taxonomies,
            names,
            self.criteria,
            suppression_limit=self.limit,
            population=population if any(c.compares_population for c in self.criteria) else None,
        )


def passes(criterion: Criterion, rows: Class, case: Case, people: int, absent: int) -> bool:
    """Each criterion from its definition."""
    counts = Counter(row[-1] for row in rows)
    original = Counter(row[-1] for row in case.rows)
    size = len(rows)
    match criterion:
        case KAnonymity(k=k):
            return size >= k
        case KMap(k=k):
            return people >= k
        case DistinctDiversity(l=least):
            return len(counts) >= least
        case EntropyDiversity(l=least):
            spent: int = prod(f**f for f in counts.values())
            return bool(spent * least**size <= size**size)
        case FolkDiversity(l=least):
            return least * max(counts.values()) <= size
        case RecursiveDiversity(l=least, c=c):
            ranked = sorted(counts.values(), reverse=True)
            return ranked[0] < Fraction(str(c)) * sum(ranked[least - 1 :])
        case TCloseness(t=t, distance=distance):
            p = {v: Fraction(counts[v], size) for v in original}
            q = {v: Fraction(original[v], len(case.rows)) for v in original}
            return DISTANCES[distance](p, q, case.tree) <= Fraction(str(t))
        case DeltaDisclosure(delta=delta):
            return all(
                v in counts
                and abs(log(counts[v] / size * len(case.rows) / original[v]))
                < float(Fraction(delta))
                for v in original
            )
        case BetaLikeness(beta=beta):
            return all(
                Fraction(counts[v] * len(case.rows), size * original[v]) - 1 <= Fraction(str(beta))
                for v in original
            )
        case DeltaPresence(minimum=low, maximum=high):
            known_absent = Fraction(str(low)) > 0 and absent > 0
            return (
                not known_absent
                and people > 0
                and Fraction(str(low)) <= Fraction(size, people) <= Fraction(str(high))
            )
    raise AssertionError(criterion)


Shares = dict[int, Fraction]


def equal_distance(p: Shares, q: Shares, tree: list[list[int]]) -> Fraction:
    del tree
    return sum((abs(p[v] - q[v]) for v in q), Fraction(0)) / 2


def ordered_distance(p: Shares, q: Shares, tree: list[list[int]]) -> Fraction:
    del tree
    total = gap = Fraction(0)
    for value in sorted(q):
        gap += p[value] - q[value]
        total += abs(gap)
    return total / max(len(q) - 1, 1)


def tree_distance(p: Shares, q: Shares, tree: list[list[int]]) -> Fraction:
    height, total = len(tree[0]) - 1, Fraction(0)
    for level in range(1, height + 1):
        for label in {way[level] for way in tree}:
            children = {way[level - 1] for way in tree if way[level] == label}
            extra = [
                sum((p[v] - q[v] for v in q if tree[v][level - 1] == child), Fraction(0))
                for child in children
            ]
            above = sum((e for e in extra if e > 0), Fraction(0))
            under = -sum((e for e in extra if e < 0), Fraction(0))
            total += Fraction(level, height) * min(above, under)
    return total


DISTANCES: dict[str, Callable[[Shares, Shares, list[list[int]]], Fraction]] = {
    "equal": equal_distance,
    "ordered": ordered_distance,
    "hierarchy": tree_distance,
}


def cost_of(case: Case, levels: Levels, name: str) -> float:
    """Each cost from its definition, for an admissible node."""
    people, groups = case.people(levels), case.group(levels)
    absent = sum(count for label, count in people.items() if label not in groups)
    kept = [
        rows
        for label, rows in groups.items()
        if all(passes(c, rows, case, people[label], absent) for c in case.criteria)
    ]
    total, gone = len(case.rows), case.suppressed[levels]
    k = max((c.k for c in case.criteria if isinstance(c, KAnonymity)), default=1)
    match name:
        case "discernability":
            return sum(len(rows) ** 2 for rows in kept) + gone * total
        case "average-class-size":
            return total / (len(kept) + (gone > 0)) / k
        case "c-avg":
            return (total - gone) / len(kept) / k
        case "suppressed":
            return gone
    released = [row for rows in kept for row in rows]
    columns = [column_cost(case, levels, i, released, name) for i in range(case.width)]
    if name == "entropy":
        return sum(columns)
    if name == "loss-geometric":
        return float(prod(1 + c for c in columns) ** (1 / len(columns))) - 1
    return sum(columns) / len(columns)


def column_cost(case: Case, levels: Levels, i: int, released: Class, name: str) -> float:
    way, level, total = case.ways[i], levels[i], len(case.rows)
    gone, leaves, height = total - len(released), len(way), len(way[0]) - 1
    if name == "precision":
        return (len(released) * level / height + gone) / total
    if name == "entropy":
        under = Counter(way[row[i]][level] for row in case.rows)
        own = Counter(row[i] for row in case.rows)
        bits = sum(log2(under[way[row[i]][level]]) for row in released) + gone * log2(total)
        return bits - sum(log2(own[row[i]]) for row in case.rows)
    covered = Counter(leaf[level] for leaf in way)
    shares = sum(covered[way[row[i]][level]] / leaves for row in released) + gone
    least = total / leaves
    return (shares - least) / (total - least) if leaves > 1 else 0.0


def taxonomy(way: list[list[int]], name: str) -> Taxonomy:
    """The same hierarchy as the package grows it; labels carry their level to stay apart."""
    steps = [
        [f"{name}.{level}.{leaf[level]}" for leaf in way] for level in range(1, len(way[0]) - 1)
    ]
    return Taxonomy.build(list(LABELS[: len(way)]), steps, missing=False)


def counted(names: Sequence[str], sizes: Sequence[int], rows: Sequence[Row]) -> Frequencies:
    axes = tuple(
        Listed(name, pa.array(list(LABELS[:size])), declared=True)
        for name, size in zip(names, sizes, strict=True)
    )
    codes = [np.array([row[i] for row in rows], dtype=np.int32) for i in range(len(names))]
    groups = group(codes, sizes, np.ones(len(rows), dtype=np.int64))
    return Frequencies(axes, tuple(c[groups.representatives] for c in codes), groups.counts)


def random_way(random: np.random.Generator, leaves: int, height: int) -> list[list[int]]:
    """A hierarchy in which each label covers a run of the labels below."""
    columns = [list(range(leaves))]
    for _ in range(height - 1):
        cuts = random.random(leaves) < 0.5
        last = columns[-1]
        column = [0]
        for place, (left, right) in enumerate(pairwise(last)):
            column.append(column[-1] + int(left != right and cuts[place]))
        columns.append(column)
    columns.append([0] * leaves)
    return [list(labels) for labels in zip(*columns, strict=True)]


def random_criteria(random: np.random.Generator, *, rough: bool) -> list[Criterion]:
    """One to three criteria of every kind; in rough cases one that is not absorbing."""
    least = 2 if rough else int(random.integers(1, 4))
    share = str(Fraction(int(random.integers(1, 10)), 10))
    pool: list[Criterion] = [
        DistinctDiversity(least, of="s"),
        EntropyDiversity(least, of="s"),
        FolkDiversity(least, of="s"),
        RecursiveDiversity(least, of="s", c=str(Fraction(int(random.integers(1, 9)), 3))),
        TCloseness(share, of="s", distance="equal"),
        TCloseness(share, of="s", distance="ordered"),
        TCloseness(share, of="s", distance="hierarchy"),
        DeltaDisclosure(str(Fraction(int(random.integers(2, 20)), 10)), of="s"),
        BetaLikeness(share, of="s"),
        KMap(int(random.integers(1, 12))),
        DeltaPresence("0" if random.random() < 0.5 else "1/20", "1/2"),
    ]
    if rough:
        return [pool[int(random.integers(1, 9))]]
    chosen = [pool[i] for i in random.choice(len(pool), int(random.integers(0, 3)), replace=False)]
    if not chosen or random.random() < 0.6:
        chosen.append(KAnonymity(int(random.integers(1, 5))))
    return chosen


@cache
def random_case(seed: int) -> Case:
    random = np.random.default_rng(seed)
    width = int(random.integers(1, 4))
    leaves = [int(random.integers(1, 6)) for _ in range(width)]
    ways = [random_way(random, size, int(random.integers(1, 4))) for size in leaves]
    values = int(random.integers(2, 5))
    tree = random_way(random, values, int(random.integers(1, 4)))
    skew = random.random(values) + 0.05

    rough = seed % 2 == 1  # where suppression is likely to break monotonicity
    ties = random.integers(0, values, leaves[0])

    def draw(count: int) -> list[Row]:
        columns = [random.integers(0, size, count) for size in leaves]
        sensitive = random.choice(values, count, p=skew / skew.sum())
        tied = rough & (random.random(count) < 0.8)
        sensitive = np.where(tied, ties[columns[0]], sensitive)
        return [tuple(map(int, row)) for row in zip(*columns, sensitive, strict=True)]

    rows = draw(int(random.integers(3, 30)))
    population = [row[:-1] for row in rows] + [row[:-1] for row in draw(25)]
    limits = [Fraction(0), Fraction(0), Fraction(1, 10), Fraction(1, 4), Fraction(1, 2)]
    limit = Fraction(3, 5) if rough else limits[int(random.integers(len(limits)))]
    return Case(ways, tree, rows, population, random_criteria(random, rough=rough), limit)


COSTS = [
    "loss",
    "loss-geometric",
    "discernability",
    "average-class-size",
    "c-avg",
    "precision",
    "entropy",
    "suppressed",
]
SEEDS = range(320)


def finer(one: Levels, other: Levels) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("block", range(8))
def test_optimal_equals_enumeration(block: int) -> None:
    for seed in SEEDS[block::8]:
        case = random_case(seed)
        name = COSTS[(seed // 8) % len(COSTS)]
        if not case.admissible:
            with pytest.raises(CriterionError):
                run(case.problem(), cost=name)
            continue
        found = run(case.problem(), cost=name)
        costs = {levels: cost_of(case, levels, name) for levels in case.admissible}
        least = min(costs.values())
        levels = tuple((found.levels or {}).values())
        assert levels in costs, seed
        assert costs[levels] == pytest.approx(least, rel=TOLERANCE, abs=TOLERANCE), seed
        assert found.cost[name.replace("-", "_")] == pytest.approx(costs[levels], abs=TOLERANCE)
        assert found.suppressed == case.suppressed[levels], seed
        assert found.optimal
        # Ties by fewer suppressed rows, then height, then levels.
        tied = [v for v in costs if costs[v] <= least + TOLERANCE * max(1.0, least)]
        assert levels == min(tied, key=lambda v: (case.suppressed[v], sum(v), v)), seed


@pytest.mark.parametrize("name", COSTS)
def test_no_bound_exceeds_a_cost(name: str) -> None:
    """What nodes say of finer and coarser ones, and levels of themselves, against the truth."""
    compared = 0
    for seed in SEEDS[::4]:
        problem, cost = random_case(seed).problem(), named(name)
        nodes = list(walk(problem))
        admissible = [(node, cost.value(node)) for node in nodes if node.admissible]
        for node, value in admissible:
            box = [slice(level, level + 1) for level in node.levels]
            below = [n for n in nodes if n is node or finer(n.levels, node.levels)]
            above = [n for n in nodes if n is node or finer(node.levels, n.levels)]
            upward = max(map(cost.upward, below))
            failing = np.full([1] * len(box), max(n.failing for n in above))
            floor = cost.floor(problem, box, failing, np.full(failing.shape, upward))
            assert max(floor.item(), *map(cost.downward, above)) <= value, (seed, node.levels)
            compared += len(below) + len(above)
    assert compared > 1000


@pytest.mark.parametrize("block", range(4))
def test_all_costs_equal_their_definitions(block: int) -> None:
    for seed in SEEDS[block::16]:
        case = random_case(seed)
        if case.admissible:
            found = run(case.problem(), "datafly")
            levels = tuple((found.levels or {}).values())
            for name in COSTS:
                expected = cost_of(case, levels, name)
                assert found.cost[name.replace("-", "_")] == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("block", range(4))
def test_incognito_finds_exactly_the_minimal_nodes(block: int) -> None:
    for seed in SEEDS[block::4]:
        case = random_case(seed)
        if not case.admissible:
            with pytest.raises(CriterionError):
                run(case.problem(), "incognito")
            continue
        found = run(case.problem(), "incognito")
        minimal = {v for v in case.admissible if not any(finer(u, v) for u in case.admissible)}
        assert {tuple(levels.values()) for levels in found.minimal or ()} == minimal, seed
        best = min(cost_of(case, levels, "loss") for levels in minimal)
        assert found.cost["loss"] == pytest.approx(best, abs=TOLERANCE)


@pytest.mark.parametrize("block", range(4))
def test_samarati_finds_the_lowest_height(block: int) -> None:
    for seed in SEEDS[block::4]:
        case = random_case(seed)
        if not case.admissible:
            with pytest.raises(CriterionError):
                run(case.problem(), "samarati")
            continue
        found = run(case.problem(), "samarati")
        height = min(map(sum, case.admissible))
        lowest = [levels for levels in case.admissible if sum(levels) == height]
        fewest = min(case.suppressed[levels] for levels in lowest)
        tied = [v for v in lowest if case.suppressed[v] == fewest]
        assert tuple((found.levels or {}).values()) in tied, seed
        best = min(cost_of(case, levels, "loss") for levels in tied)
        assert found.cost["loss"] == pytest.approx(best, abs=TOLERANCE)


@pytest.mark.parametrize("block", range(4))
def test_sweeney_finds_the_least_distortion(block: int) -> None:
    for seed in SEEDS[block::4]:
        case = random_case(seed)
        if not case.admissible:
            with pytest.raises(CriterionError):
                run(case.problem(), "sweeney")
            continue
        found = run(case.problem(), "sweeney")
        least = min(cost_of(case, levels, "precision") for levels in case.admissible)
        assert found.cost["precision"] == pytest.approx(least, abs=TOLERANCE), seed
        assert found.bound == found.cost["precision"]
        same = run(case.problem(), "optimal", cost="precision")
        assert same.levels == found.levels


@pytest.mark.parametrize("block", range(2))
def test_datafly_is_admissible_and_stops_at_the_first_chance(block: int) -> None:
    for seed in SEEDS[block::2]:
        case = random_case(seed)
        levels = [0] * case.width
        while tuple(levels) not in case.admissible:
            rising = [i for i in range(case.width) if levels[i] < len(case.ways[i][0]) - 1]
            if not rising:
                break
            values = {i: len({case.ways[i][r[i]][levels[i]] for r in case.rows}) for i in rising}
            levels[max(rising, key=lambda i: values[i])] += 1
        if tuple(levels) in case.admissible:
            found = run(case.problem(), "datafly")
            assert tuple((found.levels or {}).values()) == tuple(levels), seed
        else:
            with pytest.raises(CriterionError):
                run(case.problem(), "datafly")


def test_the_random_cases_are_worth_it() -> None:
    """The cases hold what searches can go wrong on: suppression, and loss of monotonicity."""
    cases = [random_case(seed) for seed in SEEDS]
    reachable = [case for case in cases if case.admissible]
    assert len(reachable) > 200
    assert sum(case.limit > 0 for case in reachable) > 100
    broken = 0
    for case in reachable:
        passing = set(case.admissible)
        broken += any(finer(u, v) and v not in passing for u in passing for v in case.nodes)
    assert broken > 10
    assert sum(len(case.nodes) for case in cases) > 3000
