"""The first page of the console and the tour of ten steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.console.page_request import HOME, Page, Visit, public_page
from sfumato.vault.principals import SHAPES

if TYPE_CHECKING:
    from collections.abc import Mapping

_ACTIONS = {
    "explain": "see the cost of questions",
    "query": "ask questions",
    "publish": "publish statistics",
    "synthesize": "make synthetic tables",
    "code": "send programs",
    "download": "download releases that are open to you",
}


@dataclass(frozen=True)
class TourStep:
    """One step of the tour, with its page and its audience."""

    title: str
    description: str
    path: str
    audience: str


_ANALYST = "a person with a budget"
STEPS = (
    TourStep(
        "See the open data", "Releases for everybody, each with its guarantee.",
        "/console/open", "everybody",
    ),
    TourStep(
        "Follow a feed", "A feed answers the same question every period. Save one as CSV.",
        "/console/open", "everybody",
    ),
    TourStep(
        "Sign in", "Sign in as a person with a budget. Each account has its own password.",
        "/console/sign-in", "everybody",
    ),
    TourStep(
        "Browse the tables", "Tables with their columns, and how each protects a person.",
        "/console/datasets", _ANALYST,
    ),
    TourStep(
        "Ask, but first see the cost", "The page shows cost and expected error before you pay.",
        "/console/ask", _ANALYST,
    ),
    TourStep(
        "Ask the same question again", "The stored answer is free. All your answers are listed.",
        "/console/history", _ANALYST,
    ),
    TourStep(
        "Try to overspend", "Ask at a cost above your budget. Nothing is charged; you see why.",
        "/console/ask", _ANALYST,
    ),
    TourStep(
        "See the people at risk", "Sign in as the owner and see how many people are unique.",
        "/console/owner/tables", "the owner",
    ),
    TourStep(
        "Add a person", "Register a person, give them a budget and follow all spending.",
        "/console/owner/people", "the owner",
    ),
    TourStep(
        "Release data", "Publish or anonymize a table, compare candidates, and open one to all.",
        "/console/owner/releases", "the owner",
    ),
)  # fmt: skip


def home(visit: Visit) -> Page:
    """Show what the visitor may do and which budgets they have left."""
    person = visit.person
    if person is None:
        return Page()
    actions = [_ACTIONS[shape] for shape in SHAPES if shape in person.shapes]
    listed = ", ".join(actions[:-1]) + (" and " if actions[1:] else "") + "".join(actions[-1:])
    # A person without permissions still sees a sentence, not an empty page.
    return Page({"accounts": gauges(visit), "may": listed or "do nothing here yet"})


def gauges(visit: Visit) -> list[Mapping[str, Any]]:
    """The visitor's accounts, each with the percentage that is left."""
    accounts = visit.vault.accounts(principal=visit.principal)
    return [{**account, "share": _percentage_left(account)} for account in accounts]


def _percentage_left(account: Mapping[str, Any]) -> float:
    """The percentage of a budget's epsilon that is left."""
    budget = str(account["budget"]).replace(",", "").split()
    # A budget is a text such as "epsilon 1.5, delta 1e-6"; the gauge shows its epsilon.
    total = float(budget[1]) if budget[:1] == ["epsilon"] else 0.0
    remaining = float(account["remaining"].get("epsilon", 0.0))
    return round(100 * min(remaining / total, 1.0), 1) if total else 0.0


def tour(_visit: Visit) -> Page:
    """Show the steps of the tour; they are the same for everybody."""
    return Page({"steps": STEPS})


PAGES = (public_page("GET", HOME, "Home", home, "home.html", nav="Home"),)
TOUR = public_page("GET", f"{HOME}/tour", "A tour in ten steps", tour, "tour.html", nav="Tour")
