"""Contribution bounds: limit in SQL what one person contributes, before anything is counted.

*By drawing rows* (`bound`). A person's rows are first reduced to (person, key, arguments, count),
rows that agree in every column that is used being one. Where `max_groups` is below `max_rows`, only
that many keys are kept, those whose keyed hash comes first. Of the rows that remain at most
`max_rows` are kept, by systematic sampling along the hashed order: with N rows, C the running count
and r an offset in [0, N) from the same hash, a combination keeps

    floor((C m + r) / N) - floor((C' m + r) / N)        C' the running count before it

rows: m in all, never more than it has, and each row with probability m/N. Rows of a person beyond
the first 2^31 in that order count as none, so that C m + r < 2^62 whatever a person has: m is at
most 2^30. Only persons above a bound are grouped and hashed; the rows of all others pass.

*By weights* (`weigh_rows`), for counts and sums. If a person has N rows and m are allowed, every
row counts as m / N of a row. No row has to be drawn, and the sum is the mean over draws of m rows.
Weights are whole numbers of 2^-17 rows, rounded down, so that a person's weights never add up to
more than m rows. If only g groups are allowed (`keep_groups`), a person keeps the g whose keyed
hash comes first, and N is the number of rows in them. Sorting every group of everybody would take
most of the time of a query, so the range of the hash is cut into 62 buckets: one pass finds the
buckets that each person uses, as the bits of one number, and a second drops the rows beyond the
person's g first ones. Only the rest, little more than is kept, is sorted.

The kept rows of a person are a function of that person's own rows and of the salt alone: not of
other people, and not of the order of rows in a file. The salt is secret and drawn anew for each
release, so nobody can craft keys that are kept. Rows without a person (NULL) are left out: no bound
would hold for them.

Decision `contribution-bounds`.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.counting.hashing import Keyed
from sfumato.data.engines.base import column, everything
from sfumato.data.schema.unit import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.counting.hashing import Native
    from sfumato.data.schema.unit import Unit


PERSON, COUNT = "sf_person", "sf_count"


def bound(
    rows: exp.Query,
    unit: Unit,
    keys: Sequence[str],
    salt: str,
    arguments: Sequence[str] = (),
    native: Native | None = None,
) -> exp.Query:
    """Bound the rows of each person by drawing rows, as the module describes.

    Parameters
    ----------
    rows : exp.Query
        Rows of (PERSON, *keys, *arguments).
    unit : Unit
        The bounds: `max_rows` rows in `groups` groups.
    keys : sequence of str
        The columns that name a group.
    salt : str
        A secret, drawn anew for each release.
    arguments : sequence of str
        Further columns that the query uses.
    native : Native, optional
        The hash function of an engine; without it all engines draw the same rows.

    Returns
    -------
    exp.Query
        Rows of (*keys, *arguments, COUNT); COUNT, at least 1, is the number of rows kept.
    """
    used = (*keys, *arguments)
    limits_groups = unit.groups < unit.max_rows
    within = (
        exp.select(*(exp.column(name, table="sf_rows") for name in used))
        .select(exp.alias_(_integer(exp.convert(1)), COUNT), copy=False)
        .from_("sf_rows", copy=False)
        .join("sf_excessive", on=_same_person(), join_type="left", copy=False)
        .where(exp.column(PERSON, table="sf_excessive").is_(exp.Null()), copy=False)
    )
    drawn = exp.select(*map(exp.column, used), exp.alias_(_kept_rows(unit.max_rows), COUNT)).from_(
        "sf_chosen", copy=False
    )
    # A combination that keeps no row is dropped. *Attack*: with a count of 0 its key would still
    # take part in a threshold or a selection, so a person with a million texts had a million tries.
    sampled = (
        exp.select(*map(exp.column, (*used, COUNT)))
        .from_(drawn.subquery("sf_drawn", copy=False), copy=False)
        .where(exp.column(COUNT) > exp.convert(0), copy=False)
    )
    query = (
        exp.union(within, sampled, distinct=False, copy=False)
        .with_("sf_rows", as_=_owned_rows(rows), copy=False)
        .with_("sf_excessive", as_=_excessive(unit, keys if limits_groups else None), copy=False)
        .with_("sf_grouped", as_=_group_people(used), copy=False)
        .with_("sf_hashed", as_=_select_hashes(keys, used, Keyed(salt, native)), copy=False)
    )
    if limits_groups:
        # The keys themselves break ties of the hash.
        placed = _first(exp.to_table("sf_hashed"), _order("sf_key_hash", *keys), unit.groups)
        query = query.with_("sf_placed", as_=placed, copy=False)
    return query.with_(
        "sf_chosen", as_=_chosen(used, "sf_placed" if limits_groups else "sf_hashed")
    )


def _owned_rows(rows: exp.Query) -> exp.Query:
    """Return the rows that belong to somebody."""
    owned = exp.column(PERSON).is_(exp.Null()).not_()
    return (
        exp.select(exp.Star())
        .from_(rows.subquery("sf_all", copy=False), copy=False)
        .where(owned, copy=False)
    )


def _excessive(unit: Unit, keys: Sequence[str] | None) -> exp.Query:
    """Return the people with more rows or, with keys, more groups than the unit allows."""
    counted, rows = exp.Count(this=exp.Star()), exp.convert(unit.max_rows)
    if keys is None:
        return (
            exp.select(PERSON)
            .from_("sf_rows", copy=False)
            .group_by(PERSON, copy=False)
            .having(counted > rows, copy=False)
        )
    by_group = (
        exp.select(PERSON, exp.alias_(_integer(counted), COUNT))
        .from_("sf_rows", copy=False)
        .group_by(PERSON, *(exp.column(key) for key in keys), copy=False)
    )
    too_many_rows = exp.Sum(this=exp.column(COUNT)) > rows
    too_many_groups = counted > exp.convert(unit.groups)
    return (
        exp.select(PERSON)
        .from_(by_group.subquery("sf_by_group", copy=False), copy=False)
        .group_by(PERSON, copy=False)
        .having(exp.or_(too_many_rows, too_many_groups, copy=False), copy=False)
    )


def _group_people(used: Sequence[str]) -> exp.Query:
    """(person, key, arguments, count) of the people above a bound."""
    columns = [exp.column(name, table="sf_rows") for name in (PERSON, *used)]
    return (
        exp.select(*columns, exp.alias_(_integer(exp.Count(this=exp.Star())), COUNT))
        .from_("sf_rows", copy=False)
        .join("sf_excessive", on=_same_person(), copy=False)
        .group_by(*(column.copy() for column in columns), copy=False)
    )


def _select_hashes(keys: Sequence[str], used: Sequence[str], keyed: Keyed) -> exp.Query:
    """Select each combination with its keyed hash, and those of its key and its person."""
    return exp.select(
        *(exp.column(name) for name in (PERSON, *used, COUNT)),
        exp.alias_(keyed.order([PERSON, *used]), "sf_hash"),
        exp.alias_(keyed.order([PERSON, *keys]), "sf_key_hash"),
        exp.alias_(keyed.number([PERSON]), "sf_digits"),
    ).from_("sf_grouped", copy=False)


def _first(rows: exp.Expr, order: exp.Order, groups: int) -> exp.Select:
    """Return the rows of everybody's first groups, in an order that tells groups apart."""
    rank = exp.Window(this=exp.DenseRank(), partition_by=[exp.column(PERSON)], order=order)
    placed = exp.select(exp.Star(), exp.alias_(rank, "sf_place", copy=False)).from_(
        rows, copy=False
    )
    return (
        exp.select(exp.Star())
        .from_(placed.subquery("sf_ranked", copy=False), copy=False)
        .where(exp.column("sf_place") <= exp.convert(groups), copy=False)
    )


