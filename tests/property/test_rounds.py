"""No person moves what a round sums by more than is claimed, through the engine's own SQL."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sqlglot import exp
from tests.unit.methods.learn.learnt import TARGET, dataset, features, people, planned

from sfumato.data.counting.axes import literal
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.learn.bins import ClassLabels
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.perceptron import sum_mistakes
from sfumato.methods.learn.rounds import (
    GriddedRows,
    nearest_layers,
    offset_sensitivity,
)
from sfumato.methods.learn.row_sums import person_sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from sfumato.data.schema.unit import Sensitivity, Unit

REACH = 1300
CENTRES = np.array([[-700, 300], [512, -1024]])
LINE = np.array([700, -1024, 300])


def _around(rows: GriddedRows) -> Any:
    layers, group = nearest_layers(CENTRES)
    return rows.group_sums(CENTRES, REACH, group, layers)


def _mistakes(rows: GriddedRows) -> Any:
    wide = [*rows.expressions[:2], literal(400), rows.expressions[2]]
    return sum_mistakes(GriddedRows(rows.data, wide, 3), np.array([10, -20, 0]), LINE, REACH)


Figures = dict[str, np.ndarray[Any, Any]]
CLAIMS: dict[str, Callable[[Unit], Sensitivity]] = {
    "counts": lambda unit: person_sensitivity(unit, l1=1, l2_squared=1, signed=False),
    "offsets": lambda unit: offset_sensitivity(unit, REACH),
    "mistakes": lambda unit: offset_sensitivity(unit, REACH),
}


def _figures(rows: GriddedRows) -> Figures:
    around = _around(rows)
    return {
        "counts": around[:, 0],
        "offsets": around[:, 1:],
        "mistakes": _mistakes(rows),
    }


CORNERS = [
    [-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [0.1, -0.3], [2.0, 0.5],
    [100 / GRID, 1.0], [-1.0, -300 / GRID],
]  # fmt: skip
"""Rows that move most: far from all centres, and along an axis from that of the products."""


def _people(rows: int) -> list[tuple[Any, list[str | None]]]:
    """People with all of their rows in one corner, of either class, and one with rows in many."""
    alike = [
        (np.array([corner] * rows), [told] * rows)
        for corner, told in zip(
            CORNERS, ["no", "yes", "no", "no", None, "yes", "yes", "yes"], strict=True
        )
    ]
    return [*alike, (np.array(CORNERS[:rows]), ["yes"] * rows)]


def _table(background: Any, person: Any) -> pa.Table:
    cells = np.concatenate([background[0], person[0]])
    who = [*range(len(background[0])), *([99] * len(person[0]))]
    return people(cells, [*background[1], *person[1]], who)


def _told(table: pa.Table, unit: Unit, figures: Callable[[GriddedRows], Figures]) -> Figures:
    learning = planned("perceptron", 2, unit=unit)
    label = ClassLabels.of(TARGET).expression()
    with closing(open_duckdb(table)) as engine:
        expressions = [*FeatureSpace(features(2)).expressions(), label]
        return figures(GriddedRows(dataset(learning, engine), expressions, 2))


@cache
def _all_told(unit: Unit, figures: Callable[[GriddedRows], Figures]) -> list[Figures]:
    """What is told without a person, and with one after the other beside the same four."""
    background = (np.random.default_rng(11).uniform(-1, 1, (4, 2)), ["no", "yes", "no", None])
    nobody: Any = (np.zeros((0, 2)), [])
    every = [nobody, *_people(3 if unit.by_person else 1)]
    return [_told(_table(background, one), unit, figures) for one in every]


def _most(
    figures: Callable[[GriddedRows], Figures], unit: Unit, relation: Neighbours
) -> dict[str, tuple[int, int]]:
    """The farthest that a person moved figures, in L1 and in squared L2."""
    nobody, *others = told = _all_told(unit, figures)
    # Whoever is replaced was somebody else before; all others come or go.
    replaced = relation is Neighbours.REPLACE_ONE
    pairs = combinations(told, 2) if replaced else ((nobody, one) for one in others)
    moves = [{name: (two[name] - one[name]).ravel() for name in nobody} for one, two in pairs]
    return {
        name: (
            max(int(abs(one[name]).sum()) for one in moves),
            max(int((one[name] ** 2).sum()) for one in moves),
        )
        for name in nobody
    }


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("person", [False, True])
def test_a_person_moves_no_more_than_is_claimed(relation: Neighbours, *, person: bool) -> None:
    unit = Entity("who", 2, relation=relation) if person else Rows(relation=relation)
    # What is told does not depend on who is compared with whom.
    asked: Unit = Entity("who", 2) if person else Rows()
    for name, (l1, l2_squared) in _most(_figures, asked, relation).items():
        claim = CLAIMS[name](unit)
        assert l1 <= claim.l1, name
        assert l2_squared <= claim.l2_squared, name
        # Twin: three quarters of it would be too little, so that these people are far enough.
        assert l1 > claim.l1 * 3 / 4, name


def test_offsets_that_are_not_cut_move_further() -> None:
    """Twin: the same claim for offsets as they are."""

    def uncut(rows: GriddedRows) -> Figures:
        layers, group = nearest_layers(CENTRES)
        terms = [exp.column(f"sf_r{at}") for at in range(2)]
        return {"offsets": rows.sums(CENTRES, REACH, terms, group, layers)}

    l1, _ = _most(uncut, Rows(), Neighbours.ADD_REMOVE)["offsets"]
    assert l1 > offset_sensitivity(Rows(), REACH).l1
