"""Plans by their digests: whoever was told what a method does and costs gets that, or a refusal.

A plan says everything that determines what is asked, its price too. A vault's declarations may
change, and another version may plan otherwise; so whoever planned elsewhere sends the digest along,
and what would be another plan here is refused before anything is charged. Decision 0367.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.privacy.ledger.chain import canonical, digest

if TYPE_CHECKING:
    from sfumato.methods.method import Prepared


def plan_digest(prepared: Prepared) -> str:
    """What two plans have in common exactly if they ask and cost the same."""
    return digest(canonical([prepared.name, prepared.parameters]).encode())


def check_plan(prepared: Prepared, expected: str | None) -> None:
    """Refuse another plan than the one that was expected, if one was."""
    if expected is not None and expected != plan_digest(prepared):
        raise ParameterError(
            "plan_changed",
            "This would be another plan than the one that was expected: what is declared, or what "
            "it costs, has changed. Nothing was charged. Explain it again, and send its plan.",
        )


def foreign_plan() -> ParameterError:
    """What is said of a plan that was made by other declarations."""
    return ParameterError(
        "plan_foreign",
        "This plan was not made here: another table may have other bounds and people. Plan it "
        "again with the table or vault that is to answer it.",
    )
