"""Measure a released table: k, l, t, costs, and how well it answers questions."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.anonymize.cost import COSTS, EntropyLoss, Separable
from sfumato.anonymize.criteria.closeness import farthest
from sfumato.anonymize.criteria.diversity import descending
from sfumato.anonymize.criteria.identity import KAnonymity
from sfumato.anonymize.labels import common_level
from sfumato.anonymize.original import Labels, Quasi, SensitiveColumn, order_of
from sfumato.anonymize.partition import cells_of, crowds_of
from sfumato.anonymize.problem import Problem, person_of
from sfumato.anonymize.taxonomy import grow, read_labels, universe
from sfumato.anonymize.worlds import answer, answer_buckets, parse
from sfumato.data.counting.frequencies import Frequencies, count_held
from sfumato.data.counting.grouping import keys
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.hierarchy import ROOT
from sfumato.data.schema.names import count, quoted
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import MOST_MEBIBYTES, load
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import ParameterError, SchemaError, SourceError, option
from sfumato.release.open_table import check_columns, read
from sfumato.release.released_table import described, open_labels, open_released, require_worlds
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts, SensitiveCounts
    from sfumato.anonymize.taxonomy import Covers
    from sfumato.anonymize.worlds import Trust
    from sfumato.anonymize.worlds.bounds import AnswerBounds
    from sfumato.arrays import BoolArray, IntArray
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.hierarchy import Taxonomy

    Answering = Callable[[str], AnswerBounds]


@dataclass(frozen=True)
class Workload:
    """The error of each question, and their mean; None where an answer does not exist."""

    errors: tuple[float | None, ...]

    @property
    def mean(self) -> float | None:
        """The mean over the questions that have an answer on both tables."""
        known = [error for error in self.errors if error is not None]
        return sum(known) / len(known) if known else None

    def json(self) -> dict[str, object]:
        """Return it as plain data for JSON."""
        return {"mean": self.mean, "errors": list(self.errors)}


def compare_answers(questions: Sequence[str], original: Answering, released: Answering) -> Workload:
    """Return the relative errors of aggregate queries on a release, both tables answering them.

    *Guarantee*: |estimate - true| / max(|true|, 1) of each question, the estimate being the one
    that takes labels as uniform.
    *Error*: float64.
    *Edges*: below 1 the error is absolute; questions without an answer on either table (a mean of
    no rows, a sum over unknown numbers) are left out of the mean.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006; Xiao and Tao 2006.
    """
    if not questions:
        raise ParameterError(
            "workload_invalid",
            "A workload needs at least one question. Give some aggregates in SQL.",
        )
    errors = []
    for question in questions:
        true, estimate = original(question).estimate, released(question).estimate
        known = true is not None and estimate is not None
        errors.append(abs(estimate - true) / max(abs(true), 1.0) if known else None)  # type: ignore[operator,arg-type]
    return Workload(tuple(errors))


@dataclass(frozen=True, repr=False)
class TableMeasures(Shown):
    """The measures of a table. `reference` names the table that shares are compared with.

    `cost` has None where the original is needed and was not given, and where the labels of a column
    cannot be read. `counted` says whether k and the rest count rows or people, and `person` which
    column names people, where one does.
    """

    rows: int
    classes: int
    k: int
    reference: str
    cost: Mapping[str, float | None]
    sensitive: Mapping[str, Mapping[str, Any]]
    population: Mapping[str, float] | None = None
    counted: str = "rows"
    person: str | None = None
    workload: Workload | None = None

    def _card(self) -> Card:
        line = f"k = {self.k}, {count(self.classes, 'class', 'classes')} of {self.counted}"
        facts = {name.replace("_", " "): cost for name, cost in self.cost.items()}
        names = dict.fromkeys(name for measures in self.sensitive.values() for name in measures)
        rows = [
            (name, *(measures.get(name) for measures in self.sensitive.values())) for name in names
        ]
        table = CardTable(("Measure", *self.sensitive), rows)
        note = f"Classes are compared with the {self.reference}'s distribution of values."
        return Card(f"{line}, {count(self.rows, 'row')}", facts, table if rows else None, [note])

    def json(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        document: dict[str, Any] = {
            "rows": self.rows,
            "classes": self.classes,
            "k": self.k,
            "reference": self.reference,
            "cost": dict(self.cost),
            "sensitive": {name: dict(measures) for name, measures in self.sensitive.items()},
            "counted": self.counted,
        }
        if self.population is not None:
            document["population"] = dict(self.population)
        if self.workload is not None:
            document["workload"] = self.workload.json()
        return document


def measure_counts(
    released: Frequencies,
    columns: Sequence[Column],
    *,
    original: Frequencies | None = None,
    population: Frequencies | None = None,
    reference: Frequencies | None = None,
    starred: bool | None = None,
    person: str | None = None,
) -> TableMeasures:
    """Measure a released table, alone or against its original.

    `released` and `original` are counted over all quasi-identifiers and sensitive columns that they
    have, and over the `person` to count people. Rows that are blank or the root in every column are
    suppressed, unless `starred` says that there are none. Classes are compared with the
    `reference`, by default the original, else the release itself.
    """
    quasi = quasi_of(columns)
    held = released.columns
    sensitive = [c for c in columns if c.role is Role.SENSITIVE and c.name in held]
    table = _Released(released, quasi, sensitive, original, population, person, starred=starred)
    reference = original if reference is None else reference
    totals = table.kept_rows() if reference is None else reference
    return TableMeasures(
        rows=released.total,
        classes=len(table.sizes),
        k=table.k,
        reference="release" if reference is None else "original",
        cost=table.costs(),
        sensitive={
            column.name: _diversity(table.cells(column, totals), table.crowds, column)
            for column in sensitive
        },
        population=None if population is None else table.matches(population),
        counted="rows" if person is None else "people",
        person=person,
    )


def quasi_of(columns: Iterable[Column]) -> list[Column]:
    """Return the quasi-identifiers; raise if there are none."""
    quasi = [column for column in columns if column.role is Role.QUASI]
    if not quasi:
        raise SchemaError(
            "role_invalid",
            "Nothing can be measured: the schema has no quasi-identifier. Give at least one "
            'column role = "quasi".',
        )
    return quasi


class _Released:
    """A released table, in the form that costs are computed from."""

    def __init__(
        self,
        released: Frequencies,
        quasi: Sequence[Column],
        sensitive: Sequence[Column],
        original: Frequencies | None,
        population: Frequencies | None,
        person: str | None,
        *,
        starred: bool | None,
    ) -> None:
        self.table, self.columns, self.original = released, quasi, original
        self.person = person
        blank = _blank(released, [column.name for column in [*quasi, *sensitive]])
        # Without suppressed rows, a row at all roots is a class like any other.
        if starred is False:
            blank[:] = False
        elif starred is None and not sensitive:
            # Nothing but NULL tells a suppressed row from one at the root of every hierarchy.
            blank &= _blank(released, [column.name for column in quasi], root=False)
        self.kept = np.flatnonzero(~blank & (released.counts > 0))
        if not len(self.kept):
            raise SourceError("table_empty", "The table has no rows: there is nothing to measure.")
        indices = [released.columns.index(column.name) for column in quasi]
        codes = [released.codes[index][self.kept] for index in indices]
        # A class is a combination of labels as they are written, whatever wrote them.
        key, _ = keys(codes, [released.axes[index].size for index in indices])
        _, first, self.owners = np.unique(key, return_index=True, return_inverse=True)
        counts = released.counts[self.kept]
        self.sizes = np.bincount(self.owners, counts).astype(np.int64)
        self.persons = None
        self.crowds = self.sizes
        if person is not None:
            self.persons = released.codes[released.columns.index(person)][self.kept]
            self.crowds = crowds_of(self.owners, self.persons, len(self.sizes))
        self.k = int(self.crowds.min())
        rows = released.total if original is None else original.total
        self.suppressed = rows - int(counts.sum())
        self._read([codes_of[first] for codes_of in codes], indices, population)
        self.problem = Problem(
            tuple(map(self._quasi, quasi, self.taxonomies)), (), (KAnonymity(self.k),), rows, 0
        )

    def _read(
        self,
        codes: Sequence[NDArray[np.integer]],
        indices: Sequence[int],
        population: Frequencies | None,
    ) -> None:
        """Read the labels that occur in classes, once each; `unread` holds the error, if any."""
        self.labels: list[IntArray] = []
        self.covers: list[Covers] = []
        self.taxonomies: list[Taxonomy] = []
        self.unread: SchemaError | None = None
        known = [table for table in (self.original, population) if table is not None]
        for column, index, mine in zip(self.columns, indices, codes, strict=True):
            present, numbers = np.unique(mine, return_inverse=True)
            texts = self.table.axes[index].decode(present).to_pylist()
            values = list(chain.from_iterable(_values(table, column.name) for table in known))
            self.labels.append(numbers)
            try:
                grown = universe(column, [*texts, *values]) if self.original is None else None
                self.taxonomies.append(grown or grow(column, values))
                self.covers.append(read_labels(column, self.taxonomies[-1], texts))
            except SchemaError as error:
                self.unread = error
                return

    def kept_rows(self) -> Frequencies:
        """Return the rows that are in classes."""
        codes = tuple(column[self.kept] for column in self.table.codes)
        return Frequencies(self.table.axes, codes, self.table.counts[self.kept])

    def _quasi(self, column: Column, taxonomy: Taxonomy) -> Quasi:
        """Return the column in the original; without an original its rows are unknown."""
        if self.original is not None:
            return Quasi.build(column.name, taxonomy, self.original)
        empty = np.zeros(0, dtype=np.int64)
        axis = self.table.axis(column.name)
        unknown = np.zeros(len(taxonomy.leaves), dtype=np.int64)
        return Quasi(axis, taxonomy, empty, empty.astype(np.int32), unknown)

    def costs(self) -> dict[str, float | None]:
        """Return all costs; None for entropy without an original, and for unreadable labels."""
        costs: dict[str, float | None] = {}
        for name, cost in COSTS.items():
            unknown = (cost is EntropyLoss and self.original is None) or (
                self.unread is not None and issubclass(cost, Separable)
            )
            costs[name.replace("-", "_")] = None if unknown else cost().value(self)
        return costs

    def totals(self, cost: Separable) -> list[float]:
        """Return the total price of each column."""
        totals = []
        for column, covers, labels in zip(
            self.problem.quasi, self.covers, self.labels, strict=True
        ):
            level = common_level(covers.taxonomy, covers.low, covers.high)
            prices = cost.price(column, Labels(covers.leaves, covers.count(column.rows), level))
            total = (prices[labels] * self.sizes).sum()
            totals.append(float(total) + self.suppressed * cost.full(column))
        return totals

    def cells(self, column: Column, reference: Frequencies) -> SensitiveCounts:
        """Count each value of a sensitive column in each class."""
        found_values = _values(reference, column.name)
        taxonomy = None if column.hierarchy is None else grow(column, found_values)
        ranked = SensitiveColumn.of(
            reference, column.name, order_of(column), taxonomy, person=self.person
        )
        known = {value: rank for rank, value in enumerate(ranked.values)}
        index = self.table.columns.index(column.name)
        codes = self.table.codes[index][self.kept]
        present, numbers = np.unique(codes, return_inverse=True)
        # A released value that the original lacks has no share to compare with.
        ranks = [known.get(v, -1) for v in self.table.axes[index].decode(present).to_pylist()]
        if -1 in ranks:
            raise SourceError(
                "value_outside_domain",
                f"Column {column.name!r} of the release holds {ranks.count(-1):,} values that its "
                "original has not, so their shares cannot be compared. Measure it alone.",
            )
        counts = self.table.counts[self.kept]
        values = np.array(ranks)[numbers]
        return cells_of(self.owners, values, counts, ranked.original, self.persons)

    def matches(self, population: Frequencies) -> dict[str, float]:
        """Count the people of a population that each class fits, and bound the risk from linking.

        A *journalist* looks for anyone, and is right with chance at most 1/F, where F people fit
        the class. A *marketer* links everyone, and is right for the mean of 1/F (El Emam and Dankar
        2008).
        """
        if self.unread is not None:
            raise self.unread
        leaves = [
            covers.taxonomy.locate(population.axis(column.name).decode(codes).to_pylist())
            for column, covers, codes in zip(
                self.columns,
                self.covers,
                (population.codes[population.columns.index(c.name)] for c in self.columns),
                strict=True,
            )
        ]
        people = np.empty(len(self.sizes), dtype=np.int64)
        for index in range(len(self.sizes)):
            fits = np.ones(len(population), dtype=bool)
            for covers, labels, mine in zip(self.covers, self.labels, leaves, strict=True):
                fits &= covers.holding(int(labels[index]))[mine]
            people[index] = population.counts[fits].sum()
        # A class that nobody of the population fits has presence above 1: no such release is a
        # sample.
        shares = self.crowds / np.maximum(people, 1)
        # A population that the table was drawn from has at least the people of the table.
        likely = self.crowds / np.maximum(people, self.crowds)
        return {
            "k_map": int(people.min()),
            "presence_lower": float(shares.min()),
            "presence_upper": float(shares.max()),
            "journalist": float(1 / np.maximum(people, self.crowds).min()),
            "marketer": float(likely.sum() / self.crowds.sum()),
        }


def _values(table: Frequencies, name: str) -> list[Any]:
    """Return the values of a column that occur."""
    codes = np.unique(table.codes[table.columns.index(name)])
    values: list[Any] = table.axis(name).decode(codes).to_pylist()
    return values


def _blank(table: Frequencies, names: Sequence[str], *, root: bool = True) -> BoolArray:
    """Return which combinations are NULL, or the root, in all these columns."""
    blank = np.ones(len(table), dtype=bool)
    for name in names:
        index = table.columns.index(name)
        present, numbers = np.unique(table.codes[index], return_inverse=True)
        values = table.axes[index].decode(present).to_pylist()
        blank &= np.array([v is None or (root and v == ROOT) for v in values], dtype=bool)[numbers]
    return blank


def _diversity(cells: SensitiveCounts, crowds: Counts, column: Column) -> dict[str, Any]:
    """Return every kind of diversity and closeness that the worst class reaches."""
    counts, sizes = cells.counts, cells.sizes
    shares = counts / sizes[cells.owners]
    # The l of entropy diversity that the worst class reaches is e to the power of its entropy.
    entropy = -np.add.reduceat(shares * np.log(shares), cells.starts)
    ranked = descending(cells)
    expected = cells.original.totals[cells.values] / cells.original.rows
    gains = np.log(shares / expected)
    # ln(p / q) has no bound if a class lacks a value.
    complete = bool((cells.lengths == len(cells.original.totals)).all())
    hierarchical = column.hierarchy is not None
    return {
        "distinct": int(cells.lengths.min()),
        "entropy": exp(float(entropy.min())),
        "recursive_c": _recursive(cells, ranked),
        "folk": float((crowds / ranked[cells.starts]).min()),
        "t_equal": float(farthest(cells, "equal")),
        "t_ordered": float(farthest(cells, "ordered")),
        "t_hierarchy": float(farthest(cells, "hierarchy")) if hierarchical else None,
        "delta_disclosure": float(np.abs(gains).max()) if complete else None,
        "beta": float((shares / expected).max() - 1),
    }


def _recursive(cells: SensitiveCounts, ranked: Counts) -> dict[int, float]:
    """Return for each reachable l the bound that c of recursive (c, l)-diversity must exceed."""
    # Prefix sums of the ranked counts give r_l + ... + r_m without a loop over ranks.
    before = np.cumsum(ranked) - ranked
    ends = before[cells.starts] + cells.sizes
    top = ranked[cells.starts]
    return {
        rank + 1: float((top / (ends - before[cells.starts + rank])).max())
        for rank in range(int(cells.lengths.min()))
    }


_LOOKED_AT = (Role.QUASI, Role.SENSITIVE)


def measure(
    released: Source,
    schema: str | Path | Schema,
    *,
    original: Source | None = None,
    population: Source | None = None,
    workload: Sequence[str] | None = None,
) -> TableMeasures:
    """Measure a released table, alone or against its original, and against a population.

    If the privacy unit is a person, people are counted, provided that the table has the column that
    identifies them. A `workload` of SQL queries measures the error of answers.
    """
    known = _known(schema)
    measures = _measure_opened(released, known, original, population)
    if workload is None:
        return measures
    return replace(measures, workload=_measure_workload(released, original, known, workload))


def _measure_opened(
    released: Source, known: Schema, original: Source | None, population: Source | None
) -> TableMeasures:
    names = [column.name for column in known.columns if column.role in _LOOKED_AT]
    quasi = [column.name for column in quasi_of(known.columns)]
    sidecar = described(released)
    if is_anatomy(released):
        before = None if original is None else _count_combinations(original, known, names)
        people = None if population is None else _count_combinations(population, known, quasi)
        rows = _count_combinations(part_of(released, "quasi"), known, quasi, released=True)
        measures = measure_counts(
            rows, known.by_role(Role.QUASI), original=before, population=people
        )
        return replace(measures, sensitive=_measure_groups(released, known, names, before))
    person = person_of(known)
    counts_people = person is not None and _names_person(
        person, known, table_of(released), original
    )
    if counts_people and person is not None:
        names = list(dict.fromkeys([*names, person]))
    measures = measure_counts(
        _count_combinations(table_of(released), known, names, released=True),
        known.columns,
        original=None if original is None else _count_combinations(original, known, names),
        population=None if population is None else _count_combinations(population, known, quasi),
        starred=None if sidecar is None else sidecar.starred,
        person=person if counts_people else None,
    )
    return replace(measures, person=person)


def _names_person(person: str, schema: Schema, *sources: Source | None) -> bool:
    """Return whether all these tables have the column of the person, and not as labels."""
    if schema.column(person).role is Role.QUASI:
        return False
    for source in sources:
        if source is not None:
            with closing(open_released(source, schema)) as engine:
                if person not in engine.columns(engine.table):
                    return False
    return True


def _measure_groups(
    folder: str | Path, schema: Schema, names: Sequence[str], original: Frequencies | None
) -> Mapping[str, Mapping[str, Any]]:
    """Measure the diversity of the groups of an anatomy, which are its classes."""
    groups = Column(GROUP, Kind.INTEGER, Role.QUASI)
    values = _count_combinations(
        part_of(folder, "sensitive"),
        _values_schema(schema),
        [GROUP, *names],
        released=True,
        weight=COUNT,
    )
    columns = [groups, *schema.by_role(Role.SENSITIVE)]
    return measure_counts(values, columns, reference=original, starred=False).sensitive


def _values_schema(schema: Schema) -> Schema:
    """Return the schema of the table of values of an anatomy."""
    added = (Column(GROUP, Kind.INTEGER), Column(COUNT, Kind.INTEGER))
    not_quasi = (column for column in schema.columns if column.role is not Role.QUASI)
    return Schema(schema.table, (*not_quasi, *added), layout=schema.layout)


def bound(
    released: Source, sql: str, schema: str | Path | Schema, *, labels: Trust = "public"
) -> AnswerBounds:
    """Bound the answer to a query on a released table, or on the two tables of an anatomy.

    Bounds hold for all tables that the released rows may stand for; suppressed rows are not
    included.
    """
    known = _known(schema)
    return _answering(released, known, [sql], labels)(sql)


def _answering(
    released: Source, known: Schema, questions: Sequence[str], labels: Trust = "public"
) -> Callable[[str], AnswerBounds]:
    """Return a function that answers these queries on a release, counted once for all."""
    names = _queried_columns(known, questions)
    for sql in questions:
        require_worlds(released, _queried_columns(known, [sql], looked_at=()))
    if not is_anatomy(released):
        sidecar, rows = (
            described(released),
            _count_combinations(table_of(released), known, names, released=True),
        )
        starred = sidecar is None or sidecar.starred
        return lambda sql: answer(sql, rows, known, labels=labels, starred=starred)
    columns = (*known.columns, Column(GROUP, Kind.INTEGER))
    grouped = Schema(known.table, columns, layout=known.layout)
    rows = _count_combinations(part_of(released, "quasi"), grouped, [*names, GROUP], released=True)
    values = _count_combinations(
        part_of(released, "sensitive"),
        _values_schema(known),
        [GROUP, *names],
        released=True,
        weight=COUNT,
    )
    return lambda sql: answer_buckets(sql, rows, values, known, group=GROUP)


def _queried_columns(
    schema: Schema, questions: Sequence[str], *, looked_at: Sequence[Role] = _LOOKED_AT
) -> list[str]:
    """Return the columns that the queries name, and those with these roles."""
    asked = [parse(sql, schema) for sql in questions]
    used = {name for question in asked for name in (*question.where.columns, question.measure)}
    return [c.name for c in schema.columns if c.role in looked_at or c.name in used]


def _measure_workload(
    released: Source, original: Source | None, known: Schema, questions: Sequence[str]
) -> Workload:
    """Measure the error of answers on a release against those on the original."""
    if original is None:
        raise ParameterError(
            "workload_invalid",
            "A workload compares answers on the release with those on its original. Name the table "
            f"that it was made from ({option('original')}).",
        )
    rows = _count_combinations(
        original, known, _queried_columns(known, questions, looked_at=()) or _any(known)
    )
    answered = _answering(released, known, questions)
    return compare_answers(questions, lambda sql: answer(sql, rows, known, starred=False), answered)


def _any(schema: Schema) -> list[str]:
    """Return a column to count rows by, if queries name none."""
    return [schema.columns[0].name]


def read_questions(path: Path) -> list[str]:
    """Read queries from a file, one on each line, without blank lines and SQL comments."""
    lines = read_text(path, title="Workload", most_mebibytes=MOST_MEBIBYTES).splitlines()
    return [line for line in map(str.strip, lines) if line and not line.startswith("--")]


def _count_combinations(
    source: Source,
    schema: Schema,
    names: Sequence[str],
    *,
    released: bool = False,
    weight: str | None = None,
) -> Frequencies:
    """Count combinations of these columns; of a release, of those that were not left out."""
    needed = {*names, weight}
    columns = tuple(column for column in schema.columns if column.name in needed)
    narrowed = Schema(schema.table, columns, layout=schema.layout)
    if not released:
        with closing(read(source, narrowed)) as table:
            return count_held(table.engine, table.engine.table, names, weight=weight)
    engine, narrowed = open_labels(source, narrowed)
    with closing(engine):
        check_columns(engine, narrowed)
        held = {column.name for column in narrowed.columns}
        present = [name for name in names if name in held]
        return count_held(engine, engine.table, present, weight=weight)


def part_of(folder: str | Path, name: str) -> Path:
    """Return one of the files of a release that is a directory."""
    files = sorted(Path(folder).glob(f"{name}.*"))
    if not files:
        raise SourceError(
            "release_unreadable",
            f"The directory {quoted(str(folder))} has no file {name}.csv or {name}.parquet, so it "
            "is no bucketized release. Name the directory that anatomy wrote.",
        )
    return files[0]


def is_anatomy(source: Source) -> TypeGuard[str | Path]:
    """Return whether a release has the two tables of an anatomy; a folder may hold one table."""
    if not isinstance(source, str | Path) or not Path(source).is_dir():
        return False
    sidecar = described(source)
    return sidecar is None or sidecar.tables > 1


def table_of(source: Source) -> Source:
    """Return the file of a release of one table, which may lie in a folder."""
    sidecar = described(source)
    return source if sidecar is None else sidecar.table


def _known(schema: str | Path | Schema) -> Schema:
    return schema if isinstance(schema, Schema) else load(Path(schema))