def _chosen(used: Sequence[str], table: str) -> exp.Query:
    """Combinations with the running and the total count of their person.

    Counts are capped at twice `MOST_ROWS`, which is above every bound; combinations beyond keep
    nothing.
    """
    person, count = exp.column(PERSON), exp.column(COUNT)
    total = exp.Window(this=exp.Sum(this=count), partition_by=[person])
    running = exp.Window(
        this=exp.Sum(this=count.copy()),
        partition_by=[person.copy()],
        order=_order("sf_hash", *used),
    )
    before = exp.Paren(this=_integer(running) - count.copy())
    return exp.select(
        *(exp.column(name) for name in (*used, COUNT, "sf_digits")),
        exp.alias_(_cap_row_count(_integer(total)), "sf_total"),
        exp.alias_(_cap_row_count(_integer(running.copy())), "sf_running"),
        exp.alias_(_cap_row_count(before), "sf_before"),
    ).from_(table, copy=False)


def _cap_row_count(rows: exp.Expr) -> exp.Expr:
    """A number of rows, capped at 2^31 so that its product with a bound (2^30) fits 64 bits."""
    most = _integer(exp.convert(2 * MOST_ROWS))
    return exp.Least(this=rows, expressions=[most], ignore_nulls=True)


def _kept_rows(max_rows: int) -> exp.Expr:
    """Return how many rows a chosen combination keeps."""
    total, running, before, count = (
        exp.column(name) for name in ("sf_total", "sf_running", "sf_before", COUNT)
    )
    offset = exp.Mod(this=exp.column("sf_digits"), expression=total)

    def rows_up_to(position: exp.Expr) -> exp.Expr:
        along = exp.Paren(this=position) * exp.convert(max_rows) + exp.Paren(this=offset.copy())
        return _integer(exp.IntDiv(this=exp.Paren(this=along), expression=total.copy()))

    sampled = rows_up_to(running) - rows_up_to(before)
    return exp.case().when(total <= exp.convert(max_rows), count).else_(sampled)


