"""The mean of each column of numbers; one output for each column."""

from __future__ import annotations

from typing import Any

import numpy as np


def mean(rows: Any) -> list[float]:
    """One number for each column, missing values left out."""
    columns = (one.to_numpy(zero_copy_only=False).astype(float) for one in rows.columns)
    return [float(np.nanmean(one)) for one in columns]
