"""Boxes are divided into partitions, and rows follow their boxes."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.data.counting.axes import Grid, Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.errors import ParameterError
from sfumato.methods.publish.spatial_tree import MAX_POINTS, Growth, Space
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZES = (13, 7)


def axis(name: str, size: int) -> Grid:
    return Grid(name, Kind.INTEGER, Bounds(0, size - 1), nullable=False)


def planted() -> Growth:
    """One row at every cell."""
    space = Space((axis("x", SIZES[0]), axis("y", SIZES[1])))
    codes = np.indices(SIZES).reshape(2, -1).T
    return Growth(space, codes, np.ones(len(codes), np.int64), np.zeros(0, np.int64))


def halve(growth: Growth, chosen: NDArray[np.bool_]) -> None:
    division = growth.begin(chosen)
    division.evenly(0, np.full(len(division.lows), 2))
    growth.end(division)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_rows_stay_in_their_boxes_whatever_is_cut(seed: int) -> None:
    generator = np.random.default_rng(seed)
    growth = planted()
    for _ in range(4):
        division = growth.begin(generator.random(len(growth.sizes())) < 0.7)
        for column in generator.permutation(2):
            if generator.random() < 0.5:
                division.evenly(column, generator.integers(1, 5, len(division.lows)))
            else:
                lows, highs = division.lows[:, column], division.highs[:, column]
                division.cut(column, generator.integers(lows, highs + 1))
        growth.end(division)
        # One row a cell, so a box holds as many rows as cells.
        assert growth.counts().tolist() == growth.sizes().prod(axis=1).tolist()
    tree = growth.tree
    assert (np.diff(tree.parents) >= 0).all()
    sizes = (tree.highs - tree.lows + 1).prod(axis=1)
    for node in np.flatnonzero(~tree.leaves):
        below = slice(tree.firsts[node], tree.firsts[node] + tree.children[node])
        assert sizes[below].sum() == sizes[node]


def test_even_parts_differ_by_one_code_at_most() -> None:
    division = planted().begin(np.array([True]))
    division.evenly(0, np.array([5]))
    assert sorted(division.sizes(0)) == [2, 2, 3, 3, 3]
    division.evenly(1, np.full(5, 99))  # no more parts than codes
    assert (division.sizes(1) == 1).all()


def test_a_box_that_was_passed_over_is_measured_again_and_never_divided() -> None:
    growth, entropy = planted(), SeededEntropy(1)
    noise = Geometric(epsilon=Fraction(1))
    growth.measure(noise, entropy)
    for chosen in ([True], [True, False], [True, True, True]):  # the last asks for it, too
        halve(growth, np.array(chosen))
        growth.measure(noise, entropy)
    _, precisions = growth.measured
    assert precisions * noise.variance == pytest.approx([1, 1, 3, 1, 1, 1, 1, 1, 1])


def test_several_measurements_are_averaged() -> None:
    growth = planted()
    noise = Geometric(epsilon=Fraction(30))  # as good as none
    growth.measure(noise, SeededEntropy(2))
    growth.measure(noise, SeededEntropy(3))
    means, precisions = growth.measured
    assert means == pytest.approx([13 * 7])
    assert precisions == pytest.approx([2 / noise.variance])


def test_missing_values_are_counted_by_the_way_they_are_missing() -> None:
    real = Grid("x", Kind.REAL, Bounds(Decimal(0), Decimal(4), Decimal(1)), nullable=True)
    listed = Listed("colour", pa.array(["red", "blue", None]), declared=True)
    space = Space((real, listed))
    codes = (np.array([0, 4, 5, 5, 6, 6]), np.array([0, 2, 1, 2, 0, 2]))
    growth = space.plant(Frequencies((real, listed), codes, np.arange(1, 7)))
    growth.measure(Geometric(epsilon=Fraction(30)), SeededEntropy(2))
    counts, precision = growth.missing
    table = space.missing(counts, 1 / precision).to_pylist()
    assert growth.counts().tolist() == [1]
    assert {(row["x_is"], row["colour_is"]): round(row["count"]) for row in table} == {
        ("present", "missing"): 2,
        ("missing", "present"): 3,
        ("missing", "missing"): 4,
        ("not a number", "present"): 5,
        ("not a number", "missing"): 6,
    }


def test_a_space_without_missing_values_has_no_blocks_of_them() -> None:
    assert Space((axis("x", 3),)).patterns == []


def test_too_many_columns_are_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        Space(tuple(axis(name, 3) for name in "abcde"))
    assert caught.value.code == "problem_too_large"


def test_a_column_of_too_many_points_is_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        Space((axis("x", MAX_POINTS + 1),))
    assert caught.value.code == "problem_too_large"
