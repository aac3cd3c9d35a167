"""Bounding a person's part in counts and sums: rows that are too many count less, each alike.

A person with N rows where m are allowed has every row counted as m / N of a row; so no row has to
be drawn, and what is summed is what drawing m of them would give on average. Weights are whole
numbers of 2^-17 rows, rounded down, so that a person's weights never add up to more than m rows.

Where only g groups are allowed, a person keeps the g whose keyed hash comes first, and N is what
they hold. Sorting every group of everybody would be the whole cost of a question, so the range of
the hash is cut into 62 buckets: one pass finds which buckets each person uses, as the bits of one
number, and a second drops the rows beyond the person's g first ones. Only what is left, little more
than is kept, has to be sorted.

Both depend on that person's own rows and on the salt alone. Rows without a person (NULL) are left
out: no bound would hold for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.contribution import PERSON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.hashing import Keyed
    from sfumato.privacy.units import Entity

WEIGHT = "sf_weight"
WHOLE_BITS = 17
WHOLE = 1 << WHOLE_BITS
"""The weight of a row of a person who is within the bounds."""

_BUCKETS = 62
"""As many bits of a signed 64-bit integer can be set without coming near its sign."""

_BIT, _USED = "sf_bit", "sf_used"


def weigh_rows(rows: exp.Query, unit: Entity) -> exp.Select:
    """Give every row of somebody its weight; only people with too many rows are looked up."""
    size = _integer(exp.Count(this=exp.Star()))
    allowed = exp.cast(exp.convert(unit.max_rows * WHOLE), "BIGINT")
    share = _integer(exp.IntDiv(this=allowed, expression=size))
    heavy = (
        exp.select(exp.column(PERSON), exp.alias_(share, WEIGHT, copy=False))
        .from_(rows.subquery("sf_counted"), copy=False)
        .group_by(exp.column(PERSON), copy=False)
        .having(size.copy() > exp.convert(unit.max_rows), copy=False)
    )
    weight = exp.Coalesce(
        this=exp.column(WEIGHT, table="sf_found"), expressions=[exp.convert(WHOLE)]
    )
    return _with_person(rows, heavy).select(exp.alias_(weight, WEIGHT, copy=False), copy=False)


def keep_groups(rows: exp.Query, groups: int, keys: Sequence[str], keyed: Keyed) -> exp.Query:
    """Keep the rows of the first so many groups of everybody."""
    early = _early(rows, groups, keys, keyed)
    order = (keyed.order([PERSON, *keys]), *map(exp.column, keys))
    place = exp.Window(
        this=exp.DenseRank(),
        partition_by=[exp.column(PERSON)],
        order=exp.Order(expressions=[exp.Ordered(this=one, nulls_first=False) for one in order]),
    )
    placed = exp.select(exp.Star(), exp.alias_(place, "sf_place", copy=False)).from_(
        early.subquery("sf_early", copy=False), copy=False
    )
    return (
        exp.select(exp.Star())
        .from_(placed.subquery("sf_placed", copy=False), copy=False)
        .where(exp.column("sf_place") <= exp.convert(groups), copy=False)
    )


def _early(rows: exp.Query, groups: int, keys: Sequence[str], keyed: Keyed) -> exp.Query:
    """The rows of somebody but those whose group is surely not among that person's first ones."""
    one = exp.cast(exp.convert(1), "BIGINT")
    bit = exp.BitwiseLeftShift(this=one, expression=exp.cast(_bucket(keys, keyed), "INT"))
    marked = exp.select(exp.Star(), exp.alias_(bit, _BIT, copy=False)).from_(
        rows.subquery("sf_all", copy=False), copy=False
    )
    used = exp.BitwiseOrAgg(this=exp.column(_BIT))
    many = exp.BitwiseCount(this=used.copy()) > exp.convert(groups)
    crowded = (
        exp.select(exp.column(PERSON), exp.alias_(used, _USED, copy=False))
        .from_(marked.subquery("sf_marked"), copy=False)
        .group_by(exp.column(PERSON), copy=False)
        .having(many, copy=False)
    )
    buckets = exp.column(_USED, table="sf_found")
    below = exp.Paren(this=exp.column(_BIT, table="sf_rows") - exp.convert(1))
    earlier = exp.BitwiseCount(this=exp.BitwiseAnd(this=buckets, expression=below))
    early = exp.or_(buckets.copy().is_(exp.Null()), earlier < exp.convert(groups), copy=False)
    return _with_person(marked, crowded).where(early, copy=False)


def _bucket(keys: Sequence[str], keyed: Keyed) -> exp.Expr:
    """The bucket of a row's group, from 0; the last one is larger than the others."""
    return exp.Least(this=keyed.top([PERSON, *keys], 6), expressions=[exp.convert(_BUCKETS - 1)])


def _with_person(rows: exp.Query, people: exp.Query) -> exp.Select:
    """The rows of somebody, as `sf_rows`, beside what was found of that person, if anything."""
    mine = exp.column(PERSON, table="sf_rows")
    return (
        exp.select(exp.Column(this=exp.Star(), table=exp.to_identifier("sf_rows")))
        .from_(rows.subquery("sf_rows", copy=False), copy=False)
        .join(
            people.subquery("sf_found", copy=False),
            on=mine.eq(exp.column(PERSON, table="sf_found")),
            join_type="left",
            copy=False,
        )
        .where(mine.copy().is_(exp.Null()).not_(), copy=False)
    )


def _integer(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("BIGINT"))
