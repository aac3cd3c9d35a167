"""A column named like the columns of our own queries could stand for the people of a table."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.errors import SchemaError


@pytest.mark.parametrize("name", ["sf_person", "sf_count", "SF_Person"])
def test_names_of_our_own_are_refused_where_people_are_bounded(name: str) -> None:
    """Of a column `sf_person` six items counted of a person who may have two."""
    columns = (
        sf.Column("who", sf.Kind.INTEGER, sf.Role.IDENTIFIER, nullable=False),
        sf.Column(name, sf.Kind.INTEGER),
    )
    with pytest.raises(SchemaError) as refused:
        sf.Schema("people", columns, unit=sf.Entity("who", 2))
    assert refused.value.code == "name_taken"
    assert sf.Schema("people", columns).columns == columns
