"""Bounding a person's part in counts and sums: rows that are too many count less, each alike.

A person with N rows where m are allowed has every row counted as m / N of a row; so no row has to
be drawn, and what is summed is what drawing m of them would give on average. Weights are whole
numbers of 2^-17 rows, rounded down, so that a person's weights never add up to more than m rows.
Where only g groups are allowed, a person keeps the g whose keyed hash comes first, and N is what
they hold. Both depend on that person's own rows and on the salt alone. Rows without a person (NULL)
are left out: no bound would hold for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.contribution import COUNT, PERSON
from sfumato.hashing import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.privacy.units import Entity

WEIGHT = "sf_weight"
WHOLE_BITS = 17
WHOLE = 1 << WHOLE_BITS
"""The weight of a row of a person who is within the bounds."""


def weigh_rows(rows: exp.Query, unit: Entity) -> exp.Query:
    """Give every row of somebody its weight; only people with too many rows are looked up."""
    heavy = (
        exp.select(exp.column(PERSON), exp.alias_(_share(unit, _count()), WEIGHT, copy=False))
        .from_(rows.subquery("sf_counted"), copy=False)
        .group_by(exp.column(PERSON), copy=False)
        .having(_count() > exp.convert(unit.max_rows), copy=False)
    )
    weight = exp.Coalesce(
        this=exp.column(WEIGHT, table="sf_heavy"), expressions=[exp.convert(WHOLE)]
    )
    return (
        exp.select(
            exp.Column(this=exp.Star(), table=exp.to_identifier("sf_rows")),
            exp.alias_(weight, WEIGHT, copy=False),
        )
        .from_(rows.subquery("sf_rows", copy=False), copy=False)
        .join(
            heavy.subquery("sf_heavy", copy=False),
            on=_person("sf_rows").eq(_person("sf_heavy")),
            join_type="left",
            copy=False,
        )
        .where(_person("sf_rows").is_(exp.Null()).not_(), copy=False)
    )


def weigh_groups(groups: exp.Query, unit: Entity, keys: Sequence[str], salt: str) -> exp.Query:
    """Keep the first groups of everybody by keyed hash, and give what is left its weight.

    `groups` has any number of rows for each (PERSON, *keys), each standing for COUNT rows.
    """
    person = exp.column(PERSON)
    hashed = digest(salt, [person, *map(exp.column, keys)])
    order = [exp.Ordered(this=one, nulls_first=False) for one in (hashed, *map(exp.column, keys))]
    place = exp.Window(
        this=exp.DenseRank(), partition_by=[person.copy()], order=exp.Order(expressions=order)
    )
    placed = exp.select(exp.Star(), exp.alias_(place, "sf_place", copy=False)).from_(
        groups.subquery("sf_groups", copy=False), copy=False
    )
    rows = exp.Window(this=exp.Sum(this=exp.column(COUNT)), partition_by=[person.copy()])
    chosen = (
        exp.select(exp.Star(), exp.alias_(_integer(rows), "sf_total", copy=False))
        .from_(placed.subquery("sf_placed", copy=False), copy=False)
        .where(exp.column("sf_place") <= exp.convert(unit.groups), copy=False)
    )
    total = exp.column("sf_total")
    weight = exp.case().when(total <= exp.convert(unit.max_rows), exp.convert(WHOLE))
    return exp.select(
        exp.Star(), exp.alias_(weight.else_(_share(unit, total.copy())), WEIGHT, copy=False)
    ).from_(chosen.subquery("sf_chosen", copy=False), copy=False)


def _share(unit: Entity, rows: exp.Expr) -> exp.Expr:
    """The weight of one of too many rows."""
    allowed = exp.cast(exp.convert(unit.max_rows * WHOLE), "BIGINT")
    return _integer(exp.IntDiv(this=allowed, expression=rows))


def _count() -> exp.Expr:
    return _integer(exp.Count(this=exp.Star()))


def _person(table: str) -> exp.Column:
    return exp.column(PERSON, table=table)


def _integer(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("BIGINT"))
