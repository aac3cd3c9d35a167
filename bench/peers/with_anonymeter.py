"""Anonymeter's three evaluators on the tables of a folder, after one run to compile its code.

Who is linked, or guessed, are all people of two smaller tables, so that both tools try the same.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from anonymeter.evaluators import (  # type: ignore[import-not-found]  # in its own environment
    InferenceEvaluator,
    LinkabilityEvaluator,
    SinglingOutEvaluator,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(sys.argv[1])
TOLD = json.loads((FOLDER / "told.json").read_text())


def attacks(release: str) -> dict[str, Callable[[], Any]]:
    """The evaluators of a release, each ready to be run."""
    synthetic = pd.read_csv(FOLDER / f"{release}.csv")
    tables, few = (
        {
            "ori": pd.read_csv(FOLDER / f"{prefix}original.csv"),
            "syn": synthetic,
            "control": pd.read_csv(FOLDER / f"{prefix}control.csv"),
        }
        for prefix in ("", "few_")
    )
    many, lists, secret = TOLD["guesses"], (TOLD["first"], TOLD["second"]), TOLD["secret"]
    known = [name for name in (*lists[0], *lists[1]) if name != secret]
    return {
        "singling-out": lambda: SinglingOutEvaluator(**tables, n_attacks=many, n_cols=3).evaluate(),
        "linkability": lambda: LinkabilityEvaluator(
            **few, n_attacks=many, aux_cols=lists
        ).evaluate(),
        "inference": lambda: InferenceEvaluator(
            **few, n_attacks=many, aux_cols=known, secret=secret
        ).evaluate(),
    }


if __name__ == "__main__":
    for release in TOLD["releases"]:
        for name, attack in attacks(release).items():
            if release == TOLD["releases"][0] and name != "singling-out":
                attack()
            started = time.perf_counter(), time.process_time()
            risk = attack().risk()
            spent = time.perf_counter() - started[0], time.process_time() - started[1]
            found = {"seconds": spent, "risk": risk.value, "interval": risk.ci}
            print(json.dumps({"question": f"{release} {name}", "found": found}), flush=True)
