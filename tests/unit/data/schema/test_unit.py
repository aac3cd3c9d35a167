"""Privacy units: what others read of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.data.schema.unit import (
    Entity,
    Neighbours,
    Rows,
    Ties,
    Unit,
    count_sensitivity,
    people_sensitivity,
    quantile_sensitivity,
    sum_sensitivity,
)
from sfumato.errors import ParameterError

REPLACE = Neighbours.REPLACE_ONE


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        (Rows(), "Rows(relation=<Relation.ADD_REMOVE: 'add-remove'>)"),
        (
            Entity("who", 3, relation=REPLACE),
            (
                "Entity(column='who', max_rows=3, max_groups=None, "
                "relation=<Relation.REPLACE_ONE: 'replace-one'>)"
            ),
        ),
    ],
)
def test_units_are_written_as_digests_of_stored_questions_hold_them(
    unit: Unit, written: str
) -> None:
    assert repr(unit) == written


@pytest.mark.parametrize(
    ("unit", "facts"),
    [
        (Rows(), {}),
        (Rows(relation=REPLACE), {"relation": "replace-one"}),
        (Entity("who", 3), {"column": "who", "max_rows": 3}),
        (
            Entity("who", 3, 2, REPLACE),
            {"column": "who", "max_rows": 3, "max_groups": 2, "relation": "replace-one"},
        ),
    ],
)
def test_facts_leave_out_what_is_usual(unit: Unit, facts: dict[str, object]) -> None:
    assert unit.facts() == facts


def test_a_row_that_became_several_is_bounded_as_so_many() -> None:
    assert Rows(relation=REPLACE).bounded(4) == Entity("row", 4, relation=REPLACE)
    assert Entity("who", 3, 2, REPLACE).bounded(2, 1) == Entity("who", 2, 1, REPLACE)


def test_a_row_is_one_person_of_one_row() -> None:
    rows = Rows()
    assert (rows.column, rows.max_rows, rows.groups, rows.by_person) == (None, 1, 1, False)
    assert Entity("who", 3).by_person


def test_rows_of_two_people_are_bounded_by_no_older_way() -> None:
    """Each property by which rows of one owner are bounded refuses, and so do all sensitivities."""
    unit = Ties(("from", "to"), 3)
    for asked in ("column", "by_person", "groups", "max_groups", "bounded"):
        with pytest.raises(ParameterError) as refused:
            getattr(unit, asked)
        assert refused.value.code == "unit_unsupported"
    for sensitivity in (
        lambda: count_sensitivity(unit),
        lambda: people_sensitivity(unit),
        lambda: sum_sensitivity(unit, 0, 1, optional=False),
        lambda: quantile_sensitivity(unit, Fraction(1, 2)),
    ):
        with pytest.raises(ParameterError) as refused:
            sensitivity()
        assert refused.value.code == "unit_unsupported"
    assert "any one person" in unit.sentence()
