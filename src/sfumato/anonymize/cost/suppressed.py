"""Suppressed: how many rows are not released at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.cost.base import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost.base import Bounds, Release
    from sfumato.anonymize.problem import Problem


class Suppressed(Cost):
    """The number of suppressed rows; among equals the lowest node wins.

    *Guarantee*: a count.
    *Error*: none.
    *Edges*: none.
    *Reference*: Samarati 2001 (MaxSup).
    """

    name = "suppressed"

    def value(self, release: Release) -> float:
        """The cost of a release."""
        return release.suppressed

    def floor(
        self,
        problem: Problem,  # noqa: ARG002
        box: Sequence[slice],  # noqa: ARG002
        failing: Counts,
        upward: Bounds,  # noqa: ARG002
    ) -> Bounds:
        """The rows that must be suppressed."""
        return failing.astype(np.float64)
