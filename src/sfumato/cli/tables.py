"""Tables that several commands print: answers with their error bars, and results of attacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.table import Table

from sfumato.attack.finding import percent
from sfumato.cli.process import as_flag
from sfumato.report.terminal import printable

if TYPE_CHECKING:
    from sfumato.attack.finding import Findings
    from sfumato.methods.query.page import ShownAnswer


def answer_table(answer: ShownAnswer) -> Table:
    """Lay out an answer: numbers aligned to the right, error bars in a column beside them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in answer.columns:
        side: Literal["right", "left"] = "right" if column.is_number else "left"
        # Folded, never cut: a number without its last digits would be a wrong number.
        table.add_column(printable(column.name), justify=side, overflow="fold")
        if column.bars is not None:
            table.add_column(column.bar_title, overflow="fold")
    for row in answer.rows:
        table.add_row(*map(printable, row))
    return table


def attack_table(findings: Findings) -> Table:
    """Lay out findings: one line per attack, with its success rate and that of guessing."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Attack")
    table.add_column("what it learns", overflow="fold")
    for name in ("success", "a guess"):
        table.add_column(name, justify="right", no_wrap=True)
    for finding in findings.findings:
        rates = percent(finding.success.value), percent(finding.baseline.value)
        table.add_row(finding.attack, printable(finding.meaning), *rates)
    for attack, reason in findings.reasons(as_flag).items():
        table.add_row(attack, printable(f"did not run: {reason}"), "–", "–")
    return table
