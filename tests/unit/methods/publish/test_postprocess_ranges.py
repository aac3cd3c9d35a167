"""Post-processing of every kind: ranges hardly suffer from it, and no error is stated after it."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.fixtures.counts import agrees, frequencies, request_for, whole_numbers
from tests.fixtures.slices import few_fast

from sfumato.errors import ParameterError
from sfumato.methods.publish import publication
from sfumato.methods.publish.postprocess import unstated
from sfumato.methods.publish.request import AnswersRanges, PredictsVariance
from sfumato.privacy.estimation.boxes import box_sums
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.publish.publication import Publication

LINE, PLANE = (300,), (24, 20)
OF_A_LINE = ("auto", "histogram", "tree", "wavelet", "dawa", "fourier", "kdtree", "hybrid",
             "privtree")  # fmt: skip
OF_A_PLANE = ("auto", "histogram", "tree", "wavelet", "quadtree", "kdtree", "hybrid", "privtree",
              "adaptive-grid")  # fmt: skip
KINDS = [*product(OF_A_LINE, [LINE]), *product(OF_A_PLANE, [PLANE])]
STEPS = [("nonnegative",), ("integer",), ("nonnegative", "integer")]
SHAPES = ("sparse", "dense", "clustered", "uniform", "empty")


@cache
def rows(data: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    generator = np.random.default_rng(5)
    cells: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
    if data == "sparse":
        places = generator.choice(cells.size, 20, replace=False)
        cells.reshape(-1)[places] = generator.integers(100, 2000, 20)
    elif data == "clustered":
        where = 0.3 + 0.02 * generator.standard_normal((20_000, len(shape)))
        np.add.at(cells, tuple((where * shape).astype(np.int64).T), 1)
    elif data != "empty":
        cells = generator.poisson(200 if data == "dense" else 2, shape)
    return cells


def boxes(shape: tuple[int, ...]) -> NDArray[np.int64]:
    generator = np.random.default_rng(6)
    sides = [generator.integers(0, size, (100, 2)) for size in shape]
    return np.sort(np.stack(sides, axis=1), axis=2)


@cache
def prepared(kind: str, shape: tuple[int, ...], steps: tuple[str, ...]) -> Publication:
    request = request_for(whole_numbers(*shape), epsilon="1/5", postprocess=steps)
    return publication.prepare(kind, request, {})


@cache
def error(kind: str, shape: tuple[int, ...], data: str, steps: tuple[str, ...]) -> float:
    """The root of the mean squared error of random ranges, over a few releases."""
    made, asked = prepared(kind, shape, steps), boxes(shape)
    assert isinstance(made.method, AnswersRanges)
    counts = frequencies(made.request.axes, rows(data, shape))
    truth = box_sums(rows(data, shape).astype(np.float64), asked)
    released = (made.method.release(counts, SeededEntropy(seed)) for seed in range(4))
    errors = [made.method.ranges(tables, asked) - truth for tables in released]
    return float(np.sqrt(np.mean(np.square(errors))))


BY_BLOCKS = [one for one in KINDS if one[0] != "histogram"]
"""Kinds that are asked for ranges; a histogram is read cell by cell (the next test)."""


def test_a_peak_of_a_histogram_stays() -> None:
    """35 deviations above its empty neighbours; sums of many cells would bury it in their noise."""
    shape = (20_000,)
    request = request_for(whole_numbers(*shape), epsilon="1/100", postprocess=("nonnegative",))
    made = publication.prepare("histogram", request, {}).method
    assert isinstance(made, AnswersRanges)
    peak: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
    peak[7_000] = 5_000
    tables = made.release(frequencies(request.axes, peak), SeededEntropy(3))
    assert made.ranges(tables, np.array([[[7_000, 7_000]]]))[0] > 3_000


@pytest.mark.parametrize(
    "steps", few_fast([pytest.param(one, id="-".join(one)) for one in STEPS], 1)
)
@pytest.mark.parametrize(("kind", "shape"), few_fast(BY_BLOCKS, 6))
def test_ranges_are_hardly_worse_after_it(
    kind: str, shape: tuple[int, ...], steps: tuple[str, ...]
) -> None:
    """One by one, cells were brought to 0 at the cost of all full ones: errors grew 40 times."""
    found = {
        data: error(kind, shape, data, steps) / error(kind, shape, data, ()) for data in SHAPES
    }
    assert max(found.values()) < 1.5
    assert np.mean(list(found.values())) < 1.1


@pytest.mark.parametrize("total", [None, 20_000])
def test_a_cluster_in_a_tree_keeps_its_rows(total: int | None) -> None:
    """786 off where the noise does 18: what was taken from full cells went to empty ones."""
    shape, steps = (4096,), ("nonnegative",) if total is None else ("nonnegative", "total")
    cells, asked = rows("clustered", shape), boxes(shape)
    request = request_for(whole_numbers(*shape), epsilon=1, postprocess=steps)
    options = {} if total is None else {"total": total}
    made = publication.prepare("tree", request, options).method
    assert isinstance(made, AnswersRanges)
    assert isinstance(made, PredictsVariance)
    tables = made.release(frequencies(request.axes, cells), SeededEntropy(1))
    errors = made.ranges(tables, asked) - box_sums(cells.astype(np.float64), asked)
    assert np.sqrt((errors**2).mean()) < 1.2 * np.sqrt(made.ranges_variance(asked).mean())


@pytest.mark.parametrize(("kind", "shape"), KINDS)
def test_no_error_is_stated_after_it(kind: str, shape: tuple[int, ...]) -> None:
    made, plain = prepared(kind, shape, ("nonnegative",)), prepared(kind, shape, ())
    with pytest.raises(ParameterError, match="Publish without post-processing") as refused:
        made.ranges_stddev(boxes(shape))
    assert refused.value.code == "ranges_not_answerable"
    figures = {name for name, one in plain.error.items() if not isinstance(one, str)}
    assert figures
    assert all(made.error[name] is None for name in figures)
    assert set(made.error["before_postprocess"]) >= figures
    assert "is not known" in made.error["note"]
    counts = frequencies(made.request.axes, rows("uniform", shape))
    for table in made.method.release(counts, SeededEntropy(1)).values():
        if "sd" in table.column_names:
            assert table["sd"].null_count == len(table)


@pytest.mark.parametrize("kind", ["auto", "histogram", "tree", "wavelet", "quadtree"])
def test_without_it_what_is_stated_is_what_many_releases_show(kind: str) -> None:
    request = request_for(whole_numbers(8, 7), epsilon="1/5")
    made, cells = publication.prepare(kind, request, {}).method, rows("uniform", (8, 7))
    assert isinstance(made, AnswersRanges)
    assert isinstance(made, PredictsVariance)
    asked, counts = boxes((8, 7))[:20], frequencies(request.axes, cells)
    entropy = SeededEntropy(7)
    released = (made.release(counts, entropy) for _ in range(300))
    truth = box_sums(cells.astype(np.float64), asked)
    errors = np.array([made.ranges(tables, asked) - truth for tables in released])
    assert agrees(errors, made.ranges_variance(asked))


def test_notes_remain_and_figures_go() -> None:
    stated = {"cells": {"sd": 2.0}, "note": "noise alone"}
    assert unstated(stated, ()) is stated
    found = unstated(stated, ("integer",))
    assert found["cells"] is None
    assert found["before_postprocess"] == stated
