"""A tour of the console in ten steps: what each kind of visitor can do, and where."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.console.page_request import Page, PageRoute, Visit, Who


@dataclass(frozen=True)
class TourStep:
    """One thing to do: who does it, where, and what to look at."""

    title: str
    words: str
    path: str
    who: str


_ALL, _ANALYST, _OWNER = "everybody", "somebody who may ask", "the owner"
STEPS = (
    TourStep(
        "See what is open",
        "Releases that everybody may have, each with what it promises.",
        "/console/open",
        _ALL,
    ),
    TourStep(
        "Follow a feed",
        "A question answered again every period; choose one, and save it as CSV.",
        "/console/open",
        _ALL,
    ),
    TourStep(
        "Sign in",
        "As somebody who may ask. Everybody has a password of their own.",
        "/console/sign-in",
        _ALL,
    ),
    TourStep(
        "Look at what there is",
        "Tables with their columns, and what each hides about a person.",
        "/console/datasets",
        _ANALYST,
    ),
    TourStep(
        "Ask, but first see the price",
        "What it costs and how far off it will be is told before anything is spent.",
        "/console/ask",
        _ANALYST,
    ),
    TourStep(
        "Ask the same again",
        "It costs nothing: the answer is there. All of yours are listed.",
        "/console/history",
        _ANALYST,
    ),
    TourStep(
        "Be refused",
        "Ask at a price above your budget. Nothing is charged, and it says why.",
        "/console/ask",
        _ANALYST,
    ),
    TourStep(
        "See who stands out",
        "Sign in as the owner, and look how many people a table gives away.",
        "/console/owner/tables",
        _OWNER,
    ),
    TourStep(
        "Let somebody in",
        "Register a person, give them a budget, and see who spent what.",
        "/console/owner/people",
        _OWNER,
    ),
    TourStep(
        "Release",
        "Publish or anonymize a table, compare candidates, and open one to everybody.",
        "/console/owner/releases",
        _OWNER,
    ),
)


def tour(visit: Visit) -> Page:
    """All steps, the same for everybody."""
    del visit
    return Page({"steps": STEPS})


PAGES = (
    PageRoute(
        method="GET",
        path="/console/tour",
        title="A tour in ten steps",
        who=Who.PUBLIC,
        handler=tour,
        template="tour.html",
        nav="Tour",
    ),
)
