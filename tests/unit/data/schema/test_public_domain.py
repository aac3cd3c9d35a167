"""Which values of a column are public: those that a person wrote, wherever they stand."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Mask, Tree
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import dump, load
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

TREE = Tree(("b", "a"), (("*",), ("*",)))
SEEN = Tree(("b", "a"), (("*",), ("*",)), seen=True)


def test_the_leaves_of_a_tree_that_a_person_wrote_are_public() -> None:
    assert Column("x", Kind.TEXT, hierarchy=TREE).public_domain == Values(("b", "a"))


def test_declared_values_go_before_leaves() -> None:
    assert Column("x", Kind.TEXT, domain=Values(("a",)), hierarchy=TREE).public_domain == Values(
        ("a",)
    )


def test_F14_leaves_that_were_only_seen_are_not_public() -> None:
    assert Column("x", Kind.TEXT, hierarchy=SEEN).public_domain is None
    assert Column("x", Kind.TEXT, hierarchy=Mask()).public_domain is None


def test_a_file_keeps_that_leaves_were_only_seen(tmp_path: Path) -> None:
    schema = Schema("t", (Column("x", Kind.TEXT, hierarchy=SEEN),))
    path = tmp_path / "t.toml"
    path.write_text(dump(schema, folder=tmp_path))
    assert 'hierarchy = { tree = ["b", "a"], seen = true }' in path.read_text()
    assert load(path) == schema


@pytest.mark.parametrize(
    "wrong", ['mask = "right", seen = true', "seen = true", "tree = [], seen = 1"]
)
def test_only_trees_are_seen(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "t.toml"
    path.write_text(f'table = "t"\n[columns.x]\nkind = "text"\nhierarchy = {{ {wrong} }}\n')
    with pytest.raises(SchemaError):
        load(path)


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        ("0", "1", "0.01"),
        ("0", "9000", "50"),
        ("1.30", "2.10", "0.005"),
        ("-5", "15", "0.2"),
        ("0", "0.25", "0.002"),
        ("0", "1.0001", "0.0001"),
    ],
)
def test_a_continuum_in_round_steps(low: str, high: str, step: str) -> None:
    found = Bounds(Decimal(low), Decimal(high)).stepped()
    assert found is not None
    assert found.step == Decimal(step)


def test_steps_that_are_declared_stay() -> None:
    for bounds in (Bounds(0, 7), Bounds(Decimal(0), Decimal(1), Decimal("0.5"))):
        assert bounds.stepped() is bounds


def test_no_round_step_divides_every_range() -> None:
    assert Bounds(Decimal(0), Decimal("0.123456789")).stepped() is None
    assert Bounds(Decimal(0), Decimal("1e-12")).stepped() is None
    assert Bounds(Decimal(1), Decimal(1)).stepped() is None
