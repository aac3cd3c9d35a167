"""Numbers as people read them."""

from __future__ import annotations

import pytest

from sfumato.report import numbers


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
    assert numbers.share(fraction) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (1234567, "1,234,567"), (0.12345, "0.123"), (2345.6, "2,346")]
)
def test_numbers_are_written_for_people(number: float, text: str) -> None:
    assert numbers.show(number) == text
