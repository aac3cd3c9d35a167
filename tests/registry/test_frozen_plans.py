"""What every registered method would ask, cost and promise, compared with a golden file.

Stored answers are found by `parameters`, and vaults hold events: a plan that changes here loses
answers that were paid for. The golden file has one digest for each cell of method, unit, relation
and price, and the whole plan of one cell of each method, so that a difference can be read.

Workload strategies of `publish auto` come from a search in float64, whose last digits depend on the
linear algebra of the processor. `KERNELS` holds the digests of each of OpenBLAS's x86-64 kernels,
made with OPENBLAS_CORETYPE=Prescott and so on; every digest is compared exactly.

Write it anew, after a deliberate change, with `python -m tests.registry.test_frozen_plans`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.slices import few_fast
from tests.registry.cells import Cell, cells, protected
from tests.registry.methods import METHODS, PRICES

from sfumato.errors import SfumatoError
from sfumato.privacy.accounting.event_records import to_record
from sfumato.text import dumps

GOLDEN = Path(__file__).parent / "frozen_plans.json"
KERNELS = {
    # The golden file has those of Haswell and Zen.
    "publish auto 2, row, add, concentrated": {
        "SkylakeX": "eb582364e9e8c5cc",
        "Sandybridge": "ff23afcb50ad9247",
        "Nehalem": "62ecc83dcb6b82b0",
        "Prescott": "22cb1fb9c2b8da93",
    },
    "publish auto 2, person, add, concentrated": {
        "SkylakeX": "b2da0398f1ec82fb",
        "Sandybridge": "7018e7a78fab61db",
        "Nehalem": "337207b9f30cc991",
        "Prescott": "cd4858e9a587d72c",
    },
}
"""By cell the digests that machines with other kernels come to."""
_DIGITS = 9
"""Significant digits of floats that are compared: the last ones may depend on the machine."""


def _rounded(value: Any) -> Any:
    """A value as JSON reads it back, its floats rounded."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {str(name): _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return value


def plan_of(cell: Cell) -> dict[str, Any]:
    """Everything public that the plan of a cell says, or the code by which it is refused."""
    form = cell.method.form
    unit = cell.declared()
    tables = {name: form.table(name, [], {}) for name in form.rows}
    try:
        with protected(cell, unit, tables) as source:
            plan = cell.method.prepare(source, PRICES[cell.price])
    except SfumatoError as error:
        return {"refused": type(error).__name__}
    plan = plan[0] if isinstance(plan, tuple) else plan
    size = getattr(plan, "answer_size", None)
    promise = plan.guarantee
    return {
        "name": plan.name,
        "datasets": list(plan.datasets),
        "public": list(plan.public),
        "event": to_record(plan.event),
        "parameters": json.loads(dumps(plan.parameters)),
        "error": _rounded(_error_of(plan)),
        "answer_size": None if size is None else [size.groups, size.bytes, size.work],
        "guarantee": [promise.kind, promise.statement, _rounded(dict(promise.parameters))],
    }


def _error_of(plan: Any) -> Any:
    """The forecast of the error; what a stream states is of each step and has no forecast."""
    error = getattr(plan, "error", None)
    return {} if error is None or callable(error) else _without_notes(error)


def _without_notes(error: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a forecast; its notes are texts that may be worded anew."""
    return {
        name: _without_notes(value) if isinstance(value, Mapping) else value
        for name, value in error.items()
        if name != "note"
    }


def _digest(plan: dict[str, Any]) -> str:
    """Of everything, the order of keys included: side-cars are written in that order."""
    text = json.dumps(_rounded(plan))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _cells_of(title: str) -> list[Cell]:
    """All cells of a method; of one that is slow to plan those of one relation."""
    own = [cell for cell in cells() if cell.method.title == title]
    return [cell for cell in own if not cell.method.slow or cell.relation is own[0].relation]


def frozen(title: str) -> dict[str, Any]:
    """The golden record of a method: a digest of every cell, and one whole plan."""
    plans = {cell.title: plan_of(cell) for cell in _cells_of(title)}
    shown = next((plan for plan in plans.values() if "refused" not in plan), None)
    return {"digests": {name: _digest(plan) for name, plan in plans.items()}, "plan": shown}


@pytest.mark.parametrize("title", few_fast([method.title for method in METHODS], 34))
def test_a_plan_is_what_it_was(title: str) -> None:
    golden = json.loads(GOLDEN.read_text())[title]
    made = frozen(title)
    assert _rounded(made["plan"]) == golden["plan"]
    expected = {
        cell: digest if digest in KERNELS.get(cell, {}).values() else golden["digests"].get(cell)
        for cell, digest in made["digests"].items()
    }
    assert made["digests"] == expected
    assert made["digests"].keys() == golden["digests"].keys()


if __name__ == "__main__":
    records = {method.title: frozen(method.title) for method in METHODS}
    GOLDEN.write_text(json.dumps(_rounded(records), indent=1) + "\n")
