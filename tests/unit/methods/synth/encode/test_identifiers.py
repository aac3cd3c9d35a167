"""Made-up identifiers: running numbers in the declared form."""

from __future__ import annotations

import pytest

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.methods.synth.encode.identifiers import can_be_numbered, room, running_identifiers


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (Column("id", Kind.INTEGER), [9, 10, 11]),
        (Column("id", Kind.TEXT), ["9", "10", "11"]),
        (Column("id", Kind.TEXT, length=3), ["009", "010", "011"]),
        (Column("id", Kind.TEXT, length=1), ["9", "1", "2"]),
        (Column("id", Kind.INTEGER, domain=Bounds(100, 200, 10)), [180, 190, 200]),
        (Column("id", Kind.INTEGER, domain=Bounds(1, 9)), [9, 1, 2]),
        (Column("id", Kind.TEXT, domain=Values(tuple("abcdefghi"))), ["i", "a", "b"]),
    ],
)
def test_running_on_from_the_ninth(column: Column, wanted: list[object]) -> None:
    assert running_identifiers(column, 8, 3).to_pylist() == wanted
    assert running_identifiers(column, 8, 0).to_pylist() == []


def test_what_can_be_made_up() -> None:
    assert can_be_numbered(Column("id", Kind.TEXT))
    assert not can_be_numbered(Column("born", Kind.DATE))
    assert room(Column("id", Kind.TEXT)) is None
    assert room(Column("id", Kind.TEXT, length=2)) == 99
