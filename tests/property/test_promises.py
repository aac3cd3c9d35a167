"""Every promise of a release, recomputed from the files alone.

The checker below shares no code with the library: it reads the released file, the original, the
schema and the hierarchy files by itself, takes the guarantee's sentence from the side-car at its
word, and counts again, row by row, in plain Python and exact fractions.
"""

from __future__ import annotations

import csv
import json
import math
import re
import tomllib
from collections import Counter, defaultdict
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.anonymize.pipeline import anonymize
from sfumato.errors import CriterionError
from sfumato.release.open_table import read, read_population

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.release.open_table import Table

Row = dict[str, str]

LEVELS = ["optimal", "incognito", "samarati", "sweeney", "datafly"]
PARTS = ["mondrian", "mondrian-relaxed", "k-optimize"]
ROWS_ONLY = ["meyerson-williams", "aggarwal-suppress", "aggarwal-generalize"]

SCHEMA = """\
table = "visits"
unit = {unit}
[columns]
patient = {{ role = "other", kind = "text", nullable = false }}
zip = {{ role = "quasi", kind = "text", hierarchy = {{ mask = "right" }} }}
job = {{ role = "quasi", kind = "text", hierarchy = {{ file = "job.csv" }} }}
severity = {{ role = "sensitive", kind = "text", values = ["low", "medium", "high", "severe"] }}
ill = {{ role = "sensitive", kind = "text", hierarchy = {{ file = "ill.csv" }} }}
pay = {{ role = "sensitive", kind = "integer", bounds = [0, 40] }}
seen = {{ role = "sensitive", kind = "date" }}
ward = {{ role = "sensitive", kind = "text" }}
"""
JOBS = [way.split() for way in ("nurse care *", "clerk desk *", "doctor care *", "boss desk *")]
# The groups are interleaved: the order is that of the lines, not of the tree.
ILLS = [way.split() for way in ("ulcer belly *", "flu lung *", "gout belly *", "cold lung *")]
ORDERS = {
    "severity": "declared order of values",
    "ill": "order of the hierarchy's leaves",
    "pay": "numbers by size",
    "seen": "dates by time",
    "ward": "texts by alphabet, nothing being declared",
}


def records(path: Path) -> list[Row]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@dataclass
class Files:
    """A folder with an original, a schema, hierarchies, a population, and what was released."""

    home: Path
    original: list[Row] = field(init=False)
    population: list[Row] = field(init=False)
    schema: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.original = records(self.home / "visits.csv")
        self.population = records(self.home / "everyone.csv")
        self.schema = tomllib.loads((self.home / "visits.toml").read_text())

    def ways(self, column: str) -> list[list[str]]:
        name = self.schema["columns"][column]["hierarchy"]["file"]
        with (self.home / name).open(newline="") as stream:
            return list(csv.reader(stream))

    def quasi(self) -> list[str]:
        return [name for name, one in self.schema["columns"].items() if one["role"] == "quasi"]

    def ordered(self, column: str) -> list[str]:
        """The values that occur in the original, in the order that the schema declares."""
        declared = self.schema["columns"][column]
        occur = {row[column] for row in self.original}
        if "values" in declared:
            return [value for value in declared["values"] if value in occur]
        if "hierarchy" in declared:
            return [way[0] for way in self.ways(column) if way[0] in occur]
        if declared["kind"] == "integer":
            return sorted(occur, key=int)
        return sorted(occur)  # dates are written so that their alphabet is their time

    def fits(self, row: Row, labels: tuple[str, ...]) -> bool:
        """Whether somebody of the population may wear these labels."""
        for column, label in zip(self.quasi(), labels, strict=True):
            value = row[column]
            if "mask" in self.schema["columns"][column]["hierarchy"]:
                same = len(label) == len(value) and all(
                    one in ("*", other) for one, other in zip(label, value, strict=True)
                )
            else:
                same = label in next(way for way in self.ways(column) if way[0] == value)
            if not same and label != "*":
                return False
        return True


