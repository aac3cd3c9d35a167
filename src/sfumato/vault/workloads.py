"""A workload in a file: the ranges that matter, two columns for each column of the data set."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.statement import everything
from sfumato.schema.column import Column
from sfumato.schema.schema import Schema
from sfumato.vault.table import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


def read_workload(path: Path, declared: Sequence[Column]) -> NDArray[Any]:
    """Read ranges from a table that has `age_low` and `age_high` for a column `age`."""
    ends = [
        Column(f"{column.name}_{end}", column.kind)
        for column in declared
        for end in ("low", "high")
    ]
    with closing(read(path, Schema("workload", tuple(ends)))) as table:
        rows = table.engine.run(everything(table.engine.table))
    values = [rows.column(end.name).to_pylist() for end in ends]
    return np.array(values, dtype=object).T.reshape(-1, len(declared), 2)
