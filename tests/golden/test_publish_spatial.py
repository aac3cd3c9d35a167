"""Trees of boxes against a flat grid of 5 km cells, in shapes as of Cormode et al. 2012."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows
from sfumato.methods.publish import publication
from sfumato.methods.publish.request import AnswersRanges, Request
from sfumato.privacy.accounting.price import price
from sfumato.privacy.estimation.boxes import box_sums
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLACES = Path(__file__).parents[2] / ".." / "shared" / "data" / "geo" / "us_zipcodes.csv"
LOW, SIZES, STEP = np.array([-125, 24]), (1181, 521), 0.05


@pytest.fixture(scope="module")
def places() -> Frequencies:
    if not PLACES.exists():
        pytest.skip("the places of ZIP codes are not at hand")
    with PLACES.open(encoding="utf-8") as stream:
        found = [(row["lon"], row["lat"]) for row in csv.DictReader(stream) if row["lon"]]
    codes = np.rint((np.array(found, dtype=np.float64) - LOW) / STEP).astype(np.int64)
    codes = codes[((codes >= 0) & (codes < SIZES)).all(axis=1)]
    merged = group(tuple(codes.T), list(SIZES), np.ones(len(codes), dtype=np.int64))
    axes = tuple(
        Grid(name, Kind.REAL, Bounds(Decimal(low), Decimal(high), Decimal("0.05")), nullable=False)
        for name, low, high in (("longitude", -125, -66), ("latitude", 24, 50))
    )
    return Frequencies(axes, tuple(codes[merged.representatives].T), merged.counts)


def ranges(degrees: tuple[float, float], truth: NDArray[np.float64]) -> NDArray[np.int64]:
    """Three hundred boxes of a shape at random places, none of them empty."""
    generator = np.random.default_rng(9)
    spans = np.rint(np.array(degrees) / STEP).astype(np.int64)
    lows = generator.integers(0, np.array(SIZES) - spans + 1, size=(3000, 2))
    boxes = np.stack([lows, lows + spans - 1], axis=2)
    return np.asarray(boxes[box_sums(truth, boxes) > 0][:300])


def error(kind: str, counts: Frequencies, boxes: NDArray[np.int64], **options: object) -> float:
    """The median relative error over three releases."""
    request = Request(dataset="places", axes=counts.axes, unit=Rows(), price=price(epsilon="0.5"))
    method = publication.prepare(kind, request, options).method
    assert isinstance(method, AnswersRanges)
    true = box_sums(counts.dense().astype(np.float64), boxes)
    found = [
        np.median(
            np.abs(method.ranges(method.release(counts, SeededEntropy(seed)), boxes) - true) / true
        )
        for seed in range(3)
    ]
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("shape", "margin"), [((1, 1), 3), ((5, 5), 3), ((10, 10), 5), ((15, 0.2), 3)]
)
def test_trees_beat_the_flat_grid(
    places: Frequencies, shape: tuple[float, float], margin: float
) -> None:
    boxes = ranges(shape, places.dense().astype(np.float64))
    flat = error("histogram", places, boxes)
    for kind, options in (("hybrid", {}), ("kdtree", {"hybrid": 0}), ("privtree", {})):
        ours = error(kind, places, boxes, **options)
        assert ours * margin < flat, kind
