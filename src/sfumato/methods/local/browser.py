"""What the script of a survey's page must know of a mechanism: its exact chances as whole numbers.

Whole numbers of 64 bits are beyond what JavaScript's numbers hold, so they travel as texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.methods.local.frequency_oracles import KAry

if TYPE_CHECKING:
    from sfumato.methods.local.mechanism import Oracle


def script_facts(mechanism: Oracle) -> dict[str, object]:
    """The weights of a mechanism, by the names that `mechanism.mjs` reads."""
    truth, lie = _browsers(mechanism).weights
    return {"truth": str(truth), "lie": str(lie)}


def chance_of_truth(mechanism: Oracle) -> float:
    """How likely a report is the answer itself."""
    return float(_browsers(mechanism).p)


def _browsers(mechanism: Oracle) -> KAry:
    assert isinstance(mechanism, KAry), "a round has a mechanism that browsers can do"
    return mechanism
