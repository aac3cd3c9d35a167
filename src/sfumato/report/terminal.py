"""Bars and text for the terminal."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sfumato.report.palette import TONES
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def bar_table(
    values: Sequence[tuple[str, float]], *, category: str, value: str, percent: bool = False
) -> Table:
    """A table of horizontal bars in order, each with its name and number.

    Shares fill the width at 100 %, other numbers at the largest of them.
    """
    longest = 1.0 if percent else max((number for _, number in values), default=0.0)
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
    table.add_column(printable(category), overflow="fold")
    table.add_column(printable(value), justify="right", no_wrap=True)
    table.add_column("", ratio=1, min_width=10)
    for name, number in values:
        table.add_row(
            printable(name),
            show(number, percent=percent),
            ProgressBar(
                # rich draws a bar of length 0 out of 0 as full
                total=longest or 1.0,
                completed=max(number, 0.0),
                complete_style=TONES[0],
                finished_style=TONES[0],
            ),
        )
    return table


def printable(text: str) -> Text:
    """Text as it is; a mark replaces every character that could control the terminal."""
    return Text("".join("\ufffd" if unicodedata.category(c)[0] == "C" else c for c in text))


def print_for_owner(lines: Iterable[str], page: Path | None) -> None:
    """Print lines computed from the original, with a warning that only the owner may see them.

    The path of their page follows, if there is one.
    """
    console = Console(highlight=False)
    for line in lines:
        console.print(printable(line))
    console.print("For the owner only: computed from the original.", style="dim")
    if page is not None:
        console.print(printable(f"Report written to {page}."), style="dim")
