"""Privelet's error on ranges grows with the cube of the logarithm of the domain, and no faster."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.data.counting.axes import Grid
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows
from sfumato.methods.publish import wavelet
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price


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
