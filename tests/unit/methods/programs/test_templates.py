"""Every template gives what it says, and needs nothing but its own file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.methods.programs.chambers import OpenChamber

from sfumato.methods.programs.blocks import to_stream
from sfumato.methods.programs.language import executable, language_of
from sfumato.methods.programs.sandbox.base import BlockLimits
from sfumato.methods.programs.source import program_of, read_program
from sfumato.methods.programs.templates import NAMES, template

RNG = np.random.default_rng(1)
X = RNG.normal(0, 1, 3000)
ROWS = {
    "mean": pa.table({"a": [1, None, 3], "b": [2.0, 4.0, None]}),
    "regression": pa.table({"x": X, "y": 2 + 3 * X}),
    "kmeans": pa.table({"x": np.repeat([0.0, 5.0, 9.0], 50), "y": np.repeat([1.0, 2.0, 3.0], 50)}),
    "strict_mean": pa.table({"a": [1, None, 3], "b": [2.0, 4.0, None]}),
    "strict_regression": pa.table({"x": X, "y": 2 + 3 * X}),
    "estimator": pa.table({"x": X, "y": (X + RNG.logistic(0, 1, 3000) > 0).astype(int)}),
}
EXPECTED = {
    "mean": [2, 3],
    "regression": [2, 3],
    "strict_mean": [2, 3],
    "strict_regression": [2, 3],
    "kmeans": [0, 1, 5, 2, 9, 3],
    "estimator": [1, 0],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_template_gives_what_it_says(name: str) -> None:
    path = template(name)
    program = executable(program_of(read_program(path), name, language_of(path)), BlockLimits())
    wide, block = len(EXPECTED[name]), to_stream(ROWS[name])
    found = OpenChamber().rehearse(program, block, wide, BlockLimits())
    assert found.record is not None, found.reason
    assert np.frombuffer(found.record) == pytest.approx(EXPECTED[name], abs=0.2)
