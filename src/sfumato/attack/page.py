"""Attacks that were tried, as a part of a page: success against a guess, and what did not run.

Findings that were computed from the original are the owner's: who puts this part on a page that
travels has decided to publish them. People who serve as examples are on no page. Decision 0298.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.attack.finding import percent
from sfumato.report.bars import Bar
from sfumato.report.blocks import Folded, Heading, Listing, Note, PageTable, Paragraph
from sfumato.report.points import IntervalRow, draw_intervals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.attack.finding import Finding, Findings, Rate
    from sfumato.report.blocks import Block, Cell
    from sfumato.report.picture import Picture

TITLE, FAILED = "Attacks tried", "What was tried and failed"
_ATTACKER, _GUESS, _OTHERS = "Attacker", "A guess", "Attacker, of people not in the data"
_ALLOWED = "Most that the guarantee allows"
_HOW = (
    "Each attack was played on this release: how often is the attacker right, and how often would "
    "somebody be who guesses? Only what lies above the guess was learned from the release."
)
_MEANS = (
    "An attacker whose interval reaches that of the guess has learned nothing that can be told "
    "from chance. It means that of this attacker, with this knowledge, and of nobody else: an "
    "attack that fails proves no safety, and only a guarantee speaks of those that nobody tried."
)
_SILENT = "Of an attack that did not run nothing is known: it neither failed nor succeeded."
_NOTHING = "No attack fits this release and what was given beside it."


def findings_blocks(findings: Findings, *, level: int = 2) -> list[Block]:
    """All attacks in a picture, a table and words; then what failed, and what did not run."""
    tried, failed = tried_blocks(findings), failed_blocks(findings)
    return [Heading(TITLE, level), *tried, Heading(FAILED, level), *failed]


def tried_blocks(findings: Findings) -> list[Block]:
    """Every attack that ran: success against a guess, the worst first."""
    found = _ordered(findings)
    if not found:
        return [Paragraph(_NOTHING)]
    blocks: list[Block] = [Paragraph(_HOW)]
    blocks += [Note(_passed(one), warning=True) for one in found if one.passes_bound]
    told = [f"{_name(one)}: {one.words()}" for one in found]
    return [
        *blocks,
        attacks_picture(found),
        Listing(told),
        Folded("Who attacks, and how", [_attackers(found)]),
    ]


def failed_blocks(findings: Findings) -> list[Block]:
    """Attackers who do no better than a guess, and attacks that could not run, each with why."""
    found, not_run = _ordered(findings), findings.not_run
    beaten = [_name(one) for one in found if not one.beats_baseline]
    blocks: list[Block] = []
    if beaten:
        blocks.append(Paragraph(f"No better than a guess: {', '.join(beaten)}."))
    elif found:
        blocks.append(Paragraph("Every attack that ran does better than a guess."))
    blocks.append(Paragraph(_MEANS))
    if not_run:
        rows = [(_title(name), f"{why[:1].upper()}{why[1:]}") for name, why in not_run.items()]
        blocks += [PageTable("What did not run", ("Attack", "Why"), rows), Note(_SILENT)]
    return blocks


def _ordered(findings: Findings) -> list[Finding]:
    """The findings, worst first."""
    return sorted(findings.findings, key=lambda one: (not one.beats_baseline, -one.excess))


def attacks_picture(
    found: Sequence[Finding], *, label: str = "", names: Sequence[str] = ()
) -> Picture:
    """One row for each attack: attacker and guess with their intervals on one scale.

    Rows have the names of the attacks, or other `names`, as of the releases that were attacked.
    """
    label = label or "How often attackers are right, and how often a guess is"
    called = names or [_name(one) for one in found]
    return draw_intervals(
        [_row(name, one) for name, one in zip(called, found, strict=True)],
        label=label,
        table=_figures(called, found, label),
        value="Right, of all who were tried",
        limit=_ALLOWED,
        note="Thin lines hold the share in 95 of 100 cases.",
    )


def _figures(names: Sequence[str], found: Sequence[Finding], caption: str) -> PageTable:
    """The figures of each attack; columns that none of them has are left out."""
    columns: dict[str, Sequence[Cell]] = {
        "Attack": names,
        _ATTACKER: [_rate(one.success) for one in found],
        _GUESS: [_rate(one.baseline) for one in found],
    }
    if any(one.control is not None for one in found):
        columns[_OTHERS] = ["–" if one.control is None else _rate(one.control) for one in found]
    if any(one.bound is not None for one in found):
        columns[_ALLOWED] = ["–" if one.bound is None else percent(one.bound) for one in found]
    columns["Tried"] = [one.success.tried for one in found]
    columns["Certain victims"] = [one.victims for one in found]
    return PageTable(caption, list(columns), list(zip(*columns.values(), strict=True)))


def _row(name: str, one: Finding) -> IntervalRow:
    rates = {_ATTACKER: one.success, _GUESS: one.baseline}
    rates |= {} if one.control is None else {_OTHERS: one.control}
    points = [Bar(kind, rate.value, rate.low, rate.high) for kind, rate in rates.items()]
    words = f"{percent(one.success.value)} (guess {percent(one.baseline.value)})"
    return IntervalRow(name, words, points, one.bound)


def _name(one: Finding) -> str:
    return _title(one.attack)


def _title(attack: str) -> str:
    return attack.replace("-", " ").capitalize()


def _rate(rate: Rate) -> str:
    return f"{percent(rate.value)} ({percent(rate.low)} to {percent(rate.high)})"


def _passed(one: Finding) -> str:
    return (
        f"{_name(one)} is right more often than the guarantee allows, chance set aside: the "
        "release does not keep its promise. Do not publish it."
    )


def _attackers(found: Sequence[Finding]) -> PageTable:
    """What is supposed of each attacker, where it is from, and what it was told with."""
    rows = [
        (_name(one), f"{one.attacker[:1].upper()}{one.attacker[1:]}.", " ".join(one.remarks),
         one.reference)
        for one in found
    ]  # fmt: skip
    return PageTable("The attackers", ("Attack", "The attacker", "Remarks", "After"), rows)
