"""Private quartiles of columns, as the helper of a program gets them."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.method import Dataset
from sfumato.methods.programs.range_helper import InputQuartiles
from sfumato.testing.entropy import SeededEntropy


@pytest.mark.parametrize("low", [-(2**60) - 1, 0, 2**53 + 1])
def test_F29_quartiles_of_numbers_that_no_real_holds_are_the_nearest_reals(low: int) -> None:
    """A quartile beyond 2^53 failed the run, after its charge."""
    column = sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(low, low + 2), nullable=False)
    schema = sf.Schema("t", (column,), sf.Rows())
    with sf.read(pa.table({"x": [low, low + 1, low + 1, low + 2] * 50}), schema) as table:
        data = Dataset("t", table.engine, table.engine.table, schema, schema.unit)
        found = InputQuartiles.of("f", (column,)).quartiles(
            data, schema.unit, Fraction(1000), "salt", SeededEntropy(1)
        )
    assert found.to_pydict() == {
        "column": ["x"],
        "low": [float(found["low"][0].as_py())],
        "high": [float(found["high"][0].as_py())],
    }
    assert float(low) <= found["low"][0].as_py() <= found["high"][0].as_py() <= float(low + 2)
