"""Tables that several commands print: answers with their error bars, attack results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.table import Table

from sfumato.attack.finding import percent
from sfumato.report.terminal import printable

if TYPE_CHECKING:
    from sfumato.attack.finding import Findings
    from sfumato.methods.query.page import ShownAnswer


def answer_table(answer: ShownAnswer) -> Table:
    """An answer as a table: numbers to the right, beside each figure how far off it may be."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in answer.columns:
        side: Literal["right", "left"] = "right" if column.is_number else "left"
        table.add_column(printable(column.name), justify=side, overflow="fold")
        if column.bars is not None:
            table.add_column(column.bar_title, overflow="fold")
    for row in answer.rows:
        table.add_row(*map(printable, row))
    return table


def attack_table(findings: Findings) -> Table:
    """What attackers still get, an attack a line, beside what a guess gets."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Attack")
    table.add_column("what it gets", overflow="fold")
    for name in ("right", "by a guess"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in findings.findings:
        rates = percent(one.success.value), percent(one.baseline.value)
        table.add_row(one.attack, printable(one.meaning), *rates)
    for attack, reason in findings.not_run.items():
        table.add_row(attack, printable(f"did not run: {reason}"), "–", "–")
    return table
