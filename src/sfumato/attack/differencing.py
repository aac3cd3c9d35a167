"""Differencing: two harmless questions whose answers differ by one person.

*Attacker*: can describe the victim, and asks how many people there are and how many do not fit the
description: 'students, except those named Frank McSherry'.
*Success*, *baseline*, *bound*: see `games`. Exact answers reveal every coin.
*Reference*: Dwork and McSherry's Frank; Denning 1982, chapter 6.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.attack.games import GameQuestion, played

if TYPE_CHECKING:
    from sfumato.attack.case import Case
    from sfumato.attack.finding import Finding
    from sfumato.attack.games import Victim

NAME = "differencing"


def run(case: Case) -> Finding:
    """Count all people, and all but the victim."""
    attacker = "asks how many people there are, and how many without the victim"
    return played(case, NAME, _script, attacker, "Denning 1982")


def _script(victim: Victim) -> list[GameQuestion]:
    all_but_victim = exp.not_(exp.paren(victim.described.copy()))
    return [GameQuestion(None, Fraction(1)), GameQuestion(all_but_victim, Fraction(-1))]