@dataclass
class Claim:
    """The guarantee's sentence against the classes of a released file."""

    files: Files
    classes: dict[tuple[str, ...], list[Row]]
    person: str | None

    def people(self, rows: Sequence[Row]) -> int:
        return len(rows) if self.person is None else len({row[self.person] for row in rows})

    def counts(self, rows: Sequence[Row], column: str) -> Counter[str]:
        """How often each value occurs; each person counts once for each value."""
        if self.person is None:
            return Counter(row[column] for row in rows)
        return Counter(value for _, value in {(row[self.person], row[column]) for row in rows})

    def check(self, criterion: str) -> bool:
        """Whether a criterion, as it is worded, holds for every class."""
        for pattern, test in self.tests().items():
            found = re.fullmatch(pattern, criterion)
            if found:
                return all(
                    test(key, rows, **found.groupdict()) for key, rows in self.classes.items()
                )
        raise AssertionError(f"nobody knows what {criterion!r} means")

    def tests(self) -> dict[str, Callable[..., bool]]:
        of = r" of (?P<column>\w+)"
        return {
            r"(?P<k>\d+)-anonymity": lambda _, rows, k: self.people(rows) >= int(k),
            r"(?P<k>\d+)-map": lambda key, _, k: self.matches(key) >= int(k),
            r"\((?P<low>.+), (?P<high>.+)\)-presence": self.presence,
            rf"distinct (?P<l>\d+)-diversity{of}": self.distinct,
            rf"entropy (?P<l>\d+)-diversity{of}": self.entropy,
            rf"recursive \((?P<c>.+), (?P<l>\d+)\)-diversity{of}": self.recursive,
            rf"folk (?P<l>\d+)-diversity{of}": self.folk,
            rf"(?P<t>.+)-closeness{of} \((?P<distance>\w+) distance(, (?P<order>.+))?\)": (
                self.close
            ),
            rf"(?P<delta>.+)-disclosure privacy{of}": self.disclosure,
            rf"(?P<beta>.+)-likeness{of}": lambda _, rows, beta, column: all(
                p <= (1 + Fraction(beta)) * q for p, q in self.shares(rows, column)
            ),
        }

    def matches(self, key: tuple[str, ...]) -> int:
        return sum(self.files.fits(row, key) for row in self.files.population)

    def presence(self, key: tuple[str, ...], rows: Sequence[Row], low: str, high: str) -> bool:
        fitting = self.matches(key)
        least, most = Fraction(low) * fitting, Fraction(high) * fitting
        return fitting > 0 and least <= self.people(rows) <= most

    def shares(self, rows: Sequence[Row], column: str) -> list[tuple[Fraction, Fraction]]:
        """The share of each value of the original, in its order: in the class, in the original."""
        here, there = self.counts(rows, column), self.counts(self.files.original, column)
        return [
            (Fraction(here[value], here.total()), Fraction(there[value], there.total()))
            for value in self.files.ordered(column)
        ]

    def distinct(self, _: object, rows: Sequence[Row], l: str, column: str) -> bool:  # noqa: E741
        return len(self.counts(rows, column)) >= int(l)

    def folk(self, _: object, rows: Sequence[Row], l: str, column: str) -> bool:  # noqa: E741
        return int(l) * max(self.counts(rows, column).values()) <= self.people(rows)

    def entropy(self, _: object, rows: Sequence[Row], l: str, column: str) -> bool:  # noqa: E741
        counts = self.counts(rows, column)
        shares = [count / counts.total() for count in counts.values()]
        return math.exp(-sum(p * math.log(p) for p in shares)) >= int(l) - 1e-9

    def recursive(self, _: object, rows: Sequence[Row], c: str, l: str, column: str) -> bool:  # noqa: E741
        ranked = sorted(self.counts(rows, column).values(), reverse=True)
        return ranked[0] < Fraction(c) * sum(ranked[int(l) - 1 :])

    def disclosure(self, _: object, rows: Sequence[Row], delta: str, column: str) -> bool:
        pairs = self.shares(rows, column)
        return all(p and abs(math.log(p / q)) < float(delta) + 1e-12 for p, q in pairs)

    def close(
        self, _: object, rows: Sequence[Row], t: str, column: str, distance: str, order: str | None
    ) -> bool:
        assert order == (ORDERS[column] if distance == "ordered" else None)
        pairs = self.shares(rows, column)
        if distance == "equal":
            moved = sum((abs(p - q) for p, q in pairs), Fraction(0)) / 2
        elif distance == "ordered":
            running, moved = Fraction(0), Fraction(0)
            for p, q in pairs:
                running += p - q
                moved += abs(running)
            moved /= max(len(pairs) - 1, 1)
        else:
            moved = self.along_tree(
                column, dict(zip(self.files.ordered(column), pairs, strict=True))
            )
        return moved <= Fraction(t)

    def along_tree(self, column: str, pairs: dict[str, tuple[Fraction, Fraction]]) -> Fraction:
        """Mass that must cross a label's children pays the label's level over the height."""
        ways = [way for way in self.files.ways(column) if way[0] in pairs]
        height, moved = len(ways[0]) - 1, Fraction(0)
        for level in range(1, height + 1):
            extra: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
            for way in ways:
                p, q = pairs[way[0]]
                extra[way[level]][way[level - 1]] += p - q
            for children in extra.values():
                given = sum((e for e in children.values() if e > 0), Fraction(0))
                taken = -sum((e for e in children.values() if e < 0), Fraction(0))
                moved += min(given, taken) * Fraction(level, height)
        return moved


