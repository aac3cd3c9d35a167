"""One of many processes that ask a vault the same questions; it may stop half-way for ever."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.receipt import Receipt
from sfumato.privacy.ledger.single_flight import _FileFlight

STAGES: dict[str, tuple[type, str, bool]] = {
    "claimed": (_FileFlight, "claim", True),
    "reserved": (Ledger, "reserve", True),
    "opened": (Receipt, "entropy", False),
    "drawn": (Receipt, "entropy", True),
    "computed": (Ledger, "store", False),
    "stored": (Ledger, "store", True),
}
"""What is called at a stage of an answer, and whether the stage comes after it."""


def stop_at(stage: str, sign: Path) -> None:
    """Wait at a stage until somebody kills this process."""
    owner, name, after = STAGES[stage]
    real = getattr(owner, name)

    def stopped(*arguments: Any, **options: Any) -> Any:
        if after:
            real(*arguments, **options)
        sign.touch()
        time.sleep(600)

    setattr(owner, name, stopped)


def main(vault: str, principal: str, count: str, stage: str, sign: str) -> None:
    if stage in STAGES:
        stop_at(stage, Path(sign))
    with sf.open(vault) as opened:
        sys.stdin.readline()
        for number in range(int(count)):
            question = f"SELECT COUNT(*) AS n FROM t WHERE x > {number}"
            try:
                answer = opened.query(question, epsilon="1/100", principal=principal)
                says = f"{answer.charged} {answer.table['n'][0].as_py()}"
            except SfumatoError as error:
                says = f"{error.code} -"
            sys.stdout.write(f"{number} {says}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
