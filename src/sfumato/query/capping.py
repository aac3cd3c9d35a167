"""Capping what a person has in a relation before it is joined, by that person's own rows alone.

People with too many rows are found by one GROUP BY; only their rows are put into the order of a
keyed hash, of which the first ones stay. Whatever the hash is, what is kept of a person is a
function of that person's rows and of the salt, so that no row of anybody else moves it, and every
bound that is established after the joins holds as before. Rows without a person are left out.

The salt is secret and drawn for each question when it is answered: a plan, which is public, only
marks the place of the hash.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.query.relation import PERSON, Block, RowScope, column
from sfumato.query.work import beside_text, check_scans, least_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.hashing import Keyed
    from sfumato.query.blocks import Planner
    from sfumato.query.relation import Relation

_MARK, _PLACE = "SF_KEYED", "place"
_READ = 4
"""How often a relation is read where it is capped."""


@dataclass(frozen=True)
class Cap:
    """At most so many rows of a person, never fewer than `least`; beside long texts fewer."""

    most: int
    least: int
    lengths: Mapping[str, int]


def capped(planner: Planner, relation: Relation, most: int) -> Relation:
    """A relation of which everybody keeps at most so many rows, once the plan is written out.

    Which of its columns are used is known only then; rows that are equal in these are the same.
    """
    block = Block(RowScope(()), exp.select().from_(relation.item), relation)
    inner = planner.beneath(block, relation.columns)
    lengths = {value.tree.name: value.length or 0 for value in inner.columns.values()}
    planner.caps[inner.item.alias] = Cap(most, least_rows(relation) or 1, lengths)
    return replace(inner, keys=relation.keys, keys_hold=relation.keys_hold, most=most)


def written_out(planner: Planner, query: exp.Select) -> exp.Select:
    """A query in which the caps of its relations stand as SQL."""
    for alias, cap in reversed(planner.caps.items()):  # what encloses others was planned later
        used = {one.name for one in query.find_all(exp.Column) if one.table == alias}
        characters = sum(cap.lengths.get(name, 0) for name in used)
        most = max(cap.least, beside_text(cap.most, characters))
        planner.kept = min(most, planner.kept or most)
        items = [item for item in query.find_all(exp.Subquery) if item.alias == alias]
        check_scans(_scans(query) + (_READ - 1) * sum(map(_scans, items)))
        for item in items:
            item.set("this", _kept(planner, item.this, used, most))
    return query


def _scans(query: exp.Expr) -> int:
    return sum(1 for _ in query.find_all(exp.Table))


def _kept(planner: Planner, rows: exp.Select, used: set[str], most: int) -> exp.Query:
    """The rows of those who have few, and the first ones of everybody else."""
    names = [one.alias for one in rows.expressions if one.alias in {*used, PERSON}]
    shown = [one for one in rows.expressions if one.alias in names]
    rows.set("expressions", shown)
    alone = planner.alias()
    heavy = _heavy(planner, rows, most)
    light = _selected(alone, names).from_(_under(rows, alone), copy=False)
    light = light.join(heavy, on=_same(alone, heavy), join_type="left", copy=False)
    known = column(alone, PERSON).is_(exp.Null()).not_()
    light = light.where(known, column(heavy.alias, PERSON).is_(exp.Null()), copy=False)
    return exp.union(light, _first(planner, rows, names, most), distinct=False, copy=False)


def salted(source: exp.Query, keyed: Keyed) -> exp.Query:
    """A source in which the hash stands where its plan marked it."""
    changed = source.copy()
    for mark in list(changed.find_all(exp.Anonymous)):
        if mark.this == _MARK:
            mark.replace(keyed.of(mark.expressions))
    return changed


def _heavy(planner: Planner, rows: exp.Query, most: int) -> exp.Subquery:
    """The people who have more rows than are kept."""
    inner = planner.alias()
    found = exp.select(column(inner, PERSON)).from_(_under(rows, inner), copy=False)
    found = found.group_by(column(inner, PERSON), copy=False)
    found = found.having(exp.Count(this=exp.Star()) > exp.convert(most), copy=False)
    return found.subquery(exp.to_identifier(planner.alias(), quoted=True), copy=False)


def _first(planner: Planner, rows: exp.Query, names: list[str], most: int) -> exp.Select:
    """The rows of these people that come first; equal rows may stand in for each other."""
    crowded, placed = planner.alias(), planner.alias()
    heavy = _heavy(planner, rows, most)
    own = [column(crowded, name) for name in names]
    mark = exp.Anonymous(this=_MARK, expressions=[one.copy() for one in own])
    order = [exp.Ordered(this=one, nulls_first=True) for one in (mark, *own)]
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(crowded, PERSON)],
        order=exp.Order(expressions=order),
    )
    ranked = _selected(crowded, names).select(exp.alias_(place, _PLACE, quoted=True), copy=False)
    ranked = ranked.from_(_under(rows, crowded), copy=False)
    ranked = ranked.join(heavy, on=_same(crowded, heavy), copy=False)
    item = ranked.subquery(exp.to_identifier(placed, quoted=True), copy=False)
    kept = _selected(placed, names).from_(item, copy=False)
    return kept.where(column(placed, _PLACE) <= exp.convert(most), copy=False)


def _selected(alias: str, names: list[str]) -> exp.Select:
    return exp.select(*(column(alias, name) for name in names))


def _under(query: exp.Query, alias: str) -> exp.Subquery:
    """A copy of a query as a subquery."""
    return query.subquery(exp.to_identifier(alias, quoted=True))


def _same(alias: str, heavy: exp.Subquery) -> exp.Expr:
    return column(alias, PERSON).eq(column(heavy.alias, PERSON))
