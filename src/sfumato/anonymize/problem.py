"""The problem that a search solves: counts, hierarchies, criteria and a suppression limit.

Decisions `principals` and `criteria`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria.identity import KAnonymity
from sfumato.anonymize.lattice_grouping import View
from sfumato.anonymize.original import Order, Quasi, RowOwners, SensitiveColumn, order_of
from sfumato.anonymize.rolled_up_counts import roll_up
from sfumato.anonymize.taxonomy import grow
from sfumato.data.counting.frequencies import count
from sfumato.data.counting.memory_limit import TooManyCombinationsError, most_combinations
from sfumato.data.schema.column import Kind, Role
from sfumato.data.schema.names import quoted
from sfumato.data.schema.toml_document import add_line
from sfumato.errors import CriterionError, ParameterError, SchemaError, SourceError, option
from sfumato.exact_numbers import probability

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlglot import exp

    from sfumato.anonymize.criteria.base import Criterion
    from sfumato.anonymize.lattice import Floor
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy import Taxonomy
    from sfumato.data.schema.schema import Schema
    from sfumato.exact_numbers import Number
    from sfumato.release.open_table import Table


_MOST_ROWS = 3_037_000_499
"""The square of a number of rows must fit 63 bits, so that no cost and no comparison overflows."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A table to anonymize, as arrays.

    `views` group the same rows for each use: the first gives the sizes of classes, and each
    sensitive column of a criterion has its own view. `allowed` is the number of rows that may be
    suppressed, or of people if `people` are counted. If the combinations of the table do not fit in
    memory, it was counted at the levels of its `floor`, and no node is below these.
    """

    quasi: tuple[Quasi, ...]
    views: tuple[View, ...]
    criteria: tuple[Criterion, ...]
    rows: int
    allowed: int
    people: RowOwners | None = None
    floor: Floor | None = None

    @classmethod
    def build(
        cls,
        frequencies: Frequencies,
        taxonomies: Mapping[str, Taxonomy],
        quasi: Sequence[str],
        criteria: Sequence[Criterion],
        *,
        suppression_limit: Number = 0,
        population: Frequencies | None = None,
        orders: Mapping[str, Order] | None = None,
        person: str | None = None,
        floor: Floor | None = None,
    ) -> Problem:
        """Build the problem from counts over quasi-identifiers and sensitive columns.

        `taxonomies` has the hierarchy of every quasi-identifier over all values of table and
        population, and of sensitive columns that are compared along one; `orders` the order of
        sensitive columns. The limit is the share of rows that may be suppressed, an exact decimal.
        With a `person` column, which was counted too, people are counted. With a `floor`, a value
        represents all that have its label there.
        """
        _check(frequencies, taxonomies, quasi, criteria, population)
        limit = probability(suppression_limit, "suppress")
        if floor is None:
            columns = tuple(Quasi.build(name, taxonomies[name], frequencies) for name in quasi)
        else:
            columns = tuple(
                Quasi.build(name, taxonomies[name], floor.columns[name], floor.united.get(name))
                for name in quasi
            )
        # A dict keeps the order of criteria and drops repeats.
        needed = dict.fromkeys(c.column for c in criteria if c.column is not None)
        views = []
        for name in needed:
            order = (orders or {}).get(name, Order())
            ranked = SensitiveColumn.of(
                frequencies, name, order, taxonomies.get(name), person=person
            )
            views.append(View.of_values(columns, frequencies, ranked, person))
        if population is not None or person is not None or not views:
            views.insert(0, View.of_rows(columns, frequencies, population, person))
        people = None if person is None else RowOwners.of(frequencies, person)
        rows = frequencies.total
        # The limit is an exact fraction; rounding down keeps the share at most what was asked.
        allowed = int(limit * (rows if people is None else people.count))
        return cls(columns, tuple(views), tuple(criteria), rows, allowed, people, floor)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each quasi-identifier."""
        return tuple(column.taxonomy.height + 1 for column in self.quasi)

    @cached_property
    def top(self) -> tuple[int, ...]:
        """The levels of the root of the lattice."""
        return tuple(column.taxonomy.height for column in self.quasi)

    @cached_property
    def bottom(self) -> tuple[int, ...]:
        """The levels of the finest node that can be examined."""
        return (0,) * len(self.quasi) if self.floor is None else self.floor.levels

    @cached_property
    def k(self) -> int:
        """The k of k-anonymity, 1 where it is not asked."""
        return max((c.k for c in self.criteria if isinstance(c, KAnonymity)), default=1)

    @cached_property
    def necessary(self) -> tuple[Criterion, ...]:
        """The absorbing consequences of the criteria."""
        consequences = (criterion.consequence for criterion in self.criteria)
        return tuple(dict.fromkeys(c for c in consequences if c is not None))

    @cached_property
    def further(self) -> tuple[Criterion, ...]:
        """The criteria that are more than their absorbing consequences."""
        return tuple(c for c in self.criteria if c not in self.necessary)

    @cached_property
    def smallest(self) -> int:
        """No class with fewer rows, or people where they are counted, passes."""
        if self.people is not None:
            return max((criterion.crowd for criterion in self.criteria), default=1)
        return max((criterion.smallest for criterion in self.criteria), default=1)

    @cached_property
    def allowed_rows(self) -> int:
        """The most rows that may be suppressed."""
        return self.allowed if self.people is None else self.people.most_rows(self.allowed)

    @cached_property
    def monotone(self) -> bool:
        """Whether every node above an admissible one is admissible."""
        # Absorbing criteria keep passing as classes grow. Others do only where no rows join a class
        # late (nothing is suppressed) and no person stands in two classes.
        return not self.further or (
            self.allowed == 0
            and self.people is None
            and all(criterion.union_closed for criterion in self.criteria)
        )

    @cached_property
    def worded(self) -> tuple[str, ...]:
        """Each criterion in words, with the order that it goes by."""
        originals = {view.original.name: view.original for view in self.views if view.original}
        return tuple(
            criterion.worded(originals.get(criterion.column or "")) for criterion in self.criteria
        )

    def asked(self) -> str:
        """Return the criteria in words, with "people" if people are counted."""
        asked = " and ".join(self.worded)
        if self.people is None:
            return asked
        once = (
            ", each once for each value"
            if any(criterion.column for criterion in self.criteria)
            else ""
        )
        return f"{asked}, counting people ({self.people.column}){once}"

    def counted(self, number: int) -> str:
        """Write a number of rows, or of people."""
        if self.people is None:
            return f"{number:,} of {self.rows:,} rows"
        return f"{number:,} of {self.people.count:,} people"


