"""Limits on the work of a query, from declarations alone and never from the size of a table.

Scanning a table takes time in proportion to its rows. Joins multiply: a person with n rows has n^4
after joining a table to itself three times. One person could thus decide by many rows whether a
question is answered in time, which would leak. So the rows of every person are capped before a
join, at a number that follows from declarations; a question that could be too much even then is
refused before anything is charged.

One GROUP BY finds the people with too many rows; only their rows are sorted by a keyed hash, and
the first ones stay. The sample of a person is a function of that person's rows and of the salt, so
that no row of another person changes it, and all bounds after the joins hold as before. Rows
without a person are left out.

The salt is secret and drawn for each question when it is answered: a plan, which is public, only
marks where the hash stands. Decision `contribution-bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt, prod
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.methods.query.sql.relation import PERSON, Block, RowScope, column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.data.counting.hashing import Keyed
    from sfumato.methods.query.expressions.typed_values import Typed
    from sfumato.methods.query.sql.relation import Relation
    from sfumato.methods.query.sql.select_blocks import SelectPlanner

WORK = 2**16
"""The rows of one person after the joins of a SELECT that caps allow, if possible."""

REFUSED = 2**20
"""Rows of one person after the joins of a SELECT, above which a question is refused."""

SCANS = 100
"""The most scans of tables in a question, with its caps written out."""

CHARACTERS_OF_A_ROW = 8
"""The characters of text whose computation takes as long as joining a row."""

CHARACTERS = 2**20
"""The most characters of text in one row of a SELECT."""


def row_caps(relations: Sequence[Relation], factors: Sequence[int | None]) -> list[int | None]:
    """How many rows of a person to keep of each relation before they are joined; None: all.

    A factor says how many rows of a relation meet one of the others at most, None where a person
    may have any number of them. Where only one factor is above 1 the rows do not multiply. No cap
    is below the `max_rows` that is declared: who keeps to what is declared loses nothing.
    """
    growing = [factor for factor in factors if factor != 1]
    if not growing or growing == [None]:
        return [None] * len(relations)
    pairs = list(zip(relations, factors, strict=True))

    def reached(common: int) -> int:
        return prod(_matching_rows(relation, factor, common) for relation, factor in pairs)

    low, high = 1, WORK
    while low < high:  # the largest cap that stays within the work, or 1
        middle = (low + high + 1) // 2
        low, high = (middle, high) if reached(middle) <= WORK else (low, middle - 1)
    if reached(low) > REFUSED:
        raise QueryError(
            "problem_too_large",
            f"Cannot join these tables: by what is declared one person may have {reached(low):,} "
            f"rows after it; at most {REFUSED:,} are computed. Join fewer tables at once, "
            "aggregate "
            "one by person first (SELECT person, ... GROUP BY person), or join public tables on "
            "columns of which fewer rows share a value.",
        )
    return [_row_cap(relation, low) for relation in relations]


def _matching_rows(relation: Relation, factor: int | None, common: int) -> int:
    """The rows of a relation that meet one of the others, after capping."""
    least = declared_rows(relation)
    if least is None or factor == 1:
        assert factor is not None
        return factor
    # Never below the declared bound on a person's rows, so that honest declarations lose no row.
    cap = max(common, least)
    return cap if factor is None else min(factor, cap)


def _row_cap(relation: Relation, common: int) -> int | None:
    least = declared_rows(relation)
    if least is None:
        return None
    cap = max(common, least)
    return cap if relation.rows_per_person is None or relation.rows_per_person > cap else None


def cap_beside_text(most: int, characters: int) -> int:
    """A cap for rows that hold texts: of two joined relations each gives up its square root."""
    return max(1, most // isqrt(1 + characters // CHARACTERS_OF_A_ROW))


def declared_rows(relation: Relation) -> int | None:
    """The declared number of rows of one person; None for relations that are never capped."""
    unit = relation.owner and relation.owner.unit
    return unit.max_rows if unit and unit.by_person else None


def check_texts(values: Iterable[Typed]) -> None:
    """Refuse rows that may hold more text than is computed."""
    length = sum(value.length or 0 for value in values)
    if length > CHARACTERS:
        raise QueryError(
            "overflow_possible",
            f"Cannot select these columns: by what is declared their texts may have {length:,} "
            f"characters in one row; at most {CHARACTERS:,} are computed. Select fewer, cut them "
            "with LEFT(x, n), or add under each in its schema: length = 100",
        )


def check_scans(scans: int) -> None:
    """Refuse a question whose joins, written out with their caps, read tables too often."""
    if scans > SCANS:
        raise QueryError(
            "sql_too_complex",
            f"Cannot plan the question: with its joins inside joins it reads tables {scans} times; "
            f"at most {SCANS} are allowed. Join fewer subqueries that are joins themselves, or "
            "aggregate them by person first.",
        )


_MARK, _RANK = "SF_KEYED", "place"
_READ = 4
"""The scans of a capped relation: light rows, heavy rows, and heavy people for each."""


@dataclass(frozen=True)
class Cap:
    """A cap on the rows of a person: lower beside long texts, never below `declared`."""

    rows: int
    declared: int
    lengths: Mapping[str, int]


def cap_rows(planner: SelectPlanner, relation: Relation, cap: int) -> Relation:
    """A relation with at most `cap` rows of each person, once the plan is written out.

    Which of its columns are used is known only then; rows that are equal in these are the same.
    """
    block = Block(RowScope(()), exp.select().from_(relation.item), relation)
    inner = planner.as_subquery(block, relation.columns)
    lengths = {value.tree.name: value.length or 0 for value in inner.columns.values()}
    planner.caps[inner.item.alias] = Cap(cap, declared_rows(relation) or 1, lengths)
    return replace(inner, keys=relation.keys, keys_hold=relation.keys_hold, rows_per_person=cap)


def write_caps(planner: SelectPlanner, query: exp.Select) -> exp.Select:
    """A query in which the caps of its relations stand as SQL."""
    for alias, cap in reversed(planner.caps.items()):  # enclosing relations were planned later
        used = {node.name for node in query.find_all(exp.Column) if node.table == alias}
        characters = sum(cap.lengths.get(name, 0) for name in used)
        most = max(cap.declared, cap_beside_text(cap.rows, characters))
        planner.smallest_cap = min(most, planner.smallest_cap or most)
        items = [item for item in query.find_all(exp.Subquery) if item.alias == alias]
        check_scans(_scans(query) + (_READ - 1) * sum(map(_scans, items)))
        for item in items:
            item.set("this", _capped_rows(planner, item.this, used, most))
    return query


def _scans(query: exp.Expr) -> int:
    return sum(1 for _ in query.find_all(exp.Table))


def _capped_rows(planner: SelectPlanner, rows: exp.Select, used: set[str], most: int) -> exp.Query:
    """The rows of those who have few, and the first ones of everybody else."""
    names = [output.alias for output in rows.expressions if output.alias in {*used, PERSON}]
    shown = [output for output in rows.expressions if output.alias in names]
    rows.set("expressions", shown)
    light_alias = planner.alias()
    heavy = _people_above_cap(planner, rows, most)
    light = _select_columns(light_alias, names).from_(_as_subquery(rows, light_alias), copy=False)
    # An anti-join: people with few rows keep all of them and are never sorted.
    light = light.join(heavy, on=_same_person(light_alias, heavy), join_type="left", copy=False)
    # Rows of nobody are left out: a join could not tell whose they are.
    known = column(light_alias, PERSON).is_(exp.Null()).not_()
    light = light.where(known, column(heavy.alias, PERSON).is_(exp.Null()), copy=False)
    return exp.union(light, _first_rows(planner, rows, names, most), distinct=False, copy=False)


def insert_hash(source: exp.Query, keyed: Keyed) -> exp.Query:
    """A source with the hash inserted where its plan marked it."""
    hashed = source.copy()
    for mark in list(hashed.find_all(exp.Anonymous)):
        if mark.this == _MARK:
            mark.replace(keyed.of(mark.expressions))
    return hashed


def _people_above_cap(planner: SelectPlanner, rows: exp.Query, most: int) -> exp.Subquery:
    """The people who have more rows than are kept."""
    inner = planner.alias()
    people = exp.select(column(inner, PERSON)).from_(_as_subquery(rows, inner), copy=False)
    people = people.group_by(column(inner, PERSON), copy=False)
    people = people.having(exp.Count(this=exp.Star()) > exp.convert(most), copy=False)
    return people.subquery(exp.to_identifier(planner.alias(), quoted=True), copy=False)


def _first_rows(planner: SelectPlanner, rows: exp.Query, names: list[str], most: int) -> exp.Select:
    """The rows of these people that come first; equal rows may stand in for each other."""
    heavy_alias, ranked_alias = planner.alias(), planner.alias()
    heavy = _people_above_cap(planner, rows, most)
    columns = [column(heavy_alias, name) for name in names]
    mark = exp.Anonymous(this=_MARK, expressions=[value.copy() for value in columns])
    order = [exp.Ordered(this=value, nulls_first=True) for value in (mark, *columns)]
    row_number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(heavy_alias, PERSON)],
        order=exp.Order(expressions=order),
    )
    ranked = _select_columns(heavy_alias, names).select(
        exp.alias_(row_number, _RANK, quoted=True), copy=False
    )
    ranked = ranked.from_(_as_subquery(rows, heavy_alias), copy=False)
    ranked = ranked.join(heavy, on=_same_person(heavy_alias, heavy), copy=False)
    item = ranked.subquery(exp.to_identifier(ranked_alias, quoted=True), copy=False)
    first_rows = _select_columns(ranked_alias, names).from_(item, copy=False)
    return first_rows.where(column(ranked_alias, _RANK) <= exp.convert(most), copy=False)


def _select_columns(alias: str, names: list[str]) -> exp.Select:
    return exp.select(*(column(alias, name) for name in names))


def _as_subquery(query: exp.Query, alias: str) -> exp.Subquery:
    """A copy of a query as a subquery."""
    return query.subquery(exp.to_identifier(alias, quoted=True))


def _same_person(alias: str, heavy: exp.Subquery) -> exp.Expr:
    return column(alias, PERSON).eq(column(heavy.alias, PERSON))
