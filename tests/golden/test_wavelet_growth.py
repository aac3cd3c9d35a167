"""Privelet's error on ranges grows with the cube of the logarithm of the domain, and no faster."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.counting.axes import Grid
from sfumato.privacy.price import price
from sfumato.privacy.units import Rows
from sfumato.publish import wavelet
from sfumato.publish.request import Request
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds


def mean_error(points: int) -> float:
    """The exact mean squared error over all ranges, in units of 1 / epsilon^2."""
    axis = Grid("x", Kind.INTEGER, Bounds(0, points - 1), nullable=True)
    request = Request(dataset="d", axes=(axis,), unit=Rows(), price=price(epsilon="0.01"))
    return wavelet.prepare(request).workload_mse * 0.01**2


def test_the_error_of_a_wavelet_grows_with_the_cube_of_the_logarithm() -> None:
    scales = np.arange(6, 23, 4)
    errors = np.array([mean_error(1 << scale) for scale in scales.tolist()])
    shares = errors / (scales + 1) ** 3
    # The constant creeps up towards 1/3; a power of n, or another power of log n, would run away.
    assert (np.diff(shares) > 0).all()
    assert shares[0] == pytest.approx(0.30, abs=0.01)
    assert shares[-1] < 1 / 3
