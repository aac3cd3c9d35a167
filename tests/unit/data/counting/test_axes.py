"""Codes stand for the values they were made of, whichever way those were numbered."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.axes import encode

COLUMNS: dict[str, list[Any]] = {
    "short range": [-3, 5, None, 0, 5],
    "at the ends of 32 bits": [-(2**31), 2**31, None, 2**31 - 1, 0],
    "at the ends of 64 bits": [-(2**63), 2**63 - 1, None, 1, 1],
    "days": [date(1900, 1, 1), None, date(2024, 2, 29), date(1969, 12, 31), date(1900, 1, 1)],
    "truths": [True, None, False, True, True],
    "none at all": [None] * 5,
    "texts": ["b", "", None, "a", "b"],
    "reals": [-0.0, 0.0, None, 1.5, -2.0],
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("batch_rows", [1, 2, 5])
def test_codes_decode_to_the_values(name: str, batch_rows: int) -> None:
    values = COLUMNS[name]
    kind = pa.int64() if name == "none at all" else None
    table = pa.table({name: pa.array(values, kind), "count": [1, 2, None, 4, 5]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(batch_rows))
    (axis,), (codes,), counts = encode(reader, [name])
    assert axis.decode(codes).to_pylist() == values
    known = [value for value in dict.fromkeys(values) if value is not None]
    decoded = axis.decode(np.arange(axis.size)).to_pylist()
    assert decoded == sorted(known) + [None] * (None in values)
    assert counts.tolist() == [1, 2, 0, 4, 5]
