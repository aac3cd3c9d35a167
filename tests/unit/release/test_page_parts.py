"""One order and one set of words for the pages of all doors."""

from __future__ import annotations

import re

import pytest

from sfumato.attack.finding import Findings
from sfumato.attack.page import FAILED, TITLE
from sfumato.release.page_parts import (
    GUARANTEED,
    LOOKED_AT,
    OPEN,
    RELEASED,
    UTILITY,
    VERIFY,
    ReportParts,
    report_page,
)
from sfumato.report.blocks import Paragraph

ORDER = [RELEASED, LOOKED_AT, GUARANTEED, OPEN, UTILITY, TITLE, FAILED, VERIFY]


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def parts(**more: object) -> ReportParts:
    said = {name: [Paragraph(f"of {name}")] for name in (
        "verify", "utility", "limits", "guarantee", "subject")}  # fmt: skip
    told = {"title": "T", "promise": "P", "audience": "A", "private": True, **said, **more}
    return ReportParts(**told)  # type: ignore[arg-type]


def test_parts_have_one_order_whatever_order_they_are_given_in() -> None:
    nothing = Findings((), {"link": "it needs a list."})
    page = report_page(parts(findings=nothing))
    assert headings(page) == [one for one in ORDER if one != LOOKED_AT]
    assert page.index("of limits") < page.index("of utility") < page.index("of verify")


def test_what_a_door_does_not_have_is_left_out() -> None:
    page = report_page(parts(utility=[], released=False))
    assert headings(page) == [LOOKED_AT, GUARANTEED, OPEN, TITLE, VERIFY]


@pytest.mark.parametrize(("private", "said"), [(True, "no sign of safety"), (False, "its owner")])
def test_silence_about_attacks_is_explained(private: bool, said: str) -> None:
    assert said in report_page(parts(private=private))


def test_who_may_see_it_stands_at_both_ends() -> None:
    page = report_page(parts(audience="For the owner."))
    assert page.count("For the owner.") == 2
    assert "note warning" in page
    assert "note warning" not in report_page(parts(private=False))
