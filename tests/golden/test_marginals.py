"""All marginals of Adult: the least possible error, and their time on the data."""

from __future__ import annotations

import json
import math
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.data.counting.axes import Axis, Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows
from sfumato.methods.publish.marginals import prepare
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

DATA = Path(__file__).parents[3] / "shared" / "data" / "adult_coded"
SIZES = [85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2]


def request(sizes: list[int], **cost: Any) -> Request:
    axes: tuple[Axis, ...] = tuple(
        Grid(f"c{place}", Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for place, size in enumerate(sizes)
    )
    return Request(dataset="adult", axes=axes, unit=Rows(), price=price(**cost))


def singular_value_bound(sizes: list[int], way: int) -> float:
    """The least sum of variances of all marginals by any Gaussian noise on linear queries.

    The square of the sum of the queries' singular values over the number of all cells (Li & Miklau
    2013), at sensitivity and variance 1. On the residual of R the square of a singular value is,
    for every cell of all columns, the sum of 1 / cells over the marginals that contain R.
    """
    inside: dict[tuple[int, ...], float] = {}
    for one in combinations(range(len(sizes)), way):
        share = 1 / math.prod(sizes[place] for place in one)
        for size in range(way + 1):
            for part in combinations(one, size):
                inside[part] = inside.get(part, 0.0) + share
    values = sum(
        math.prod(sizes[place] - 1 for place in part) * math.sqrt(square)
        for part, square in inside.items()
    )
    return values**2


@pytest.mark.parametrize(("way", "error"), [(1, 3.047), (2, 6.359), (3, 10.515)])
def test_adult_has_the_least_error_that_gaussian_noise_allows(way: int, error: float) -> None:
    """ResidualPlanner is optimal (Xiao, He, Zhang & Kifer 2023); at rho = 1/2 noise has variance 1
    for a sensitivity of 1."""
    stated = prepare(request(SIZES, rho="1/2"), way=way).error["all"]
    assert round(stated["sd"], 3) == error
    least = math.sqrt(singular_value_bound(SIZES, way) / stated["cells"])
    assert stated["sd"] == pytest.approx(least, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("cost", [{"rho": "1/2"}, {"epsilon": 1}], ids=["gaussian", "laplace"])
def test_all_364_triples_of_adult_take_less_than_thirty_seconds(cost: dict[str, Any]) -> None:
    if not DATA.is_dir():
        pytest.skip("the coded Adult data is not here")
    sizes = list(json.loads((DATA / "adult-domain.json").read_text()).values())
    assert sizes == SIZES
    rows = np.loadtxt(DATA / "adult.csv", delimiter=",", skiprows=1, dtype=np.int64)
    asked = request(sizes, **cost)
    counts = Frequencies(asked.axes, tuple(rows.T), np.ones(len(rows), dtype=np.int64))
    started = time.process_time()
    method = prepare(asked, way=3)
    released = method.release(counts, SeededEntropy(1))
    assert time.process_time() - started < 30
    assert len(released) == 364
    name, table = next(iter(released.items()))
    off = np.asarray(table["count"]) - counts.marginal(name.split(",")).dense().ravel()
    assert np.sqrt(np.mean(off**2)) == pytest.approx(method.error["tables"][name]["sd"], rel=0.05)
