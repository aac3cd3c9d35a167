"""Tracker: questions about many people whose answers cancel out except for one person.

*Attacker*: may ask only about sets that are neither small nor nearly everybody. A tracker T is
about half of the people. The people who fit the victim's description C are
count(C or T) + count(C or not T) - count(T) - count(not T). A rule against small sets admits all
four questions.
*Success*, *baseline*, *bound*: see `games`. Exact answers reveal every coin.
*Reference*: Denning, Denning and Schwartz, The tracker: a threat to statistical database security,
1979, general trackers.
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

NAME = "tracker"


def run(case: Case) -> Finding:
    """Ask four questions about large sets of people."""
    attacker = "asks about four sets of many people, which cancel out except for the victim"
    return played(case, NAME, _script, attacker, "Denning, Denning and Schwartz 1979")


def _script(victim: Victim) -> list[GameQuestion]:
    tracker, complement = exp.paren(victim.half.copy()), exp.not_(exp.paren(victim.half.copy()))
    described = exp.paren(victim.described.copy())
    return [
        GameQuestion(exp.or_(described.copy(), tracker.copy()), Fraction(1)),
        GameQuestion(exp.or_(described.copy(), complement.copy()), Fraction(1)),
        GameQuestion(tracker, Fraction(-1)),
        GameQuestion(complement, Fraction(-1)),
    ]