def _check(
    frequencies: Frequencies,
    taxonomies: Mapping[str, Taxonomy],
    quasi: Sequence[str],
    criteria: Sequence[Criterion],
    population: Frequencies | None,
) -> None:
    """Refuse what cannot be a problem, before anything is computed."""
    if not quasi:
        raise SchemaError(
            "role_invalid",
            "Nothing can be generalized: the schema has no quasi-identifier. Give at least one "
            'column role = "quasi".',
        )
    if not criteria:
        raise no_criterion()
    bare = [name for name in quasi if name not in taxonomies]
    if bare:
        raise SchemaError(
            "hierarchy_missing",
            f"Column {bare[0]!r} is a quasi-identifier without a hierarchy. Declare one, or "
            "another role.",
        )
    if population is None and any(criterion.compares_population for criterion in criteria):
        raise ParameterError(
            "parameter_missing",
            "A criterion compares the release with a population, but no population table was "
            "given. Give one, or drop k-map and delta-presence.",
            parameter="population",
        )
    if not frequencies.total:
        raise SourceError("table_empty", "The table has no rows: there is nothing to anonymize.")
    if max(frequencies.total, 0 if population is None else population.total) > _MOST_ROWS:
        raise SourceError(
            "problem_too_large",
            f"The table has {frequencies.total:,} rows; at most {_MOST_ROWS:,} can be compared "
            "exactly. Anonymize it in parts.",
        )
    for criterion in criteria:
        if criterion.column is not None and criterion.column not in frequencies.columns:
            raise ParameterError(
                "column_unknown",
                f"A criterion names column {criterion.column!r}, which was not counted; "
                f"counted are {', '.join(map(repr, frequencies.columns))}. "
                "Name a sensitive column of the table.",
            )
        if criterion.column in quasi:
            raise ParameterError(
                "role_invalid",
                f"Column {criterion.column!r} cannot be quasi-identifier and sensitive at once. "
                "Change its role, or ask the criterion of another column.",
            )


def no_criterion() -> ParameterError:
    """Return the error for a request without any criterion."""
    return ParameterError(
        "parameter_missing",
        f"No criterion was asked for. Ask for one, such as {option('k', 5)}.",
        parameter="k",
    )


_PROPOSED = {
    Kind.INTEGER: "{ widths = [5, 10, 20] }",
    Kind.REAL: "{ widths = [5, 10, 20] }",
    Kind.DATE: '{ dates = ["month", "year", "decade"] }',
    Kind.TEXT: '{ tree = "*" } to keep or remove values whole, { mask = "right" } for codes',
    Kind.BOOLEAN: "{ tree = [true, false] }",
}


