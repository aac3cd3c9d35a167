"""The engine queries of a question: bounded integer aggregates, and how limbs are joined.

Long terms are cut into limbs that are summed separately: of 23 bits, or of 12 bits with weights of
17 bits, so that every summed term is below 2^29. Sums are decimals wide enough for any number of
rows. They are clipped to 2^62 before they become 64-bit integers, which matters from 2^33 rows of
the largest terms in one group on. Clipping moves no sum further than the rows did, and the limbs of
a person's terms together move at most the sum of the terms' magnitudes. So sensitivities hold, and
no engine error depends on the size of a sum. Decisions `contribution-bounds` and `integer-ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import Listed
from sfumato.data.counting.contribution import COUNT, PERSON, WEIGHT, bound, keep_groups, weigh_rows
from sfumato.data.schema.column import Kind
from sfumato.methods.query.plan.statistics import Count, DistinctCount, Rank, Total
from sfumato.privacy.mechanisms.base import narrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.data.counting.hashing import Keyed
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.query.plan import Level, Plan
    from sfumato.methods.query.plan.statistics import Additive

_SUM_LIMIT = 2**62
_CHARACTER_BITS = 32
"""The most bits that a character takes."""
_ROWS, _RANKED = "sf_bounded", "sf_ranked"


@dataclass(frozen=True)
class EngineQuery:
    """One query to the engine: its first columns are keys, by position; the others are figures."""

    query: exp.Query
    positions: tuple[int, ...]
    figures: tuple[str, ...]


class Aggregates:
    """The queries of one plan, with every person's contribution bounded by a keyed hash."""

    def __init__(self, plan: Plan, source: exp.Query, keyed: Keyed) -> None:
        self._plan, self._source, self._keyed = plan, source, keyed
        self._columns = [key.column for key in plan.keys]
        self._every = tuple(range(len(plan.keys)))

    def additive(self, statistics: Sequence[Additive]) -> EngineQuery:
        """Counts and sums by all keys; those by fewer keys are sums of these."""
        terms = {
            f"sf_figure_{index}_{limb}": tree
            for index, statistic in enumerate(statistics)
            for limb, tree in enumerate(self._terms(statistic))
        }
        # One query by all keys serves every level: counts and sums of coarser levels are sums of
        # these.
        query = self._sum_terms(self._source.copy(), [], terms)
        return EngineQuery(query, self._every, tuple(terms))

    def ranked(self, rank: Rank) -> EngineQuery:
        """How often each value of an argument occurs, by all keys."""
        column = rank.argument.column
        # NULL has no rank: a person who has only missing values adds nothing to any score.
        present = exp.column(column).is_(exp.Null()).not_()
        rows = exp.select(exp.Star()).from_(self._source.subquery("sf_source"), copy=False)
        query = self._sum_terms(
            rows.where(present, copy=False), [column], {_RANKED: exp.convert(1)}
        )
        return EngineQuery(query, self._every, (column, _RANKED))

    def _sum_terms(
        self, rows: exp.Query, extra_columns: Sequence[str], terms: Mapping[str, exp.Expr]
    ) -> exp.Select:
        """Sums of terms by all keys and other columns, every person's weight bounded."""
        columns = [*self._columns, *extra_columns]
        figures = dict(terms)
        if self._plan.unit.by_person:
            rows = self._weigh(rows)
            weight = exp.column(WEIGHT)
            # The weight stands inside the sum, so the bound on a person's rows holds before
            # anything is added.
            figures = {
                name: exp.Mul(this=tree, expression=weight.copy()) for name, tree in figures.items()
            }
        return self._without_long_texts(_sums(rows, columns, figures), columns)

    def _without_long_texts(self, query: exp.Select, columns: Sequence[str]) -> exp.Select:
        """Leave out groups of texts longer than any that is declared.

        No answer shows them, but a person who has many could fill the memory with them.
        """
        for key in self._plan.keys:
            listed = key.axis if isinstance(key.axis, Listed) else None
            if listed is not None and key.kind is Kind.TEXT and key.column in columns:
                longest = max(
                    len(value) for value in listed.values.to_pylist() if value is not None
                )
                column = exp.column(key.column)
                bits = exp.Anonymous(this="BIT_LENGTH", expressions=[column.copy()])
                # In bits, which every engine knows without decoding the text; a character takes at
                # most 32.
                short = exp.LTE(this=bits, expression=exp.convert(_CHARACTER_BITS * longest))
                query = query.having(exp.or_(column.is_(exp.Null()), short), copy=False)
        return query

    def _weigh(self, rows: exp.Query) -> exp.Query:
        """Sample the groups of each person, and weigh the remaining rows."""
        if not self._limits_groups:
            return weigh_rows(rows, self._plan.unit)
        kept_rows = keep_groups(rows, self._plan.unit.groups, self._columns, self._keyed)
        # Weighing reads its rows twice; these have a name, so that they are found only once.
        weighed = weigh_rows(exp.select(exp.Star()).from_("sf_kept", copy=False), self._plan.unit)
        return weighed.with_("sf_kept", as_=kept_rows, copy=False)

    def people(self, level: Level) -> EngineQuery:
        """Count people by a level's keys, each person in a bounded number of groups."""
        groups, columns = self._plan.unit.groups, [key.column for key in level.keys]
        rows = self._source
        # A person is in at most as many groups as the level has: then no sampling is needed.
        if level.groups is None or level.groups > groups:
            rows = keep_groups(rows, groups, columns, self._keyed)
        # A row without a person has no bounded contribution, so that it counts nowhere.
        owned = exp.column(PERSON).is_(exp.Null()).not_()
        pairs = _distinct(rows, [PERSON, *columns]).where(owned, copy=False)
        counted = _sums(pairs, columns, {COUNT: exp.convert(1)})
        return EngineQuery(self._without_long_texts(counted, columns), level.positions, (COUNT,))

    def distinct(self, statistic: DistinctCount, level: Level) -> EngineQuery:
        """How many values of a column there are by a level's keys."""
        columns = [key.column for key in level.keys]
        rows: exp.Query = self._source.copy()
        if self._plan.unit.by_person:
            # A value that many people have is one distinct value: bounded are the pairs of person
            # and value.
            pairs = _distinct(self._source, [PERSON, *columns, statistic.column])
            present = pairs.where(exp.column(statistic.column).is_(exp.Null()).not_(), copy=False)
            # A value counts once, so that each person's pairs of a group and a value are bounded.
            bounded = bound(
                present,
                self._plan.unit,
                columns,
                self._keyed.salt,
                [statistic.column],
                self._keyed.native,
            )
            is_kept = exp.column(COUNT) > exp.convert(0)
            rows = (
                exp.select(exp.Star())
                .from_(bounded.subquery("sf_pairs", copy=False), copy=False)
                .where(is_kept, copy=False)
            )
        values = exp.Count(this=exp.Distinct(expressions=[exp.column(statistic.column)]))
        query = exp.select(*_columns(columns), exp.alias_(exp.cast(values, "BIGINT"), COUNT))
        grouped = _group_by(query.from_(rows.subquery(_ROWS, copy=False), copy=False), columns)
        return EngineQuery(self._without_long_texts(grouped, columns), level.positions, (COUNT,))

    @property
    def _limits_groups(self) -> bool:
        """Whether, by the declarations, a person can be in more groups than allowed."""
        axes = [key.axis for key in self._plan.keys]
        groups = prod(axis.size for axis in axes if axis is not None)
        within = groups <= self._plan.unit.groups and None not in axes
        return self._plan.unit.groups < self._plan.unit.max_rows and not within

    def _terms(self, statistic: Additive) -> list[exp.Expr]:
        """What to sum for a statistic: its terms, limb by limb from the lowest."""
        if isinstance(statistic, Count):
            if statistic.column is None:
                return [exp.convert(1)]
            missing = exp.column(statistic.column).is_(exp.Null())
            return [exp.case().when(missing, exp.convert(0)).else_(exp.convert(1))]
        bits = limb_bits(self._plan.unit)
        unit = exp.cast(exp.convert(1 << bits), "BIGINT")
        trees, remainder = [], exp.Paren(this=statistic.term)
        for _ in range(limb_count(statistic, self._plan.unit) - 1):
            # The remainder has the sign of the term, so limbs of negative terms add up to the term
            # as well.
            trees.append(exp.Paren(this=exp.Mod(this=remainder.copy(), expression=unit.copy())))
            remainder = exp.Paren(this=exp.IntDiv(this=remainder, expression=unit.copy()))
        return [*trees, remainder]


