"""Attacks on a page: how often each succeeds compared with a guess, and which did not run.

Results computed from the original belong to the owner: including this part in a page that travels
means publishing them. People who serve as examples are on no page. Decision `pages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.attack.finding import percent
from sfumato.errors import as_field
from sfumato.report.bars import Bar
from sfumato.report.blocks import Folded, Heading, Listing, Note, PageTable, Paragraph
from sfumato.report.points import IntervalRow, draw_intervals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.attack.finding import Finding, Findings, Rate
    from sfumato.report.blocks import Block, Cell
    from sfumato.report.picture import Picture

TITLE, FAILED = "Attacks tried", "Attacks that failed"
_ATTACKER, _GUESS, _OTHERS = "Attacker", "A guess", "Attacker, for people not in the data"
_ALLOWED = "Most that the guarantee allows"
_HOW = (
    "Each attack was run on this release. How often is the attacker right, and how often would a "
    "guess be right? Only the difference was learned from the release."
)
_FAILURE_MEANS = (
    "If the interval of an attacker overlaps that of a guess, the difference may be chance. This "
    "holds for this attacker with this knowledge only: an attack that fails proves no safety. Only "
    "a guarantee covers attacks that nobody tried."
)
_NOT_RUN_MEANS = "An attack that did not run shows nothing: it neither failed nor succeeded."
_NO_ATTACK_FITS = "No attack fits this release and the files given with it."


def findings_blocks(findings: Findings, *, level: int = 2) -> list[Block]:
    """Show all attacks with a picture, a table and sentences; then failed and skipped ones."""
    tried, failed = tried_blocks(findings), failed_blocks(findings)
    return [Heading(TITLE, level), *tried, Heading(FAILED, level), *failed]


def tried_blocks(findings: Findings) -> list[Block]:
    """Show the success of each attack compared with a guess, the worst first."""
    ordered = _worst_first(findings)
    if not ordered:
        return [Paragraph(_NO_ATTACK_FITS)]
    warnings = [
        Note(
            f"{_title(finding.attack)} is right more often than the guarantee allows, beyond "
            "chance: the release does not keep its promise. Do not publish it.",
            warning=True,
        )
        for finding in ordered
        if finding.passes_bound
    ]
    return [
        Paragraph(_HOW),
        *warnings,
        attacks_picture(ordered),
        Listing([f"{_title(finding.attack)}: {finding.words()}" for finding in ordered]),
        Folded("Who attacks, and how", [_attackers(ordered)]),
    ]


def failed_blocks(findings: Findings) -> list[Block]:
    """Show attacks that do no better than a guess, and the reasons why others did not run."""
    ordered, not_run = _worst_first(findings), findings.reasons(as_field)
    beaten = [_title(finding.attack) for finding in ordered if not finding.beats_baseline]
    blocks: list[Block] = []
    if beaten:
        blocks.append(Paragraph(f"No better than a guess: {', '.join(beaten)}."))
    elif ordered:
        blocks.append(Paragraph("Every attack that ran does better than a guess."))
    blocks.append(Paragraph(_FAILURE_MEANS))
    if not_run:
        rows = [
            (_title(attack), f"{reason[:1].upper()}{reason[1:]}")
            for attack, reason in not_run.items()
        ]
        table = PageTable("Attacks that did not run", ("Attack", "Reason"), rows)
        blocks += [table, Note(_NOT_RUN_MEANS)]
    return blocks


def _worst_first(findings: Findings) -> list[Finding]:
    return sorted(
        findings.findings, key=lambda finding: (not finding.beats_baseline, -finding.excess)
    )


def attacks_picture(
    findings: Sequence[Finding], *, label: str = "", names: Sequence[str] = ()
) -> Picture:
    """Draw one row for each attack: attacker and guess with their intervals on one scale.

    `names` replaces the names of the attacks, for example by the releases that were attacked.
    """
    label = label or "How often attackers are right, and how often a guess is"
    names = names or [_title(finding.attack) for finding in findings]
    return draw_intervals(
        [_row(name, finding) for name, finding in zip(names, findings, strict=True)],
        label=label,
        table=_rates_table(names, findings, label),
        value="Right answers, of all who were tried",
        limit=_ALLOWED,
        note="Thin lines are 95 % confidence intervals.",
    )


def _rates_table(names: Sequence[str], findings: Sequence[Finding], caption: str) -> PageTable:
    """Return the numbers of each attack; a column that no attack fills is left out."""
    columns: dict[str, Sequence[Cell]] = {
        "Attack": names,
        _ATTACKER: [_rate_text(finding.success) for finding in findings],
        _GUESS: [_rate_text(finding.baseline) for finding in findings],
    }
    controls = [finding.control for finding in findings]
    if any(control is not None for control in controls):
        columns[_OTHERS] = ["–" if rate is None else _rate_text(rate) for rate in controls]
    bounds = [finding.bound for finding in findings]
    if any(bound is not None for bound in bounds):
        columns[_ALLOWED] = ["–" if bound is None else percent(bound) for bound in bounds]
    columns["Tried"] = [finding.success.tried for finding in findings]
    columns["Certain victims"] = [finding.victims for finding in findings]
    return PageTable(caption, list(columns), list(zip(*columns.values(), strict=True)))


def _row(name: str, finding: Finding) -> IntervalRow:
    rates = {_ATTACKER: finding.success, _GUESS: finding.baseline}
    rates |= {} if finding.control is None else {_OTHERS: finding.control}
    points = [Bar(series, rate.value, rate.low, rate.high) for series, rate in rates.items()]
    words = f"{percent(finding.success.value)} (guess {percent(finding.baseline.value)})"
    return IntervalRow(name, words, points, finding.bound)


def _title(attack: str) -> str:
    return attack.replace("-", " ").capitalize()


def _rate_text(rate: Rate) -> str:
    return f"{percent(rate.value)} ({percent(rate.low)} to {percent(rate.high)})"


def _attackers(findings: Sequence[Finding]) -> PageTable:
    """Return the assumptions about each attacker, remarks, and the publication of the attack."""
    rows = [
        (
            _title(finding.attack),
            f"{finding.attacker[:1].upper()}{finding.attacker[1:]}.",
            " ".join(finding.remarks),
            finding.reference,
        )
        for finding in findings
    ]
    return PageTable("The attackers", ("Attack", "The attacker", "Remarks", "Reference"), rows)
