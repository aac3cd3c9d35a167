"""Bounding what one person contributes, in SQL, before anything is counted.

A person's rows are first reduced to (person, key, count). Of the keys at most `max_groups` are
kept, those whose keyed hash comes first. Of the rows that remain at most `max_rows` are kept, by
systematic sampling along the hashed order: with N rows, C the running count and r an offset in
[0, N) from the same hash, a key keeps

    floor((C m + r) / N) - floor((C' m + r) / N)        C' the running count before it

rows: m in all, never more than it has, and each row with probability m/N. What is kept of a person
is a function of that person's own rows and of the salt alone: not of other people, and not of the
order in which rows lie in a file. The salt is secret and drawn anew for each release, so nobody can
craft keys that survive. Rows without a person (NULL) are left out: no bound would hold for them.

Only persons above a bound are hashed; all others pass as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.hashing import digest, integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.privacy.units import Entity

PERSON, COUNT = "sf_person", "sf_count"


def bound(rows: exp.Query, unit: Entity, keys: Sequence[str], salt: str) -> exp.Query:
    """Turn rows of (PERSON, *keys) into rows of (*keys, COUNT), bounded for every person."""
    columns = [exp.column(key) for key in keys]
    within = (
        exp.select(*(exp.column(name, table="sf_grouped") for name in (*keys, COUNT)))
        .from_("sf_grouped")
        .join("sf_excessive", on=_same_person(), join_type="left")
        .where(exp.column(PERSON, table="sf_excessive").is_(exp.Null()))
    )
    sampled = exp.select(*columns, exp.alias_(_kept(unit.max_rows), COUNT)).from_("sf_chosen")
    return (
        exp.union(within, sampled, distinct=False)
        .with_("sf_grouped", as_=_grouped(rows, columns))
        .with_("sf_excessive", as_=_excessive(unit))
        .with_("sf_hashed", as_=_hashed(keys, salt))
        .with_("sf_placed", as_=_placed(columns))
        .with_("sf_chosen", as_=_chosen(columns, unit.groups))
    )


def _grouped(rows: exp.Query, columns: Sequence[exp.Column]) -> exp.Query:
    """(person, key, count) of everybody."""
    person = exp.column(PERSON)
    return (
        exp.select(person, *columns, exp.alias_(_integer(exp.Count(this=exp.Star())), COUNT))
        .from_(rows.subquery("sf_rows"))
        .where(person.is_(exp.Null()).not_())
        .group_by(person, *columns)
    )


def _excessive(unit: Entity) -> exp.Query:
    """The persons with more rows or more groups than the unit allows."""
    too_many_rows = exp.Sum(this=exp.column(COUNT)) > exp.convert(unit.max_rows)
    too_many_groups = exp.Count(this=exp.Star()) > exp.convert(unit.groups)
    return (
        exp.select(PERSON)
        .from_("sf_grouped")
        .group_by(PERSON)
        .having(exp.or_(too_many_rows, too_many_groups))
    )


def _hashed(keys: Sequence[str], salt: str) -> exp.Query:
    """The groups of excessive persons, each with its keyed hash and the person's."""
    person = exp.column(PERSON, table="sf_grouped")
    columns = [exp.column(key, table="sf_grouped") for key in keys]
    return (
        exp.select(
            person,
            *columns,
            exp.column(COUNT, table="sf_grouped"),
            exp.alias_(digest(salt, [person, *columns]), "sf_hash"),
            exp.alias_(digest(salt, [person]), "sf_person_hash"),
        )
        .from_("sf_grouped")
        .join("sf_excessive", on=_same_person())
    )


def _placed(columns: Sequence[exp.Column]) -> exp.Query:
    """Each person's groups in the order of their hash; the keys themselves break ties."""
    order = [exp.Ordered(this=c, nulls_first=False) for c in (exp.column("sf_hash"), *columns)]
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(PERSON)],
        order=exp.Order(expressions=order),
    )
    return exp.select(exp.Star(), exp.alias_(place, "sf_place")).from_("sf_hashed")


def _chosen(columns: Sequence[exp.Column], groups: int) -> exp.Query:
    """The first groups of each person, with running and total counts and the person's offset."""
    person, count, place = (exp.column(name) for name in (PERSON, COUNT, "sf_place"))
    total = exp.Window(this=exp.Sum(this=count), partition_by=[person])
    order = exp.Order(expressions=[exp.Ordered(this=place.copy(), nulls_first=False)])
    running = exp.Window(this=exp.Sum(this=count.copy()), partition_by=[person.copy()], order=order)
    return (
        exp.select(
            *columns,
            count,
            exp.alias_(_integer(total), "sf_total"),
            exp.alias_(_integer(running), "sf_running"),
            exp.alias_(integer(exp.column("sf_person_hash")), "sf_digits"),
        )
        .from_("sf_placed")
        .where(place.copy() <= exp.convert(groups))
    )


def _kept(max_rows: int) -> exp.Expr:
    """How many rows a chosen group keeps."""
    total, running, count = (exp.column(name) for name in ("sf_total", "sf_running", COUNT))
    offset = exp.Mod(this=exp.column("sf_digits"), expression=total)

    def rows_up_to(position: exp.Expr) -> exp.Expr:
        along = exp.Paren(this=position) * exp.convert(max_rows) + exp.Paren(this=offset.copy())
        return _integer(exp.IntDiv(this=exp.Paren(this=along), expression=total.copy()))

    sampled = rows_up_to(running) - rows_up_to(running - count)
    return exp.case().when(total <= exp.convert(max_rows), count).else_(sampled)


def _same_person() -> exp.Expr:
    return exp.column(PERSON, table="sf_grouped").eq(exp.column(PERSON, table="sf_excessive"))


def _integer(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, "BIGINT")
