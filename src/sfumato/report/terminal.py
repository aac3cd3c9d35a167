"""Charts and values for the terminal."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sfumato.report.numbers import decimals, show
from sfumato.report.palette import TONES
from sfumato.text import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


_NAMES = {
    "sd": "standard deviation",
    "bias_sd": "bias in standard deviations",
    "bound95": "95 % bound",
    "rank_bound95": "95 % bound of the rank",
    "kept95": "kept with 95 % from",
    "mse": "mean squared error",
    "workload_mse": "mean squared error of the workload",
    "cell": "each figure",
    "one_way": "noise in a column, as the share of rows that would have to move",
    "two_way": "noise in a measured pair of columns, likewise",
    "largest95": "95 % bound of the largest error",
}
"""What figures are called by people, where that is not what programs call them."""
PERCENT = {"one_way", "two_way"}
"""Figures that are shares."""
THEIRS = {"columns", "marginals", "name", "made by", "shares", "shuffled", "tables", "weights"}
"""Under which names stand those of the user, or texts: they are shown as they are."""


def bars(
    values: Sequence[tuple[str, float]], *, what: str, value: str, percent: bool = False
) -> Table:
    """Draw horizontal bars in the given order, each with its name and number.

    Shares fill the width at 100 %, other numbers at the greatest of them.
    """
    longest = 1.0 if percent else max((number for _, number in values), default=0.0)
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
    table.add_column(printable(what), overflow="fold")
    table.add_column(printable(value), justify="right", no_wrap=True)
    table.add_column("", ratio=1, min_width=10)
    for name, number in values:
        table.add_row(
            printable(name),
            show(number, percent=percent),
            # A bar of length 0 out of 0 would be drawn full.
            ProgressBar(
                total=longest or 1.0,
                completed=max(number, 0.0),
                complete_style=TONES[0],
                finished_style=TONES[0],
            ),
        )
    return table


def printable(text: str) -> Text:
    """Show text as it is, with a mark in place of every character that could steer a terminal."""
    return Text("".join("\ufffd" if unicodedata.category(c)[0] == "C" else c for c in text))


def in_words(value: Any, *, theirs: bool = False) -> str:
    """A value for people: numbers short, nothing as a dash, names with their values in a row.

    Names and texts of the user are `theirs`: they stay as they are.
    """
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value) if theirs else decimals(str(value))
    if isinstance(value, int | float):
        return show(value)
    if isinstance(value, dict):
        return _together(value, theirs=theirs)
    keys = {tuple(one) if isinstance(one, dict) else () for one in value}
    if len(keys) == 1 and len(*keys) == 1:  # many figures of one name, which is said once
        ((name,),) = keys
        return f"{named(name)} {'; '.join(in_words(one[name]) for one in value)}"
    return "; ".join(in_words(one, theirs=theirs) for one in value)


def told(name: str, value: Any) -> str:
    """A figure of ours with its name."""
    return f"{named(name)}: {_value(name, value)}"


def _value(name: str, value: Any) -> str:
    """A figure of ours, which its name may tell to be a share."""
    if name in PERCENT and value is not None:
        return share(value)
    return in_words(value, theirs=name in THEIRS)


def named(key: str) -> str:
    """The name of a figure of ours as people say it."""
    return _NAMES.get(key, decimals(key.replace("_", " ")))


def _together(facts: Mapping[str, Any], *, theirs: bool) -> str:
    """Figures with their names in a row, and behind them, as sentences, what is said of them."""
    remarks = [decimals(one) for one in facts.values() if _is_remark(one)]
    figures = [
        f"{name} {in_words(one)}" if theirs else f"{named(name)} {_value(name, one)}"
        for name, one in facts.items()
        if not _is_remark(one)
    ]
    said = [", ".join(figures)] if figures else []
    if not remarks:
        return "".join(said)
    return " ".join(f"{one[:1].upper()}{one[1:].removesuffix('.')}." for one in [*said, *remarks])


def _is_remark(value: object) -> bool:
    """Whether a value is running text, which needs no name before it."""
    return isinstance(value, str) and value.count(" ") > 2


def tell_owner(lines: Iterable[str], page: Path | None) -> None:
    """Print what was found, a line each, and that it is the owner's; and where its page is."""
    console = Console(highlight=False)
    for line in lines:
        console.print(printable(line))
    console.print("For the owner: computed from the original.", style="dim")
    if page is not None:
        console.print(printable(f"The page is {page}."), style="dim")