def check(files: Files, out: Path, limit: str) -> None:
    """Check a released file against its side-car's sentence, its schema and its original."""
    guarantee = json.loads(out.with_name(f"{out.name}.json").read_text())["guarantee"]
    match = re.fullmatch(
        r"Every class of released rows satisfies (?P<criteria>.+?)"
        r"(, counting people \((?P<person>\w+)\)(?P<once>, each once for each value)?)?\."
        r"( Shares of (?P<compared>[\w, ]+) are compared with those in the original, which its "
        r"holder keeps\.)?",
        guarantee["statement"],
    )
    assert match, guarantee["statement"]
    unit = files.schema["unit"]
    person = unit["column"] if isinstance(unit, dict) else None
    assert match["person"] == person
    assert guarantee["parameters"]["counted"] == ("rows" if person is None else "people")
    released, classes = records(out), defaultdict(list)
    for row in released:
        classes[tuple(row[name] for name in files.quasi())].append(row)
    claim = Claim(files, classes, person)
    compared = match["compared"].split(", ") if match["compared"] else []
    assert compared == guarantee["parameters"]["compared_with_original"]
    worded = match["criteria"].split(" and ")
    assert bool(match["once"]) == (person is not None and any(" of " in one for one in worded))
    assert worded == guarantee["parameters"]["criteria"]
    for criterion in worded:
        assert claim.check(criterion), criterion
    rows = Counter(row["patient"] for row in files.original)
    gone = rows - Counter(row["patient"] for row in released)
    lost, most = (gone.total(), rows.total()) if person is None else (len(gone), len(rows))
    assert lost <= Fraction(limit) * most
    assert len(released) == guarantee["parameters"]["released"]


def make(home: Path, seed: int, *, people: bool, most: int) -> Files:
    """A random table of people with one to three visits each, and a population around it."""
    draw = np.random.default_rng(seed)

    def one(values: Sequence[str]) -> str:
        return str(values[int(draw.integers(len(values)))])

    rows: list[list[str]] = []
    for number in range(int(draw.integers(6, 16))):
        home_zip, job = one(["11", "12", "21", "22"]), one([way[0] for way in JOBS])
        for _ in range(int(draw.integers(1, 4))):
            moved = one(["11", "12", "21"]) if draw.integers(4) == 0 else home_zip
            severity = one(["low", "medium", "high", "severe"])
            ill, pay = one([way[0] for way in ILLS]), str(int(draw.integers(8, 12)))
            seen, ward = one(["2026-01-09", "2025-12-10", "2026-10-02"]), one(["north", "east"])
            rows.append([f"p{number}", moved, job, severity, ill, pay, seen, ward])
    unit = '{ column = "patient", max_rows = 9 }' if people else '"row"'
    (home / "visits.toml").write_text(SCHEMA.format(unit=unit))
    names = ["patient", "zip", "job", "severity", "ill", "pay", "seen", "ward"]
    others = [[one(["11", "12", "21", "22"]), one([way[0] for way in JOBS])] for _ in range(40)]
    everyone = [*([row[1], row[2]] for row in rows), *others]
    for name, lines in (
        ("visits.csv", [names, *rows[:most]]),
        ("everyone.csv", [["zip", "job"], *everyone]),
        ("job.csv", JOBS),
        ("ill.csv", ILLS),
    ):
        with (home / name).open("w", newline="") as stream:
            csv.writer(stream).writerows(lines)
    return Files(home)


VALUES: list[list[Any]] = [
    [sf.DistinctDiversity(2, "severity")],
    [sf.EntropyDiversity(2, "ill")],
    [sf.RecursiveDiversity(2, "severity", c="3")],
    [sf.FolkDiversity(2, "ill"), sf.KAnonymity(2)],
    *([sf.TCloseness("0.3", name, distance="ordered")] for name in ORDERS),
    [sf.TCloseness("0.35", "severity"), sf.KAnonymity(2)],
    [sf.TCloseness("0.35", "ill", distance="hierarchy")],
    [sf.DeltaDisclosure("1.5", "ward")],
    [sf.BetaLikeness("1.5", "severity")],
]
CROWDS: list[list[Any]] = [[sf.KAnonymity(2)], [sf.KAnonymity(4)]]
POPULATION: list[list[Any]] = [
    [sf.KMap(5)],
    [sf.DeltaPresence(0, "0.5")],
    [sf.DeltaPresence("0.05", "0.7"), sf.KAnonymity(2)],
]


