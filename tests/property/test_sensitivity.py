"""No neighbouring pair moves an answer by more than its claimed sensitivity."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.data.schema import unit as sensitivity
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit

if TYPE_CHECKING:
    from fractions import Fraction

# A row is a group and a value; None stands for a row that a filter leaves out or a NULL.
Table = list[tuple[int, int | None]]

unhurried = settings(deadline=None)
bounds = st.tuples(st.integers(-5, 5), st.integers(-5, 5)).map(sorted)
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5) | st.none()), max_size=4)
units: st.SearchStrategy[Unit] = st.one_of(
    st.builds(Rows, relation=st.sampled_from(Neighbours)),
    st.builds(
        Entity,
        st.just("person"),
        st.integers(1, 4),
        st.integers(1, 3),
        st.sampled_from(Neighbours),
    ),
)


def _one_person(unit: Unit, table: Table) -> Table:
    """Keep what the unit allows of one person: its rows, in its groups."""
    if isinstance(unit, Rows):
        return table[:1]
    groups = list(dict.fromkeys(group for group, _ in table))[: unit.groups]
    return [row for row in table if row[0] in groups][: unit.max_rows]


def _pair(unit: Unit, first: Table, second: Table) -> tuple[Table, Table]:
    if unit.relation is Neighbours.ADD_REMOVE:
        return _one_person(unit, first), []
    return _one_person(unit, first), _one_person(unit, second)


def _norms(before: Counter[int], after: Counter[int]) -> tuple[int, int]:
    moves = [before[group] - after[group] for group in before.keys() | after.keys()]
    return sum(map(abs, moves)), sum(move**2 for move in moves)


@unhurried
@given(unit=units, first=rows, second=rows, ends=bounds, grouped=st.booleans())
def test_sums(unit: Unit, first: Table, second: Table, ends: list[int], grouped: bool) -> None:
    def answer(table: Table) -> Counter[int]:
        sums: Counter[int] = Counter()
        for group, value in table:
            if value is not None:
                sums[group if grouped else 0] += min(max(value, ends[0]), ends[1])
        return sums

    one, other = _pair(unit, first, second)
    claim = sensitivity.sum_sensitivity(unit, ends[0], ends[1], grouped=grouped)
    l1, l2_squared = _norms(answer(one), answer(other))
    assert l1 <= claim.l1
    assert l2_squared <= claim.l2_squared


@unhurried
@given(unit=units, first=rows, second=rows, grouped=st.booleans())
def test_counts_of_rows_and_of_people(
    unit: Unit, first: Table, second: Table, grouped: bool
) -> None:
    def row_counts(table: Table) -> Counter[int]:
        return Counter(group if grouped else 0 for group, value in table if value is not None)

    def people_counts(table: Table) -> Counter[int]:
        return Counter(row_counts(table).keys())

    one, other = _pair(unit, first, second)
    for answer, claim in (
        (row_counts, sensitivity.count_sensitivity(unit, grouped=grouped)),
        (people_counts, sensitivity.people_sensitivity(unit, grouped=grouped)),
    ):
        l1, l2_squared = _norms(answer(one), answer(other))
        assert l1 <= claim.l1
        assert l2_squared <= claim.l2_squared


@unhurried
@given(
    unit=units,
    first=rows,
    second=rows,
    others=rows,
    quantile=st.fractions(min_value=0, max_value=1, max_denominator=20),
    candidate=st.integers(-6, 6),
)
def test_quantile_scores(
    unit: Unit, first: Table, second: Table, others: Table, quantile: Fraction, candidate: int
) -> None:
    def score(table: Table) -> Fraction:
        values = [value for _, value in [*others, *table] if value is not None]
        return -abs(sum(value < candidate for value in values) - quantile * len(values))

    one, other = _pair(unit, first, second)
    claim = sensitivity.quantile_sensitivity(unit, quantile)
    assert abs(score(one) - score(other)) <= claim


def test_the_claims_are_reached() -> None:
    """Rows that always count keep a replacement within the range, others do not."""
    replaced = Rows(relation=Neighbours.REPLACE_ONE)
    assert sensitivity.sum_sensitivity(replaced, 2, 5, optional=False).l1 == 5 - 2
    assert sensitivity.sum_sensitivity(replaced, 2, 5).l1 == 5 - 0