def limb_bits(unit: Unit) -> int:
    """How many bits of a term are summed in one 64-bit integer, weights included."""
    return 12 if unit.by_person else 23


def limb_count(statistic: Additive, unit: Unit) -> int:
    """Into how many limbs a statistic's terms are cut."""
    bits = statistic.largest.bit_length() if isinstance(statistic, Total) else 1
    return max(1, -(-bits // limb_bits(unit)))


def join_limbs(limb_sums: Sequence[NDArray[Any]], unit: Unit) -> NDArray[Any]:
    """Put limbs together: int64 where all values fit, Python integers beyond."""
    if len(limb_sums) == 1:
        return limb_sums[0]
    joined_sum = np.zeros(len(limb_sums[0]), dtype=object)
    for limb, limb_sum in enumerate(limb_sums):
        # Python integers: the sum of all limbs may exceed 64 bits.
        joined_sum += limb_sum.astype(object) << (limb_bits(unit) * limb)
    return narrow(joined_sum)


def _sum(tree: exp.Expr) -> exp.Expr:
    """A sum of terms below 10^18 as a 64-bit integer, cut off; zero where nothing is to add."""
    # Decimals of 18 digits make an engine sum in 128 bits.
    total = exp.Sum(this=exp.cast(tree, "DECIMAL(18, 0)"))
    present = exp.Coalesce(this=total, expressions=[exp.convert(0)])
    low, high = (exp.cast(exp.convert(end), "BIGINT") for end in (-_SUM_LIMIT, _SUM_LIMIT))
    above = exp.Greatest(this=present, expressions=[low], ignore_nulls=True)
    return exp.cast(exp.Least(this=above, expressions=[high], ignore_nulls=True), "BIGINT")


def _distinct(source: exp.Query, columns: Sequence[str]) -> exp.Select:
    return (
        exp.select(*_columns(columns))
        .distinct(copy=False)
        .from_(source.subquery("sf_source"), copy=False)
    )


def _sums(rows: exp.Query, columns: Sequence[str], figures: Mapping[str, exp.Expr]) -> exp.Select:
    """Sums of figures by some columns."""
    query = exp.select(
        *_columns(columns),
        *(exp.alias_(_sum(tree), name, copy=False) for name, tree in figures.items()),
    )
    return _group_by(query.from_(rows.subquery(_ROWS, copy=False), copy=False), columns)


def _group_by(query: exp.Select, columns: Sequence[str]) -> exp.Select:
    return query.group_by(*_columns(columns), copy=False) if columns else query


def _columns(names: Sequence[str]) -> list[exp.Column]:
    return [exp.column(name) for name in names]
