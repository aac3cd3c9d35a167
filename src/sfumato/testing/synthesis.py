"""Small tables and workbenches, for tests of synthesis."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.counting.frequencies import Frequencies
from sfumato.mechanisms.spending import Spending
from sfumato.privacy.events import ConcentratedEvent
from sfumato.privacy.units import Rows, count_sensitivity
from sfumato.synth.log import MeasuredTable, MeasurementLog
from sfumato.synth.shape import TableShape
from sfumato.synth.workbench import Workbench
from sfumato.testing.counts import whole_numbers
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from sfumato.privacy.units import Unit

_ROWS = Rows()


def table_of(sizes: tuple[int, ...], rows: ArrayLike) -> Frequencies:
    """Rows of codes, counted one by one."""
    codes = np.asarray(rows, dtype=np.int32).reshape(-1, len(sizes))
    ones = np.ones(len(codes), dtype=np.int64)
    return Frequencies(whole_numbers(*sizes), tuple(codes.T), ones)


def linked_rows(sizes: tuple[int, ...], count: int, seed: int) -> NDArray[np.int32]:
    """Rows in which every column is mostly told by the one before it."""
    draws = np.random.default_rng(seed)
    columns = [draws.integers(0, sizes[0], count)]
    for size in sizes[1:]:
        noise = draws.integers(0, size, count)
        columns.append(np.where(draws.random(count) < 0.7, columns[-1] % size, noise))
    return np.stack(columns, axis=1).astype(np.int32)


def bench_of(table: Frequencies, *, seed: int = 1, unit: Unit = _ROWS, **amount: Any) -> Workbench:
    """A workbench on a table, with seeded entropy; rho 1 if no amount is given."""
    exact = {name: Fraction(value) for name, value in (amount or {"rho": 1}).items()}
    return Workbench(
        TableShape.of(table.axes),
        table,
        Spending(**exact),
        count_sensitivity(unit, grouped=True),
        SeededEntropy(seed),
    )


def exact_log(joint: NDArray[np.float64], sets: Iterable[tuple[int, ...]]) -> MeasurementLog:
    """A log of the true tables of a joint one, as if measured nearly without noise."""
    shape = TableShape(tuple(map(str, range(joint.ndim))), joint.shape)
    log = MeasurementLog(shape)
    for places in sets:
        away = tuple(axis for axis in range(joint.ndim) if axis not in places)
        event = ConcentratedEvent(rho=Fraction(1))
        log.add(MeasuredTable(places, joint.sum(axis=away), 1e-6, event))
    return log
