"""Processes that synthesize a parent and a child table, each killed at another stage."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from tests.contract.vault.synthesizer import killed_at

import sfumato as sf
from sfumato.methods.synth.linked_model import LinkedModel
from sfumato.methods.synth.linked_request import LinkedRequest
from sfumato.methods.synth.workbench import Workbench
from sfumato.release import writer
from sfumato.vault.gatekeeper import Gatekeeper

STAGES = {
    "charged": (Gatekeeper, "_reserve", 1),
    "parent's first table": (Workbench, "measure", 1),
    "parent fitted": (LinkedRequest, "_measured", 1),
    "child fitted": (LinkedRequest, "_measured", 2),
    "rows drawn": (LinkedModel, "drawn", 1),
    "stored": (Gatekeeper, "answer", 1),
    "one table written": (writer.ReleaseWriter, "table", 1),
    "all written": (writer.ReleaseWriter, "write_sidecars", 1),
    "page there": (writer._Staged, "move_into_place", 1),
    "page and model there": (writer._Staged, "move_into_place", 2),
    "all there": (writer._Staged, "move_into_place", 3),
}
"""Where each dies, in the order of a synthesis; behind `stored` its answer is in the ledger."""


def synthesize(home: Path, *, overwrite: bool = False) -> bool:
    """Synthesize both tables of a vault into its folder; whether it was charged."""
    with sf.open(home / "vault") as opened:
        twins = opened.synthesize(
            "people", child="visits", key="who", epsilon="1/2", method="independent"
        )
        page, model = home / "twins.html", home / "twins.arrow"
        twins.save(home / "twins.csv", report=page, model=model, overwrite=overwrite)
        return twins.charged


if __name__ == "__main__":
    for module in (
        "pandas",
        "sfumato.privacy.ledger.sql.sqlite",
        "sfumato.methods.synth.page",
        "sfumato.report.page",
        "sfumato.vault.vault",
        "sfumato.vault.syntheses",
    ):
        import_module(module)  # once, not by each process
    for stage, place in STAGES.items():
        home = Path(sys.argv[1], stage)
        child = os.fork()
        if not child:
            killed_at(*place)
            synthesize(home)
            os._exit(1)
        if os.waitpid(child, 0)[1] != signal.SIGKILL:
            sys.exit(f"{stage} was not reached")
