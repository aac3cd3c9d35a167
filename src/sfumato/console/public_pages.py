"""The public side: releases and feeds that are open to all, with what they promise, to be saved.

Everybody sees the same here, whoever they are: what the vault's principal of kind public may have.
Where the owner added none, nothing is open.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.console.page_request import Download, Page, PageRoute, Visit, Who
from sfumato.errors import SfumatoError
from sfumato.exact_numbers import exact
from sfumato.release.plots import answer_pictures, pictures_of
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.server.problem_json import not_found
from sfumato.vault.feeds.feed import FORMATS, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.report.picture import Picture
    from sfumato.vault.feeds.feed import Feed, FeedItem
    from sfumato.vault.releases import KeptRelease

_MOST_PICTURES, _MOST_PERIODS = 6, 60
OPEN = "/console/open"


def shelf(visit: Visit) -> Page:
    """All that is open to the public."""
    public = visit.vault.feed_registry.public
    if public is None:
        return Page({"releases": [], "feeds": []})
    releases = visit.vault.releases.list(principal=public.name)
    feeds = visit.vault.feed_registry.list(principal=public.name)
    states = [(one, visit.vault.feed_registry.state(one)) for one in feeds]
    return Page({"releases": [(one, promised(one)) for one in releases], "feeds": states})


def release(visit: Visit) -> Page:
    """One release: what it promises in plain words, its pictures, its files."""
    found = _release(visit)
    facts = {
        "release": found,
        "told": found.described(),
        "plain": promised(found),
        "pictures": pictures_of(found.release.public)[:_MOST_PICTURES],
    }
    return Page(facts)


def release_file(visit: Visit) -> Download:
    """A release as a file, to be saved."""
    found, name = _release(visit), visit.path["file"]
    if name not in found.files:
        raise not_found()
    file = found.file(name)
    return Download(file.content, file.media, file.name)


def feed(visit: Visit) -> Page:
    """One feed: what it asks, what it tells of the newest periods, and where to subscribe."""
    found, items = _feed(visit, _MOST_PERIODS)
    facts = {
        "feed": found,
        "state": visit.vault.feed_registry.state(found),
        "whole": found.whole_in_words,
        "items": list(reversed(items)),
        "pictures": _drawn(items),
        "endings": list(FORMATS),
        "plain": in_plain_words(found.whole_cost.get("epsilon")),
    }
    return Page(facts)


def feed_file(visit: Visit) -> Download:
    """A feed with all its periods as a file, to be saved."""
    name, _, ending = visit.path["file"].partition(".")
    if name != visit.path["name"] or ending not in FORMATS:
        raise not_found()
    found, items = _feed(visit, None)
    media, content = written(found, items, ending, f"{visit.host}/v1/feeds/{found.name}")
    return Download(content, media, f"{found.name}.{ending}")


def promised(kept: KeptRelease) -> str:
    """What a release promises to the people in it, in plain words where there are some."""
    try:
        guarantee = kept.release.guarantee
    except SfumatoError:  # its files lie with another server
        return ""
    return in_plain_words(guarantee.parameters.get("epsilon")) or guarantee.statement


def in_plain_words(epsilon: Any) -> str:
    """What an epsilon means to somebody in the data."""
    if epsilon is None:
        return ""
    times = exp(min(float(exact(epsilon, "epsilon")), 50.0))
    return (
        f"Whether any one person was counted makes nothing in this more than {times:.3g} times as "
        "likely, or as unlikely."
    )


def _release(visit: Visit) -> KeptRelease:
    public = visit.vault.feed_registry.public
    name = visit.path["release"]
    found = None if public is None else visit.vault.releases.look_up(name, principal=public.name)
    if found is None:
        raise not_found()
    return found


def _feed(visit: Visit, limit: int | None) -> tuple[Feed, Sequence[FeedItem]]:
    feeds, name = visit.vault.feed_registry, visit.path["name"]
    public = feeds.public
    found = None if public is None else feeds.look_up(name, principal=public.name)
    if found is None or public is None:
        raise not_found()
    return found, feeds.read(name, principal=public.name, limit=limit)


def _drawn(items: Sequence[FeedItem]) -> list[Picture]:
    """Periods side by side where each has one row, else the newest period by its groups."""
    if not items:
        return []
    newest = items[-1]
    table, error = newest.table, dict(newest.error)
    if all(one.table.num_rows == 1 for one in items):
        table = pa.concat_tables([one.table for one in items])
        periods = pa.array([one.period.low for one in items])
        table = table.add_column(0, "period", periods)
        error = {name: {"bound95": [_bound(one, name) for one in items]} for name in error}
    guarantee = Guarantee("differential privacy", newest.guarantee, {})
    shown = Release({"answer": table}, guarantee, Provenance("feed", {}, fingerprint=""), error)
    return answer_pictures(shown)[:_MOST_PICTURES]


def _bound(item: FeedItem, name: str) -> float | None:
    bound = item.error[name].get("bound95")
    found: float | None = bound[0] if isinstance(bound, list) else bound
    return found


def _route(
    path: str, title: str, handler: Any, template: str = "", nav: str | None = None
) -> PageRoute:
    return PageRoute(
        method="GET",
        path=path,
        title=title,
        who=Who.PUBLIC,
        handler=handler,
        template=template,
        nav=nav,
    )


PAGES = (
    _route(OPEN, "Open data", shelf, "open.html", "Open data"),
    _route(f"{OPEN}/releases/{{release}}", "Release", release, "open-release.html"),
    _route(f"{OPEN}/releases/{{release}}/{{file}}", "A file of a release", release_file),
    _route(f"{OPEN}/feeds/{{name}}", "Feed", feed, "open-feed.html"),
    _route(f"{OPEN}/feeds/{{name}}/{{file}}", "A feed as a file", feed_file),
)
