"""Charts, values and an inspection for the terminal."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sfumato.attack.finding import percent
from sfumato.report.numerals import show
from sfumato.report.palette import TONES
from sfumato.report.plain import decimals
from sfumato.texts import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from sfumato.attack.finding import Findings
    from sfumato.inspection import Inspection
    from sfumato.inspection.uniqueness import SetRisk
    from sfumato.report.answers import ShownAnswer

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


_MOST_BARS, _MOST_NAMES = 12, 12


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


def print_inspection(found: Inspection, *, written: Path | None = None) -> None:
    """Print an inspection: roles, the headline, the most telling sets, three attackers."""
    parts: list[RenderableType] = [
        f"{found.rows:,} rows, {len(found.guesses)} columns\n",
        _roles(found),
        *_warnings(found),
    ]
    if found.sets:
        parts += ["", _headline(found), "", _sets(found), "", _attackers(found)]
    else:
        parts += ["\nNo column is a quasi-identifier, so there is nothing to tell people apart by."]
    if written is not None:
        parts.append(
            f"\nWrote the schema to {written}. Check the roles. For questions and publications, "
            "uncomment there what everybody may know."
        )
    Console(highlight=False, soft_wrap=False).print(Group(*parts))


def _roles(found: Inspection) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Column", "Kind", "Role", "Reason"):
        table.add_column(title, overflow="fold")
    for guess in found.guesses:
        column = guess.column
        table.add_row(printable(column.name), column.kind, column.role, printable(guess.reason))
    return table


def _warnings(found: Inspection) -> list[RenderableType]:
    said = [(guess.column.name, one) for guess in found.guesses for one in guess.warnings]
    if not said:
        return []
    return ["", *(Text.assemble(printable(name), ": ", printable(one)) for name, one in said)]


def _headline(found: Inspection) -> str:
    """The sentence a person remembers, about the smallest set that is nearly as telling as any."""
    most = max(one.unique_share for one in found.sets)
    telling = min(
        (one for one in found.sets if one.unique_share >= 0.9 * most),
        key=lambda one: (len(one.columns), -one.unique_share),
    )
    return (
        f"{_name(telling)}: unique for {100 * telling.unique_share:.0f} % of the {found.counted}."
    )


def _sets(found: Inspection) -> RenderableType:
    """The most telling sets of each size, small to large."""
    chosen: dict[tuple[str, ...], SetRisk] = {}
    sizes = sorted({len(one.columns) for one in found.sets})
    for size in sizes:
        same = [one for one in found.sets if len(one.columns) == size]
        for one in same[: max(1, _MOST_BARS // len(sizes))]:
            chosen[one.columns] = one
    rows = [(f"{_name(one)}", one.unique_share) for one in chosen.values()]
    title = f"Most telling sets of columns (of {len(found.sets):,} examined)"
    shown = bars(rows, what=title, value="unique", percent=True)
    return Group(shown, f"\n{left_out}") if (left_out := found.left_out) else shown


def _attackers(found: Inspection) -> Table:
    from sfumato.inspection.uniqueness import SMALL

    risk = found.reidentification
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("An attacker who knows all quasi-identifiers")
    for title in ("highest risk", "average risk", f"{found.counted} in groups below {SMALL}"):
        table.add_column(title, justify="right")
    for name, what, attacker in (
        ("prosecutor", "knows the target is in the table", risk.prosecutor),
        ("journalist", "picks any target of the population", risk.journalist),
        ("marketer", "links all rows at once", risk.marketer),
    ):
        figures = (attacker.highest, attacker.average, attacker.at_risk)
        table.add_row(f"{name}: {what}", *(f"{100 * figure:.1f} %" for figure in figures))
    return table


def _name(one: SetRisk) -> str:
    if len(one.columns) > _MOST_NAMES:
        return f"all {len(one.columns):,} quasi-identifiers"
    return " + ".join(one.columns)


def tell_owner(lines: Iterable[str], page: Path | None) -> None:
    """Print what was found, a line each, and that it is the owner's; and where its page is."""
    console = Console(highlight=False)
    for line in lines:
        console.print(printable(line))
    console.print("For the owner: computed from the original.", style="dim")
    if page is not None:
        console.print(printable(f"The page is {page}."), style="dim")
