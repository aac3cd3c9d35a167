"""Attacks that were tried, on a page."""

from __future__ import annotations

import pytest
from tests.unit.report.svg_reading import assert_readable, marks

from sfumato.attack.finding import Finding, Findings, Rate
from sfumato.attack.page import FAILED, TITLE, attacks_picture, findings_blocks
from sfumato.report.blocks import Heading
from sfumato.report.page import render

LINK = Finding(
    attack="link",
    attacker="has a list of people with age",
    meaning="People whose released row is found",
    success=Rate.share(90, 100),
    baseline=Rate.share(1, 100),
    reference="Sweeney 2002",
    victims=87,
    examples=[{"name": "Ada Lovelace"}],
    remarks=["Looked up by age."],
)
GAME = Finding(
    attack="singling-out",
    attacker="asks twice",
    meaning="Games in which it is told",
    success=Rate.share(55, 100),
    baseline=Rate.share(50, 100),
    reference="Denning 1982",
    control=Rate.share(52, 100),
    bound=0.74,
)
FOUND = Findings((GAME, LINK), {"definetti": "the release is no anatomy."})


def told(findings: Findings) -> str:
    return render("T", findings_blocks(findings), lead="", footer="").replace("\u00a0", " ")


def test_success_stands_against_a_guess_in_words_and_figures() -> None:
    page = told(FOUND)
    assert "Link: People whose released row is found: 90.0 % of 100" in page
    assert "by a guess 1.00 %" in page
    assert "90.0 % (82.4 % to 95.10 %)" in page
    assert "Most that the guarantee allows" in page
    assert "74.0 %" in page
    assert "Has a list of people with age." in page
    assert "Looked up by age." in page


def test_the_worst_comes_first() -> None:
    rows = attacks_picture(FOUND.findings).table.rows
    assert [row[0] for row in rows] == ["Singling out", "Link"]
    page = told(FOUND)
    assert page.index("Link: People") < page.index("Singling out: Games")


def test_no_person_is_on_the_page() -> None:
    assert "Lovelace" not in told(FOUND)


def test_what_failed_and_what_did_not_run_say_so() -> None:
    page = told(FOUND)
    assert "No better than a guess: Singling out." in page
    assert "The release is no anatomy." in page
    assert "proves no safety" in page
    assert "shows nothing" in page
    assert "shows nothing" not in told(Findings((LINK,), {}))
    assert "Every attack that ran does better" in told(Findings((LINK,), {}))


def test_a_broken_promise_must_not_be_missed() -> None:
    broken = Finding(**{**vars(GAME), "success": Rate.share(99, 100)})
    assert "does not keep its promise" in told(Findings((broken,), {}))
    assert "does not keep its promise" not in told(FOUND)


def test_nothing_tried_is_said() -> None:
    page = told(Findings((), {"link": "it needs a list."}))
    assert "No attack fits" in page
    assert "It needs a list." in page
    assert "<figure>" not in page


def test_headings_fit_below_others() -> None:
    headings = [one for one in findings_blocks(FOUND, level=3) if isinstance(one, Heading)]
    assert headings == [Heading(TITLE, 3), Heading(FAILED, 3)]


@pytest.mark.parametrize("width", [354, 764])
def test_the_picture_is_readable_and_has_every_mark(width: int) -> None:
    svg = attacks_picture(FOUND.findings).draw(width)
    assert_readable(svg)
    # Two rows have an attacker and a guess, one people who are not in the data, one a bound; each
    # stands in the legend too.
    counts = {kind: len(marks(svg, kind)) for kind in ("tone3", "tone7", "tone5", "limit")}
    assert counts == {"tone3": 3, "tone7": 3, "tone5": 2, "limit": 2}
