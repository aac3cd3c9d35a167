"""Coefficients of a linear regression of the last column on the others: intercept first."""

from __future__ import annotations

from typing import Any

import numpy as np

RIDGE = 1e-6
"""Keeps a block in which a column is constant from failing."""


def regression(rows: Any) -> list[float]:
    """The intercept and one coefficient for each column but the last."""
    table = np.column_stack(
        [column.to_numpy(zero_copy_only=False).astype(float) for column in rows.columns]
    )
    table = table[np.isfinite(table).all(axis=1)]
    inputs = np.column_stack([np.ones(len(table)), table[:, :-1]])
    gram = inputs.T @ inputs + RIDGE * np.eye(inputs.shape[1])
    coefficients: list[float] = np.linalg.solve(gram, inputs.T @ table[:, -1]).tolist()
    return coefficients