def pose(
    table: Table,
    criteria: Sequence[Criterion],
    *,
    suppress: Number,
    population: Table | None = None,
    further: Sequence[str] = (),
    rolls_up: bool = True,
    to_roots: bool = False,
    shared: Sequence[exp.Expr] = (),
) -> tuple[Problem, Frequencies]:
    """Pose the problem, and return the counts of quasi-identifiers, sensitive and other columns.

    If the privacy unit is a person, that column is counted too, because the people of a class are
    known only by identity. The population is counted by quasi-identifiers alone. If all that does
    not fit in memory, it is counted at the finest levels that fit, or `to_roots`, or refused. For
    the `shared` columns, combinations have the value that all their rows share.
    """
    quasi = [column.name for column in table.schema.by_role(Role.QUASI)]
    sensitive = list(dict.fromkeys(c.column for c in criteria if c.column is not None))
    columns = list(dict.fromkeys([*quasi, *sensitive, *further]))
    for name in columns:
        _require_hierarchy(table.schema.column(name), released=table.released)
    person = person_of(table.schema)
    counted = list(dict.fromkeys([*columns, *([] if person is None else [person])]))
    sources = [table] if population is None else [table, population]
    names = [counted, quasi][: len(sources)]
    # First try to hold every combination; only where that is too much, coarser levels.
    rolled = None
    try:
        shared_by_table = [shared, ()]
        tables = [
            counted_whole(*request)
            for request in zip(sources, names, shared_by_table, strict=False)
        ]
    except TooManyCombinationsError:
        if not rolls_up or not quasi:
            raise
        rolled = roll_up(sources, quasi, names, _grown, to_roots=to_roots)
        tables = rolled.tables
    _require_rows(tables[0], person, criteria)
    grown = {} if rolled is None else dict(rolled.taxonomies)
    for name in columns:
        column = table.schema.column(name)
        if name not in grown and column.hierarchy is not None:
            grown[name] = _grown(column, tables)
    problem = Problem.build(
        tables[0],
        grown,
        quasi,
        criteria,
        suppression_limit=suppress,
        population=None if population is None else tables[1],
        orders={name: order_of(table.schema.column(name)) for name in sensitive},
        person=person,
        floor=None if rolled is None else rolled.floor,
    )
    return problem, tables[0]


def counted_whole(
    table: Table, names: Sequence[str], shared: Sequence[exp.Expr] = ()
) -> Frequencies:
    """Count all combinations of some columns; raise if they do not fit in memory."""
    most = most_combinations(len(names))
    return count(table.engine, table.engine.table, names, most=most, shared=shared)


def person_of(schema: Schema) -> str | None:
    """Return the column of the person, if the privacy unit is a person."""
    return schema.unit.column


def _require_hierarchy(column: Column, *, released: bool) -> None:
    """Refuse a quasi-identifier without a hierarchy, and propose one to declare."""
    if column.role is Role.QUASI and column.hierarchy is None:
        if released:
            raise SchemaError(
                "table_is_release",
                "This table is a release already, as the side-car beside it tells: the hierarchies "
                "of its schema are of the original, not of labels. Anonymize the original.",
            )
        raise SchemaError(
            "hierarchy_missing",
            f"Column {quoted(column.name)} is a quasi-identifier without a hierarchy. "
            f"{add_line(column.name, f'hierarchy = {_PROPOSED[column.kind]}')}; or let "
            "`sfumato inspect` propose one, or give it another role.",
        )


def _require_rows(table: Frequencies, person: str | None, criteria: Sequence[Criterion]) -> None:
    """Refuse a k above the number of rows, or people, in plain words; no search can reach it."""
    k = max((criterion.k for criterion in criteria if isinstance(criterion, KAnonymity)), default=1)
    total, unit = table.total, "rows"
    if person is not None:
        total, unit = len(table.marginal([person])), "people"
    if 0 < total < k:
        raise CriterionError(
            "criterion_not_reachable",
            f"No release is {k:,}-anonymous: the table has only {total:,} {unit}. Ask for a "
            f"smaller k, or collect more {unit}.",
        )


def _grown(column: Column, tables: Sequence[Frequencies]) -> Taxonomy:
    """Return the hierarchy of a column over all its values; errors name the column."""
    axes = [counts.axis(column.name) for counts in tables if column.name in counts.columns]
    values = [value for axis in axes for value in axis.decode(np.arange(axis.size)).to_pylist()]
    try:
        grown = grow(column, values)
        grown.locate(values)
    except SchemaError as error:
        message = f"Column {quoted(column.name)}: {error.sentence}"
        raise SchemaError(error.code, message, detail=error.detail) from None
    return grown
