"""The methods of synthesis by name: what to measure, and how to fit what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.methods.synth.fitted_model import fit_network
from sfumato.methods.synth.junction_tree import fit_junction
from sfumato.methods.synth.select.privbayes import select_network
from sfumato.methods.synth.selection import (
    measure_columns,
    select_adaptively,
    select_automatically,
    select_tree,
    select_workload,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.synth.fitted_model import FittedModel
    from sfumato.methods.synth.measurement_log import MeasurementLog

    Fitting = Callable[[MeasurementLog], FittedModel]

METHODS: dict[str, tuple[Callable[..., None], Fitting]] = {
    "auto": (select_automatically, fit_junction),
    "aim": (select_adaptively, fit_junction),
    "mst": (select_tree, fit_junction),
    "privbayes": (select_network, fit_network),
    "workload": (select_workload, fit_junction),
    "independent": (measure_columns, fit_junction),
}
"""Each selection measures with a workbench, and takes the options that it names; any fit reads any
log."""
