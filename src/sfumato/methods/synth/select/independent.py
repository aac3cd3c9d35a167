"""Measure every column by itself, larger ones with more of the charge."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.methods.synth.shape import Set
    from sfumato.methods.synth.workbench import Workbench

_UNITS = 1 << 30


def measure_columns(bench: Workbench, share: Fraction = Fraction(1)) -> None:
    """Measure all columns by a share of the charge."""
    measure_sets(bench, [(column,) for column in bench.shape.columns], share)


def measure_sets(bench: Workbench, sets: Sequence[Set], share: Fraction) -> None:
    """Measure sets by a share of the charge, so that the sum of all errors is least.

    The error of a table of c cells by a share s is c / s^(power / 2), the sum of which is least
    for s in proportion to c^(2 / (2 + power)).
    """
    bench.expect(list(sets))
    cells = np.array([float(bench.shape.cells(one)) for one in sets])
    for one, part in zip(sets, divided(cells ** (2 / (2 + bench.power))), strict=True):
        bench.measure(one, share * part)


def divided(weights: np.ndarray) -> list[Fraction]:
    """Shares in proportion to weights, as fractions above 0 that add up to 1."""
    units = np.maximum((weights / weights.sum() * _UNITS).astype(np.int64), 1)
    units[np.argmax(units)] += _UNITS - units.sum()
    return [Fraction(int(one), _UNITS) for one in units]