def promised(files: Files, criteria: list[Any], algorithm: str, table: Table, limit: str) -> bool:
    """Make a release and check what it promises; False where no release reaches that."""
    out = files.home / "out.csv"
    suppresses = algorithm in {*LEVELS, "k-optimize"}
    options: dict[str, Any] = {"suppress": limit} if suppresses else {}
    with ExitStack() as stack:
        if any(one.compares_population for one in criteria):
            everyone = read_population(files.home / "everyone.csv", table.schema)
            options["population"] = stack.enter_context(closing(everyone))
        try:
            anonymize(table, criteria, algorithm=algorithm, **options).write(out, overwrite=True)
        except CriterionError:
            return False
    check(files, out, options.get("suppress", "0"))
    return True


CASES = [
    *((one, [*VALUES, *CROWDS, *POPULATION], people) for one in LEVELS for people in (False, True)),
    *((one, [*VALUES, *CROWDS], False) for one in PARTS),
    ("mondrian", [*VALUES, *CROWDS], True),
    ("k-optimize", [*VALUES, *CROWDS], True),
    ("mondrian-relaxed", [VALUES[0], *CROWDS], True),
    *((one, CROWDS, False) for one in ROWS_ONLY),
]
TABLES = 3


@pytest.mark.parametrize(
    "every", [pytest.param(True, marks=pytest.mark.slow), False], ids=["every", "by turns"]
)
@pytest.mark.parametrize(
    ("algorithm", "wanted", "people"),
    CASES,
    ids=[f"{name}-{'people' if people else 'rows'}" for name, _, people in CASES],
)
def test_every_promise_is_true(
    tmp_path: Path, algorithm: str, wanted: list[list[Any]], people: bool, every: bool
) -> None:
    if not every and len(wanted) > len(CROWDS):  # half of them of rows, and the others of people
        wanted = wanted[int(people) :: 2]
    kept = 0
    for number in range(TABLES):
        most = 14 if algorithm in ROWS_ONLY else 60
        files = make(tmp_path, 100 * number + len(algorithm), people=people, most=most)
        with closing(read(tmp_path / "visits.csv", tmp_path / "visits.toml")) as table:
            for criteria in wanted[number::TABLES]:
                kept += promised(files, criteria, algorithm, table, ("0.1", "0", "0.25")[number])
    assert kept > len(wanted) / 2


def test_the_buckets_of_an_anatomy_are_diverse(tmp_path: Path) -> None:
    """The two files of an anatomy: each bucket has l rows or more, and no value above 1/l."""
    files, out = make(tmp_path, 3, people=False, most=60), tmp_path / "buckets"
    with closing(read(tmp_path / "visits.csv", tmp_path / "visits.toml")) as table:
        anonymize(table, [sf.FolkDiversity(2, "ill")], algorithm="anatomy").write(out)
    stated = json.loads((out / "release.json").read_text())["guarantee"]["statement"]
    assert stated == "Every group of released rows satisfies folk 2-diversity of ill."
    sizes = Counter(row["group"] for row in records(out / "quasi.csv"))
    buckets: dict[str, Counter[str]] = defaultdict(Counter)
    for row in records(out / "sensitive.csv"):
        buckets[row["group"]][row["ill"]] += int(row["count"])
    assert {group: counts.total() for group, counts in buckets.items()} == sizes
    assert all(2 * max(counts.values()) <= counts.total() for counts in buckets.values())
    assert _rows(records(out / "quasi.csv")) == _rows(files.original)


def test_permuting_and_perturbing_move_nothing_else(tmp_path: Path) -> None:
    files = make(tmp_path, 4, people=False, most=60)
    with closing(read(tmp_path / "visits.csv", tmp_path / "visits.toml")) as table:
        out, blurred = tmp_path / "permuted.csv", tmp_path / "perturbed.csv"
        asked = [sf.KAnonymity(3), sf.DistinctDiversity(2, "ill")]
        anonymize(table, asked, algorithm="permute").write(out)
        anonymize(table, [], algorithm="perturb").write(blurred)
    released = records(out)
    assert "ill" in released[0]
    assert Counter(row["ill"] for row in released) == Counter(row["ill"] for row in files.original)
    assert _rows(released) == _rows(files.original)
    moved = records(blurred)
    assert all(0 <= int(row["pay"]) <= 40 for row in moved)
    assert _rows(moved, "ill") == _rows(files.original, "ill")


def _rows(table: list[Row], *more: str) -> Counter[tuple[str, ...]]:
    return Counter(tuple(row[name] for name in ("patient", "zip", "job", *more)) for row in table)
