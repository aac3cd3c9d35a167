"""Feeds: what each costs in all, opened to readers and stopped by the owner."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.console.forms import Filled, wrong
from sfumato.console.page_request import Page, PageRoute, Redirect, Visit, Who
from sfumato.errors import SfumatoError
from sfumato.server.problem_json import not_found
from sfumato.vault.releases import PUBLIC

if TYPE_CHECKING:
    from sfumato.vault.feeds.feed import Feed

FEEDS = "/console/owner/feeds"


def listed(visit: Visit) -> Page:
    """All feeds."""
    return Page(_facts(visit))


def opened(visit: Visit) -> Page | Redirect:
    """A feed that those who are ticked may read, and nobody else."""
    feed, to = _feed(visit), visit.several.get("to", ())
    try:
        visit.vault.feed_registry.open_to(feed.name, to, operator=visit.operator)
    except SfumatoError as error:
        return Page(_facts(visit, {feed.name: wrong(error, ())[""]}), status=422)
    return Redirect(FEEDS, f"{feed.name} is open to {', '.join(to) or 'nobody else'}.")


def stopped(visit: Visit) -> Redirect:
    """A feed of which no period is answered that ends from now on."""
    feed = _feed(visit)
    visit.vault.feed_registry.stop(feed.name, operator=visit.operator)
    return Redirect(FEEDS, f"{feed.name} is stopped. What was told stays told.")


def _facts(visit: Visit, errors: Any = None) -> dict[str, Any]:
    found = [
        {
            **one.to_json(),
            "span": one.span,
            "periods": None if one.is_unending else len(one.periods),
            "whole": ", ".join(f"{name} {amount}" for name, amount in one.whole_cost.items()),
        }
        for one in visit.vault.feed_registry.list(principal=visit.principal)
    ]
    people = [one.name for one in visit.vault.principal_registry.list() if not one.is_owner]
    return {
        "feeds": found, "readers": [PUBLIC, *people], "here": FEEDS,
        "errors": Filled(errors or {}),
    }  # fmt: skip


def _feed(visit: Visit) -> Feed:
    found = visit.vault.feed_registry.look_up(visit.path["feed"], principal=visit.principal)
    if found is None:
        raise not_found()
    return found


_ROUTE = partial(PageRoute, who=Who.OWNER, title="Feeds", template="owner/feeds.html")
PAGES = (
    _ROUTE(method="GET", path=FEEDS, handler=listed, nav="Feeds"),
    _ROUTE(method="POST", path=f"{FEEDS}/{{feed}}/open", handler=opened),
    _ROUTE(method="POST", path=f"{FEEDS}/{{feed}}/stop", handler=stopped),
)
