"""The first page: what somebody can do here, by who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.console.page_request import Page, PageRoute, Visit, Who
from sfumato.vault.principals import SHAPES

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS = {
    "explain": "see what questions would cost",
    "query": "ask questions",
    "publish": "publish statistics",
    "synthesize": "make synthetic tables",
    "code": "send programs",
    "download": "download releases that were opened to you",
}


def home(visit: Visit) -> Page:
    """What the visitor may do, and what they may still spend."""
    person = visit.person
    if person is None:
        return Page()
    may = [_WORDS[one] for one in SHAPES if one in person.shapes]
    listed = ", ".join(may[:-1]) + (" and " if may[1:] else "") + "".join(may[-1:])
    return Page({"accounts": gauges(visit), "may": listed or "do nothing here yet"})


def gauges(visit: Visit) -> list[Mapping[str, Any]]:
    """The visitor's accounts, each with the part of it that is left, in percent."""
    found = visit.vault.accounts(principal=visit.principal)
    return [{**one, "share": _share(one)} for one in found]


def _share(account: Mapping[str, Any]) -> float:
    """How much of a budget is left, in percent, by its epsilon."""
    words = str(account["budget"]).replace(",", "").split()
    whole = float(words[1]) if words[:1] == ["epsilon"] else 0.0
    left = float(account["remaining"].get("epsilon", 0.0))
    return round(100 * min(left / whole, 1.0), 1) if whole else 0.0


PAGES = (
    PageRoute(
        method="GET",
        path="/console",
        title="Home",
        who=Who.PUBLIC,
        handler=home,
        template="home.html",
        nav="Home",
    ),
)
