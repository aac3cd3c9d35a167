"""Numbers as people read them."""

from __future__ import annotations

import pytest

from sfumato.report.value_text import labelled, share, show, value_text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (1e-9, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (1 - 1e-9, "> 99.9 %"),
        (0.8748, "87.5 %"),
    ],
)
def test_only_none_is_nothing_and_only_all_is_everything(fraction: float, text: str) -> None:
    assert share(fraction) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (1234567, "1,234,567"), (0.12345, "0.123"), (2345.6, "2,346")]
)
def test_numbers_are_written_for_people(number: float, text: str) -> None:
    assert show(number) == text


def test_figures_are_named_in_words_and_remarks_are_sentences() -> None:
    stated = {"bias_sd": 0.5, "note": "boxes are cut by noisy counts"}
    assert value_text(stated) == "Bias in standard deviations 0.5. Boxes are cut by noisy counts."
    assert value_text(
        {"note": "Rows lie within bounds.", "postprocess": "stated for those before"}
    ) == ("Rows lie within bounds. Stated for those before.")
    assert value_text({"sd": 2, "bound95": 7}) == "standard deviation 2, 95 % bound 7"
    assert value_text([{"sd": 2}, {"sd": 1.5}]) == "standard deviation 2; 1.5"
    assert value_text(["a", {"sd": 1}]) == "a; standard deviation 1"
    assert value_text([]) == ""


def test_ratios_of_ours_are_decimals_and_names_of_the_user_stay() -> None:
    stated = {"1/2": {"rank_bound95": 198.5}}
    assert value_text(stated) == "0.5 95 % bound of the rank 198"
    assert value_text(["1/4", "3/4"]) == "0.25; 0.75"
    assert value_text({"tables": {"1/2,sd": {"sd": 2}}}) == "tables 1/2,sd standard deviation 2"
    assert value_text("1/2", verbatim=True) == "1/2"


def test_shares_are_percentages_also_of_a_child() -> None:
    of_visits = {"one_way": 0.0127, "two_way": None}
    assert labelled("one_way", 0.001).endswith(": 0.1 %")
    assert "(total variation distance) 1.3 %, " in labelled("visits", of_visits)
