"""Measure given sets of columns: what matters is public, and no choice is paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.methods.synth.select.independent import measure_sets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.methods.synth.shape import Set
    from sfumato.methods.synth.workbench import Workbench


def select_workload(bench: Workbench, sets: Sequence[Set]) -> None:
    """Measure every set that is not part of another, and columns that are in none."""
    wanted = [one for one in dict.fromkeys(sets) if not any(set(one) < set(two) for two in sets)]
    covered = {column for one in wanted for column in one}
    alone = [(column,) for column in bench.shape.columns if column not in covered]
    measure_sets(bench, [*wanted, *alone], bench.purse.left)
