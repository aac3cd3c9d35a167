"""Averaging: ask one question in many wordings, and take the mean to remove the noise.

*Attacker*: asks for the rows that fit the victim's description. Equal questions get the stored
answer, so every question is worded differently. A price per question would let the noise average
out; a price for the whole script does not.
*Success*, *baseline*, *bound*: see `games`.
*Reference*: Denning 1982, chapter 6; Dwork, McSherry, Nissim and Smith 2006 on composition.
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

NAME = "averaging"
# The mean of ten answers has a third of the noise of one.
TIMES = 10


def run(case: Case) -> Finding:
    """Ask for the victim again and again."""
    attacker = f"asks for the victim {TIMES} times in other words, and takes the mean"
    return played(case, NAME, _script, attacker, "Denning 1982")


def _script(victim: Victim) -> list[GameQuestion]:
    """Return the same question in other words: each has another condition that is always true."""
    # The number of the wording never equals TIMES, so the condition changes the text and no row.
    # The weights 1 / TIMES make the sum of the answers their mean.
    return [
        GameQuestion(
            exp.and_(exp.paren(victim.described.copy()), exp.convert(time).neq(TIMES)),
            Fraction(1, TIMES),
        )
        for time in range(TIMES)
    ]
