"""Schemas travel as JSON and come back the same; what was only seen among rows stays at home."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.data.schema.constraints import (
    DeclaredRows,
    FunctionalDependency,
    ImpossibleCombination,
    OrderedColumns,
)
from sfumato.data.schema.hierarchy import Side
from sfumato.data.schema.json_form import schema_from_json, schema_to_json
from sfumato.data.schema.layout import FileLayout
from sfumato.data.schema.schema_file import load

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.hierarchy import Hierarchy

ALL = sf.Schema(
    "odd names",
    (
        sf.Column("who", sf.Kind.TEXT, sf.Role.IDENTIFIER, nullable=False, length=7),
        sf.Column("a.b\"c'", sf.Kind.INTEGER, domain=sf.Bounds(-(2**63), 2**63 - 1)),
        sf.Column(
            "step", sf.Kind.INTEGER, domain=sf.Bounds(0, 100, 5), hierarchy=sf.Widths((5, 50))
        ),
        sf.Column(
            "real",
            sf.Kind.REAL,
            domain=sf.Bounds(Decimal("0.00"), Decimal("1.50"), Decimal("0.10")),
            hierarchy=sf.Widths((Decimal("0.10"), Decimal("0.50"))),
        ),
        sf.Column("few", sf.Kind.REAL, domain=sf.Values((Decimal("0.1"), Decimal("1E+1")))),
        sf.Column(
            "day",
            sf.Kind.DATE,
            domain=sf.Bounds(date(1, 1, 1), date(9999, 12, 31)),
            hierarchy=sf.Calendar(),
        ),
        sf.Column("days", sf.Kind.DATE, domain=sf.Values((date(2024, 2, 29), date(2020, 1, 1)))),
        sf.Column("flag", sf.Kind.BOOLEAN, domain=sf.Values((True, False))),
        sf.Column("zip", sf.Kind.TEXT, sf.Role.QUASI, hierarchy=sf.Mask(Side.RIGHT)),
        sf.Column("gone", sf.Kind.TEXT, sf.Role.QUASI, hierarchy=sf.Removal()),
        sf.Column(
            "tree",
            sf.Kind.TEXT,
            # Written in another order than that of the groups.
            hierarchy=sf.Tree(
                ("z", "a", "Ünï", "b.c"), (("A", "*"), ("B", "*"), ("A", "*"), ("B", "*"))
            ),
        ),
        sf.Column(
            "sizes",
            sf.Kind.INTEGER,
            hierarchy=sf.Tree.of({"small": [1, 2], "large": [30]}),
        ),
    ),
    unit=sf.Entity("who", max_rows=4, max_groups=2, relation=sf.Neighbours.REPLACE_ONE),
    layout=FileLayout(encoding="windows-1252", separator="\t", header_row=3),
    constraints=(
        ImpossibleCombination((("few", (Decimal("0.1"),)), ("day", (date(2024, 2, 29),)))),
        FunctionalDependency(("zip",), ("gone", "tree")),
        OrderedColumns(("day", "days")),
        DeclaredRows(17),
    ),
)


def travelled(schema: sf.Schema) -> sf.Schema:
    return schema_from_json(json.loads(json.dumps(schema_to_json(schema))))


def listed(schema: sf.Schema) -> list[object]:
    found: list[Hierarchy | None] = [column.hierarchy for column in schema.columns]
    return [None if one is None else one.listed for one in found]


def test_whatever_is_declared_comes_back_the_same() -> None:
    back = travelled(ALL)
    assert back == ALL
    assert listed(back) == listed(ALL), "in the order in which it was written"
    assert [str(one.domain) for one in back.columns] == [str(one.domain) for one in ALL.columns]
    assert [one.public_domain for one in back.columns] == [one.public_domain for one in ALL.columns]
    assert schema_to_json(back) == schema_to_json(ALL)


@pytest.mark.parametrize("unit", [sf.Rows(), sf.Rows(relation=sf.Neighbours.REPLACE_ONE)])
def test_a_unit_of_rows_comes_back_the_same(unit: sf.Rows) -> None:
    assert travelled(replace(ALL, unit=unit)).unit == unit


def test_a_hierarchy_in_a_file_is_told_by_what_the_file_holds(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("flu,ill,*\nnone,well,*\ngout,ill,*\n")
    (tmp_path / "s.toml").write_text(
        'table = "t"\n[columns.s]\nkind = "text"\nhierarchy = { file = "s.csv" }\n'
    )
    schema = load(tmp_path / "s.toml")
    assert str(tmp_path) not in json.dumps(schema_to_json(schema)), "no path leaves the machine"
    [ours], [back] = schema.columns, travelled(schema).columns
    assert ours.public_domain == back.public_domain == sf.Values(("flu", "none", "gout"))
    assert isinstance(ours.hierarchy, sf.Tree)
    assert back.hierarchy == replace(ours.hierarchy, source=None)


def test_values_that_were_only_seen_among_rows_are_not_told() -> None:
    seen = sf.Tree(("rare", "flu", "gout"), (("x", "*"), ("ill", "*"), ("ill", "*")), seen=True)
    column = sf.Column("s", sf.Kind.TEXT, hierarchy=seen)
    told = schema_to_json(sf.Schema("t", (column,)))
    assert told["columns"] == [{"name": "s", "role": "other", "kind": "text"}]
    some = replace(column, domain=sf.Values(("gout", "flu")))
    told = schema_to_json(sf.Schema("t", (some,)))
    assert "rare" not in json.dumps(told)
    assert travelled(sf.Schema("t", (some,))).columns[0].domain == some.domain


@pytest.mark.parametrize(
    "wrong",
    [
        {"table": "t", "columns": []},
        {"table": "t", "columns": [{"name": "x", "kind": "integer", "bounds": [3, 1]}]},
        {"table": "t", "columns": [{"name": "x", "kind": "integer", "bonds": [3, 1]}]},
        {"table": "t", "columns": [{"name": "x", "kind": "real", "bounds": ["a", "b"]}]},
        {"table": "t", "columns": [{"name": "x", "kind": "whole"}]},
        {"columns": [{"name": "x", "kind": "text"}]},
    ],
)
def test_what_is_no_schema_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((sf.SfumatoError, ValueError, KeyError, ArithmeticError)):
        schema_from_json(wrong)
