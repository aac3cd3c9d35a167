"""Bars and text on the terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from sfumato.report.terminal import bar_table


def printed(values: list[tuple[str, float]], *, percent: bool = False) -> list[str]:
    console = Console(file=StringIO(), width=60)
    console.print(bar_table(values, category="Columns", value="Unique", percent=percent))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_bars_are_as_long_as_their_numbers() -> None:
    lines = printed([("all", 1000), ("half", 500), ("none", 0)])
    whole, half, none = (line.count("━") for line in lines[1:])
    assert whole > 30
    assert abs(whole - 2 * half) <= 1
    assert none == 0
    assert lines[0].split() == ["Columns", "Unique"]
    assert lines[1].startswith("all ")
    assert "1,000" in lines[1]


def test_shares_fill_the_line_at_one() -> None:
    (line,) = printed([("half", 0.5)], percent=True)[1:]
    assert "50.0 %" in line
    assert 15 < line.count("━") < 25


def test_nothing_at_all_draws_no_bar() -> None:
    assert "━" not in "".join(printed([("none", 0)]))
    assert len(printed([])) == 1


def test_text_cannot_steer_the_terminal() -> None:
    (line,) = printed([("\x1b[31mred\x07 [bold]b[/bold] \u202e", 1)])[1:]
    assert line.startswith("\ufffd[31mred\ufffd [bold]b[/bold] \ufffd")
