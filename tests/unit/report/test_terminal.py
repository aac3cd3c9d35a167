from __future__ import annotations

from io import StringIO

from rich.console import Console

from sfumato.report.terminal import bars, in_words, told


def printed(values: list[tuple[str, float]], *, percent: bool = False) -> list[str]:
    console = Console(file=StringIO(), width=60)
    console.print(bars(values, what="Columns", value="Unique", percent=percent))
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


def test_figures_are_named_in_words_and_remarks_are_sentences() -> None:
    stated = {"bias_sd": 0.5, "note": "boxes are cut by noisy counts"}
    assert in_words(stated) == "Bias in standard deviations 0.5. Boxes are cut by noisy counts."
    assert in_words(
        {"note": "Rows lie within bounds.", "postprocess": "stated for those before"}
    ) == ("Rows lie within bounds. Stated for those before.")
    assert in_words({"sd": 2, "bound95": 7}) == "standard deviation 2, 95 % bound 7"
    assert in_words([{"sd": 2}, {"sd": 1.5}]) == "standard deviation 2; 1.5"
    assert in_words(["a", {"sd": 1}]) == "a; standard deviation 1"
    assert in_words([]) == ""


def test_ratios_of_ours_are_decimals_and_names_of_the_user_stay() -> None:
    stated = {"1/2": {"rank_bound95": 198.5}}
    assert in_words(stated) == "0.5 95 % bound of the rank 198"
    assert in_words(["1/4", "3/4"]) == "0.25; 0.75"
    assert in_words({"tables": {"1/2,sd": {"sd": 2}}}) == "tables 1/2,sd standard deviation 2"
    assert in_words("1/2", theirs=True) == "1/2"


def test_shares_are_percentages_also_of_a_child() -> None:
    of_visits = {"one_way": 0.0127, "two_way": None}
    assert told("one_way", 0.001).endswith(": 0.1 %")
    assert "move 1.3 %, " in told("visits", of_visits)
