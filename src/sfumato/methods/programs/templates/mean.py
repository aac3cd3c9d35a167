"""The mean of each column of numbers; one output for each column."""

from __future__ import annotations

from typing import Any

import numpy as np


def mean(rows: Any) -> list[float]:
    """One number for each column, missing values left out."""
    columns = (column.to_numpy(zero_copy_only=False).astype(float) for column in rows.columns)
    return [float(np.nanmean(column)) for column in columns]
