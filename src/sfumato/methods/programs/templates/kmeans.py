"""Centres of clusters, all coordinates of the first and then of the next.

Blocks must name clusters alike, or their mean is of nothing: centres go by their first coordinate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CLUSTERS, ROUNDS = 3, 30


def kmeans(rows: Any) -> list[float]:
    """CLUSTERS centres of as many coordinates as there are columns."""
    points = np.column_stack(
        [column.to_numpy(zero_copy_only=False).astype(float) for column in rows.columns]
    )
    points = points[np.isfinite(points).all(axis=1)]
    order = np.argsort(points[:, 0], kind="stable")
    chunks = np.array_split(points[order], CLUSTERS)
    centres = np.stack([chunk.mean(axis=0) for chunk in chunks])
    for _ in range(ROUNDS):
        distances = ((points[:, None, :] - centres) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        centres = np.stack(
            [
                points[nearest == number].mean(axis=0)
                if (nearest == number).any()
                else centres[number]
                for number in range(CLUSTERS)
            ]
        )
    ordered: list[float] = centres[np.argsort(centres[:, 0], kind="stable")].ravel().tolist()
    return ordered