def _order(*values: str | exp.Expr) -> exp.Order:
    keys = [exp.column(value) if isinstance(value, str) else value for value in values]
    return exp.Order(expressions=[exp.Ordered(this=value, nulls_first=False) for value in keys])


def _same_person() -> exp.Expr:
    return exp.column(PERSON, table="sf_rows").eq(exp.column(PERSON, table="sf_excessive"))


WEIGHT = "sf_weight"
WEIGHT_BITS = 17
FULL_WEIGHT = 1 << WEIGHT_BITS
"""The weight of a row of a person within the bounds, in units of 2^-17 rows."""

# Buckets of the hash, one bit of a 64-bit integer each: bits 0 to 61 stay clear of the sign.
_BUCKETS = 62

_BIT, _USED = "sf_bit", "sf_used"


def weigh_rows(rows: exp.Query, unit: Unit) -> exp.Select:
    """Add to every row its WEIGHT: FULL_WEIGHT, or m / N of it for a person above the bound."""
    size = _integer(exp.Count(this=exp.Star()))
    allowed = exp.cast(exp.convert(unit.max_rows * FULL_WEIGHT), "BIGINT")
    share = _integer(exp.IntDiv(this=allowed, expression=size))
    heavy = (
        exp.select(exp.column(PERSON), exp.alias_(share, WEIGHT, copy=False))
        .from_(rows.subquery("sf_counted"), copy=False)
        .group_by(exp.column(PERSON), copy=False)
        .having(size.copy() > exp.convert(unit.max_rows), copy=False)
    )
    weight = exp.Coalesce(
        this=exp.column(WEIGHT, table="sf_found"), expressions=[exp.convert(FULL_WEIGHT)]
    )
    return _with_person(rows, heavy).select(exp.alias_(weight, WEIGHT, copy=False), copy=False)


def keep_groups(rows: exp.Query, groups: int, keys: Sequence[str], keyed: Keyed) -> exp.Query:
    """Keep of every person the rows of the `groups` groups whose keyed hash comes first."""
    early = _early(rows, groups, keys, keyed)
    order = _order(keyed.order([PERSON, *keys]), *keys)
    return _first(early.subquery("sf_early", copy=False), order, groups)


