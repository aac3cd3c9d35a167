"""A line is moved by noisy sums of the rows that it gets wrong, in rounds fixed ahead."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from tests.unit.methods.learn.learnt import (
    TARGET,
    dataset,
    features,
    fitted,
    model_of,
    people,
    planned,
    spent,
)
from tests.unit.methods.learn.test_rounds import CELLS, cut

from sfumato.data.counting.axes import literal
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Values
from sfumato.errors import ParameterError
from sfumato.methods.learn.bins import ClassLabels
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.perceptron import line_on_grid, sum_mistakes
from sfumato.methods.learn.rounds import GriddedRows

TOLD: list[str | None] = [["no", "yes", None][at % 3] for at in range(len(CELLS))]


@pytest.mark.parametrize("line", [[0, 0, 0, 0], [5, -1024, 300, 17], [-1024, 3, 2, 1]])
def test_what_a_line_gets_wrong_is_summed_in_whole_numbers(line: list[int]) -> None:
    centre, reach, constant = np.array([-300, 100, 0, 0]), 1500, 200
    learning = planned("perceptron", 3)
    with closing(open_duckdb(people(CELLS, TOLD))) as engine:
        expressions = [
            *FeatureSpace(features(3)).expressions(),
            literal(constant),
            ClassLabels.of(TARGET).expression(),
        ]
        rows = GriddedRows(dataset(learning, engine), expressions, 4)
        told = sum_mistakes(rows, centre, np.array(line), reach)
    places = np.rint(np.clip(CELLS, -1, 1) * GRID).astype(np.int64)
    offsets = cut(np.column_stack([places, np.full(len(places), constant)]) - centre, reach)
    signs = np.array([{"no": -1, "yes": 1, None: 0}[one] for one in TOLD])
    wrong = signs * (offsets @ np.array(line)) <= 0
    assert told.tolist() == ((signs * wrong) @ offsets).tolist()


def test_two_classes_are_parted() -> None:
    cells = np.random.default_rng(2).uniform(-1, 1, (400, 2))
    told = ["yes" if one[0] + 0.5 * one[1] > 0.2 else "no" for one in cells]
    learning = planned("perceptron", 2, epsilon=200, rounds=12)
    assert spent(learning.event) == Fraction(200)
    found = model_of(learning, fitted(learning, people(cells, told)))
    assert found.score(people(cells), told) > 0.95
    assert np.linalg.norm(found.weights[1:]) == pytest.approx(1, abs=1e-5)  # type: ignore[attr-defined]


def test_only_the_relations_of_weights_matter() -> None:
    assert line_on_grid(np.array([0.5, -2.0, 0.001])).tolist() == [256, -1024, 1]
    assert line_on_grid(np.zeros(2)).tolist() == [0, 0]


def test_other_numbers_of_classes_are_refused() -> None:
    target = Column("told", Kind.TEXT, domain=Values(("a", "b", "c")))
    with pytest.raises(ParameterError, match="separates two classes; column 'told' declares 3"):
        planned("perceptron", 2, target=target)
    with pytest.raises(ParameterError, match="rounds must be a whole number from 1 to 20"):
        planned("perceptron", 2, rounds=21)
