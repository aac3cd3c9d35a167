"""The problem of a release: criteria from the numbers given, counts of what they look at.

Decisions 0111, 0185.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from sfumato import arguments
from sfumato.anonymize.criteria import (
    BetaLikeness,
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
from sfumato.anonymize.criteria.closeness import Distance
from sfumato.anonymize.original import order_of
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.rolled_up_counts import roll_up
from sfumato.anonymize.taxonomy import grow
from sfumato.data.counting.frequencies import count
from sfumato.data.counting.memory_limit import TooManyCombinationsError, most_combinations
from sfumato.data.schema.advice import add_line
from sfumato.data.schema.column import Kind, Role
from sfumato.data.schema.names import quoted
from sfumato.errors import CriterionError, ParameterError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    from sfumato.anonymize.criteria import Criterion
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy.base import Taxonomy
    from sfumato.data.schema.schema import Schema
    from sfumato.exact_numbers import Number
    from sfumato.release.open_table import Table

Diversity = Literal["distinct", "entropy", "recursive", "folk"]
_DIVERSITIES: dict[str, Callable[[int, str], Criterion]] = {
    "distinct": DistinctDiversity,
    "entropy": EntropyDiversity,
    "folk": FolkDiversity,
}


@dataclass(frozen=True, kw_only=True)
class CriteriaRequest:
    """The numbers that a person gave; decimals as they were written, so that they stay exact."""

    k: int | None = None
    l: int | None = None  # noqa: E741  # the literature's own name
    diversity: Diversity | None = None
    c: Number | None = None
    t: Number | None = None
    distance: Distance | None = None
    delta_disclosure: Number | None = None
    beta: Number | None = None
    presence: str | tuple[Number, Number] | None = None
    population: bool = False

    def criteria(self, schema: Schema, sensitive: Sequence[str] = ()) -> list[Criterion]:
        """The criteria, those of sensitive values once for each column named or declared so."""
        self._check()
        found: list[Criterion] = []
        if self.k is not None:
            # A population that is not asked about presence is there to be hidden in.
            hidden_in_population = self.population and self.presence is None
            found.append(KMap(self.k) if hidden_in_population else KAnonymity(self.k))
        if self.presence is not None:
            found.append(_presence(self.presence))
        if (self.l, self.t, self.delta_disclosure, self.beta) == (None, None, None, None):
            return found
        columns = list(sensitive) or [one.name for one in schema.by_role(Role.SENSITIVE)]
        if not columns:
            raise ParameterError(
                "sensitive_none",
                "No column is sensitive, so l, t, beta and delta-disclosure have nothing to look "
                'at. Give a column role = "sensitive", or name it with --sensitive.',
            )
        for name in columns:
            schema.column(name)
            found += self._of(name)
        return found

    def _of(self, column: str) -> list[Criterion]:
        """The criteria of one sensitive column."""
        found: list[Criterion] = []
        if self.l is not None:
            if self.diversity == "recursive":
                assert self.c is not None
                found.append(RecursiveDiversity(self.l, column, c=self.c))
            else:
                found.append(_DIVERSITIES[self.diversity or "distinct"](self.l, column))
        if self.t is not None:
            found.append(TCloseness(self.t, column, distance=self.distance or "equal"))
        if self.delta_disclosure is not None:
            found.append(DeltaDisclosure(self.delta_disclosure, column))
        if self.beta is not None:
            found.append(BetaLikeness(self.beta, column))
        return found

    def _check(self) -> None:
        """Refuse numbers that belong to something that was not asked."""
        if self.diversity is not None:
            arguments.one_of(self.diversity, "diversity", get_args(Diversity))
        if self.distance is not None:
            arguments.one_of(self.distance, "distance", get_args(Distance))
        if self.diversity is not None and self.l is None:
            raise _lonely("--diversity", "--l")
        if self.distance is not None and self.t is None:
            raise _lonely("--distance", "--t")
        if (self.diversity == "recursive") != (self.c is not None):
            raise ParameterError(
                "recursive_needs_c",
                "Recursive diversity needs --c, and no other kind takes it. Give both "
                "--diversity recursive and --c C, or neither.",
            )
        if self.presence is not None and not self.population:
            raise _lonely("--presence", "--population")


def _lonely(given: str, needed: str) -> ParameterError:
    return ParameterError(
        "option_without_other", f"{given} means nothing without {needed}. Give both, or neither."
    )


def _presence(shares: str | tuple[Number, Number]) -> DeltaPresence:
    ends: Any = shares.split(",") if isinstance(shares, str) else shares
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        raise ParameterError(
            "presence_not_two",
            f"Presence must be two shares such as 0,0.5, not {arguments.shown(shares)}.",
        )
    return DeltaPresence(*ends)


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
    """Set the problem up, and give the counts of quasi-identifiers, sensitive and further columns.

    Where the unit is a person, their column is counted too: how many people a class has is known
    only from who they are. The population is counted by the quasi-identifiers alone. Where all that
    is too much for memory, it is counted at the finest levels that fit, or `to_roots`, or refused.
    What rows of a combination have in common of the `shared` is told where all were counted.
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
    rolled = None
    try:
        told = [shared, ()]
        tables = [counted_whole(*one) for one in zip(sources, names, told, strict=False)]
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
    """All combinations of some columns, or a refusal where they do not fit in memory."""
    most = most_combinations(len(names))
    return count(table.engine, table.engine.table, names, most=most, shared=shared)


def person_of(schema: Schema) -> str | None:
    """The column that says whose row it is, where the unit is a person."""
    return schema.unit.column


def _require_hierarchy(column: Column, *, released: bool) -> None:
    """Refuse a quasi-identifier that nothing says how to make coarser, with what to write."""
    if column.role is Role.QUASI and column.hierarchy is None:
        if released:
            raise SchemaError(
                "already_released",
                "This table is a release already, as the side-car beside it tells: the hierarchies "
                "of its schema are of the original, not of labels. Anonymize the original.",
            )
        raise SchemaError(
            "quasi_without_hierarchy",
            f"Column {quoted(column.name)} is a quasi-identifier without a hierarchy. "
            f"{add_line(column.name, f'hierarchy = {_PROPOSED[column.kind]}')}; or let "
            "`sfumato inspect --write` propose one, or give it another role.",
        )


def _require_rows(table: Frequencies, person: str | None, criteria: Sequence[Criterion]) -> None:
    """Refuse a k above the number of rows, or people, in plain words; no search can reach it."""
    k = max((one.k for one in criteria if isinstance(one, KAnonymity)), default=1)
    many, what = table.total, "rows"
    if person is not None:
        many, what = len(table.marginal([person])), "people"
    if 0 < many < k:
        raise CriterionError(
            "k_above_rows",
            f"No release is {k:,}-anonymous: the table has only {many:,} {what}. Ask for a smaller "
            f"k, or collect more {what}.",
        )


def _grown(column: Column, tables: Sequence[Frequencies]) -> Taxonomy:
    """The hierarchy of a column over all values declared or met; its errors name the column."""
    axes = [one.axis(column.name) for one in tables if column.name in one.columns]
    values = [value for axis in axes for value in axis.decode(np.arange(axis.size)).to_pylist()]
    try:
        grown = grow(column, values)
        grown.locate(values)
    except SchemaError as error:
        message = f"Column {quoted(column.name)}: {error.message}"
        raise SchemaError(error.code, message, detail=error.detail) from None
    return grown
