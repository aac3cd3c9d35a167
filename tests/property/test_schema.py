"""Schemas survive TOML, and hierarchies are hierarchies."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Domain, Values
from sfumato.data.schema.hierarchy import ROOT, Calendar, Mask, Side, Step, Tree, Widths
from sfumato.data.schema.names import check_name, clash
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import dump, load, save
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from sfumato.data.schema.hierarchy import Hierarchy

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INTEGER: st.integers(-(2**63), 2**63 - 1),
    Kind.REAL: st.decimals(-(10**15) + 1, 10**15 - 1, places=6),
    Kind.TEXT: TEXT,
    Kind.DATE: st.dates(),
    Kind.BOOLEAN: st.booleans(),
}


def _usable(name: str) -> bool:
    try:
        check_name(name, "It")
    except SchemaError:
        return False
    return True


NAMES = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]), min_size=1, max_size=8
).filter(_usable)


@st.composite
def domains(draw: st.DrawFn, kind: Kind) -> Domain | None:
    values = draw(st.lists(SCALARS[kind], min_size=1, max_size=5, unique=True))
    if kind not in (Kind.TEXT, Kind.BOOLEAN) and len(values) == 2:
        low, high = sorted(values)
        span = Bounds(low, high).span
        step = int(span) if kind is not Kind.REAL and 0 < span < 2**63 else None
        return Bounds(low, high, step)
    return draw(st.sampled_from([None, Values(tuple(values))]))


@st.composite
def trees(draw: st.DrawFn, kind: Kind) -> Tree:
    leaves = draw(st.lists(SCALARS[kind], min_size=1, max_size=8, unique=True))
    # Labels are numbered by level, so that no two of them close a cycle; nor may a value "*".
    groups = draw(st.integers(0, 0 if ROOT in leaves else 2))
    ways = []
    for _ in leaves:
        way, number = [ROOT], 0
        for level in range(groups):
            number = number * 2 + draw(st.integers(0, 1))
            way.insert(0, f"{level} {number} \"'\\")
        ways.append(tuple(way))
    return Tree(tuple(leaves), tuple(ways))


@st.composite
def widths(draw: st.DrawFn, kind: Kind) -> Widths:
    width = draw(st.integers(2, 50)) if kind is Kind.INTEGER else draw(st.integers(1, 50))
    found = [width]
    for factor in draw(st.lists(st.integers(2, 10), max_size=3)):
        found.append(found[-1] * factor)
    if kind is Kind.INTEGER:
        return Widths(tuple(found))
    return Widths(tuple(Decimal(width) / 4 for width in found))


def hierarchies(kind: Kind) -> st.SearchStrategy[Hierarchy]:
    others: dict[Kind, st.SearchStrategy[Hierarchy]] = {
        Kind.INTEGER: widths(Kind.INTEGER),
        Kind.REAL: widths(Kind.REAL),
        Kind.TEXT: st.builds(Mask, st.sampled_from(Side)),
        Kind.DATE: st.sets(st.sampled_from(Step), min_size=1).map(
            lambda chosen: Calendar(tuple(step for step in Step if step in chosen))
        ),
    }
    return st.one_of(trees(kind), others[kind]) if kind in others else trees(kind)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(st.sampled_from(Kind))
    role, nullable = draw(st.sampled_from(Role)), draw(st.booleans())
    hierarchy = draw(st.none() | hierarchies(kind))
    domain = draw(domains(kind)) if not isinstance(hierarchy, Tree) else None
    length = None
    if kind is Kind.TEXT and domain is None:
        length = draw(st.none() | st.integers(1, 2**16))
    return Column(name, kind, role, domain, hierarchy, nullable, length)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(
        st.lists(NAMES, min_size=1, max_size=4, unique_by=str.casefold).filter(
            lambda names: not clash(names)
        )
    )
    declared = [draw(columns(name)) for name in names]
    unit: Unit = Rows(relation=draw(st.sampled_from(Neighbours)))
    if draw(st.booleans()) and declared[0].kind is not Kind.REAL:
        declared[0] = replace(declared[0], nullable=False)
        groups = draw(st.none() | st.integers(1, 9))
        unit = Entity(names[0], draw(st.integers(1, 99)), groups, unit.relation)
    return Schema(draw(NAMES), tuple(declared), unit)


@settings(max_examples=50, deadline=None)  # every example syncs a file to disk
@given(schemas(), schemas())
def test_toml_keeps_every_schema(first: Schema, second: Schema) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "schema.toml"
        path.write_text(dump(first, folder=path.parent), encoding="utf-8", newline="")
        assert load(path) == first
        save(second, path, overwrite=True)
        assert load(path) == second


@st.composite
def grown(draw: st.DrawFn) -> tuple[Hierarchy, list[Any]]:
    kind = draw(st.sampled_from(Kind))
    hierarchy = draw(hierarchies(kind))
    values = SCALARS[kind]
    if kind is Kind.REAL:
        values = st.floats()
    if isinstance(hierarchy, Tree):
        values = st.sampled_from(hierarchy.leaves)
    return hierarchy, draw(st.lists(st.none() | values, max_size=30))


@settings(deadline=None)
@given(grown())
def test_every_taxonomy_nests(case: tuple[Hierarchy, list[Any]]) -> None:
    # Values with stars of their own are refused by masks, which has a test of its own.
    masked = isinstance(case[0], Mask) and any("*" in str(one) for one in case[1])
    assume(not masked)
    hierarchy, leaves = case
    taxonomy = hierarchy.grow(leaves)
    codes = taxonomy.codes
    assert codes.shape == (len(taxonomy.leaves), taxonomy.height + 1)
    assert taxonomy.labels[-1] == (ROOT,)
    assert (taxonomy.codes[:, -1] == 0).all()
    # Every given leaf has a place, and its level 0 is its own.
    positions = taxonomy.locate(leaves)
    assert len(set(codes[:, 0].tolist())) == len(taxonomy.leaves)
    if hierarchy.declared is None:
        assert set(positions.tolist()) == set(range(len(taxonomy.leaves)))
    for level, labels in enumerate(taxonomy.labels):
        column = codes[:, level].tolist()
        assert len(set(labels)) == len(labels)
        # Labels in order of their first leaf, each over a run of consecutive leaves.
        assert column == sorted(column)
        assert taxonomy.sizes[level].sum() == len(taxonomy.leaves)
        if level:
            below = codes[:, level - 1]
            same = below[1:] == below[:-1]
            assert (np.diff(codes[:, level])[same] == 0).all()
    if None in leaves:
        last = [labels[code] for labels, code in zip(taxonomy.labels, codes[-1], strict=True)]
        assert last == [None] * taxonomy.height + [ROOT]


@settings(deadline=None)
@given(st.lists(st.dates(date(1, 1, 1), date(9999, 12, 31)), min_size=1, max_size=20))
def test_calendar_labels_are_prefix_true(days: list[date]) -> None:
    taxonomy = Calendar((Step.MONTH, Step.YEAR)).grow(days)
    for leaf, row in zip(taxonomy.leaves, taxonomy.codes, strict=True):
        assert str(leaf).startswith(str(taxonomy.labels[1][row[1]]))
        assert str(leaf).startswith(str(taxonomy.labels[2][row[2]]))