def _early(rows: exp.Query, groups: int, keys: Sequence[str], keyed: Keyed) -> exp.Query:
    """Drop rows whose bucket follows enough used buckets that their group cannot be kept."""
    unit_bit = exp.cast(exp.convert(1), "BIGINT")
    # The bucket is the top 6 bits of the hash, 0 to 63; the last bucket joins 61 to 63.
    top = keyed.top([PERSON, *keys], 6)
    bucket = exp.Least(this=top, expressions=[exp.convert(_BUCKETS - 1)])
    bit = exp.BitwiseLeftShift(this=unit_bit, expression=exp.cast(bucket, "INT"))
    marked = exp.select(exp.Star(), exp.alias_(bit, _BIT, copy=False)).from_(
        rows.subquery("sf_all", copy=False), copy=False
    )
    used = exp.BitwiseOrAgg(this=exp.column(_BIT))
    too_many = exp.BitwiseCount(this=used.copy()) > exp.convert(groups)
    crowded = (
        exp.select(exp.column(PERSON), exp.alias_(used, _USED, copy=False))
        .from_(marked.subquery("sf_marked"), copy=False)
        .group_by(exp.column(PERSON), copy=False)
        .having(too_many, copy=False)
    )
    buckets = exp.column(_USED, table="sf_found")
    # bit - 1 has the bits of all earlier buckets, so the count is of the earlier used ones.
    below = exp.Paren(this=exp.column(_BIT, table="sf_rows") - exp.convert(1))
    earlier = exp.BitwiseCount(this=exp.BitwiseAnd(this=buckets, expression=below))
    early = exp.or_(buckets.copy().is_(exp.Null()), earlier < exp.convert(groups), copy=False)
    return _with_person(marked, crowded).where(early, copy=False)


def _with_person(rows: exp.Query, people: exp.Query) -> exp.Select:
    """Return the rows that have a person, as `sf_rows`, left-joined with figures of the person."""
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


_TURN, _PERSON = "sf_turn", "sf_person"


def rows_between(table: exp.Expr, of: str, low: date, high: date) -> exp.Select:
    """Return the rows of a table from day `low` to day `high`, both included."""
    # Half open, so that a timestamp on the last day is included.
    behind = high if high == date.max else high + timedelta(days=1)
    first, stop = (exp.cast(exp.Literal.string(day.isoformat()), "DATE") for day in (low, behind))
    return everything(table.copy()).where(exp.and_(column(of) >= first, column(of) < stop))


def count_cells(table: exp.Expr, of: str, low: date, high: date, by: str | None) -> exp.Select:
    """Count the rows between two days, by the values of column `by` where it is given."""
    block = rows_between(table, of, low, high).subquery("sf_block")
    counted = exp.alias_(exp.Count(this=exp.Star()), "n")
    if by is None:
        return exp.select(counted).from_(block)
    return exp.select(exp.alias_(column(by), "cell"), counted).from_(block).group_by(column(by))


def rows_of_people(
    table: exp.Expr, of: str, unit: Unit, low: date, high: date, by: str | None, person: exp.Expr
) -> exp.Select:
    """Return the first `max_rows` rows of each person between two days.

    The result has `person, n` with the number of rows; with `by` it has `person, cell, turn`, one
    line for each row. Rows without a person are left out.
    """
    named = exp.alias_(person, _PERSON, quoted=True)
    block = rows_between(table, of, low, high).where(
        column(str(unit.column)).is_(exp.null()).not_()
    )
    most = exp.Literal.number(unit.max_rows)
    # Only our own columns are selected. *Attack*: a column of the table named sf_person would
    # otherwise take the place of the person, so that one person counted as many.
    if by is None:
        counted = exp.Least(this=exp.Count(this=exp.Star()), expressions=[most])
        rows = block.select(named, append=False).subquery("sf_block")
        return (
            exp.select(column(_PERSON), exp.alias_(counted, "n"))
            .from_(rows)
            .group_by(column(_PERSON))
        )
    # The same order on every engine: by day, and on one day by cell.
    order = exp.Order(expressions=[column(of), column(by)])
    turn = exp.Window(this=exp.RowNumber(), partition_by=[person.copy()], order=order)
    cell = exp.alias_(column(by), "cell", quoted=True)
    turned = block.select(named, cell, exp.alias_(turn, _TURN, quoted=True), append=False)
    numbered = exp.select(column(_PERSON), column("cell"), column(_TURN))
    return numbered.from_(turned.subquery("sf_rows")).where(column(_TURN) <= most)
