"""The first page: what somebody can do here, by who they are."""

from __future__ import annotations

from sfumato.gate.console.visit import Page, PageRoute, Visit, Who


def home(visit: Visit) -> Page:
    """What the visitor may do, and what they may still spend."""
    person = visit.person
    if person is None:
        return Page()
    return Page({"accounts": visit.vault.accounts(principal=person.name)})


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
