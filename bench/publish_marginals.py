"""All marginals of the coded Adult table: planned, measured and put together; and their error.

The error is beside that of tables with noise of their own, each with its best share of the budget.
"""

from __future__ import annotations

import json
import math
import time
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows
from sfumato.methods.publish import fourier
from sfumato.methods.publish.marginals import prepare
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from sfumato.data.counting.axes import Axis

DATA = Path(__file__).parents[2] / "shared" / "data" / "adult_coded"
COSTS: dict[str, dict[str, Any]] = {"rho 1/2": {"rho": "1/2"}, "epsilon 1": {"epsilon": 1}}


def rows() -> list[dict[str, object]]:
    """Pairs and triples of Adult by both kinds of noise, then parities of bits."""
    found = _parities()
    if not DATA.is_dir():
        return found
    sizes = json.loads((DATA / "adult-domain.json").read_text())
    axes = _axes(list(sizes), list(sizes.values()))
    table = np.loadtxt(DATA / "adult.csv", delimiter=",", skiprows=1, dtype=np.int64)
    counts = Frequencies(axes, tuple(table.T), np.ones(len(table), dtype=np.int64))
    for way, tables in ((2, 91), (3, 364)):
        for name, cost in COSTS.items():
            what = f"marginals: all {tables} of {way} columns of Adult, {name}"
            found += [_timed(what, counts, way, cost), _error(what, axes, way, cost)]
    return found


def _axes(names: list[str], sizes: list[int]) -> tuple[Axis, ...]:
    return tuple(
        Grid(name, Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for name, size in zip(names, sizes, strict=True)
    )


def _request(axes: tuple[Axis, ...], cost: dict[str, Any]) -> Request:
    return Request(dataset="adult", axes=axes, unit=Rows(), price=price(**cost))


def _timed(what: str, counts: Frequencies, way: int, cost: dict[str, Any]) -> dict[str, object]:
    started = time.process_time()
    prepare(_request(counts.axes, cost), way=way).release(counts, SystemEntropy())
    spent = time.process_time() - started
    return {"name": what, "unit": "s of CPU", "value": spent, "wanted": "under 30"}


def _error(what: str, axes: tuple[Axis, ...], way: int, cost: dict[str, Any]) -> dict[str, object]:
    cells = [math.prod(one) for one in combinations([axis.size for axis in axes], way)]
    # The variance at the whole budget is 2 / epsilon^2 or 1 / (2 rho); a share divides it.
    unit, power = (2, 2) if "epsilon" in cost else (1, 1)
    alone = unit * sum(cell ** (1 / (1 + power)) for cell in cells) ** (1 + power)
    return {
        "name": f"{what}: error",
        "unit": "rows, rms",
        "value": prepare(_request(axes, cost), way=way).error["all"]["sd"],
        "peer": "independent tables",
        "peer_value": math.sqrt(alone / sum(cells)),
        "wanted": "less",
    }


def _parities() -> list[dict[str, object]]:
    """Pairs of ten bits: noise on 56 parities, and the linear program for 1,024 counts."""
    axes = _axes(list("abcdefghij"), [2] * 10)
    table = np.zeros([2] * 10, dtype=np.int64)
    table[tuple(np.indices([2] * 10))] = np.arange(1024).reshape([2] * 10) % 17
    counts = Frequencies(axes, np.nonzero(table), table[np.nonzero(table)])
    method = fourier.prepare_parities(_request(axes, {"epsilon": 1}), way=2)
    started = time.process_time()
    released = method.release(counts, SystemEntropy())
    spent = time.process_time() - started
    off = [
        np.abs(np.asarray(one["count"]) - counts.marginal(name.split(",")).dense().ravel()).max()
        for name, one in released.items()
    ]
    bound = max(one["largest95"] for one in method.error["tables"].values())
    what = "parities: all pairs of 10 bits, epsilon 1"
    return [
        {"name": f"{what}: time", "unit": "s of CPU", "value": spent},
        {
            "name": f"{what}: largest error",
            "unit": "rows",
            "value": float(max(off)),
            "wanted": f"at most {bound:,.0f} with 95 %",
        },
    ]
