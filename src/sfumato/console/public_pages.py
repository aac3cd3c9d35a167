"""Open data: releases and feeds that everybody may see and download, with their guarantees.

All visitors see the same pages, whoever they are: what the vault's principal of kind public may
have. In a vault without such a principal nothing is open.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.console.page_request import Download, Page, Visit, public_page
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
    from sfumato.vault.releases import LocalRelease

OPEN = "/console/open"
_MOST_PICTURES, _MOST_PERIODS = 6, 60  # what a page shows; files have everything


def list_open_data(visit: Visit) -> Page:
    """List the releases and feeds that are open to everybody."""
    public = visit.vault.feed_registry.public
    if public is None:
        return Page({"releases": [], "feeds": []})
    releases = visit.vault.releases.list(principal=public.name)
    feeds = visit.vault.feed_registry.list(principal=public.name)
    return Page(
        {
            "releases": [(release, guarantee_sentence(release)) for release in releases],
            "feeds": [(feed, visit.vault.feed_registry.state(feed)) for feed in feeds],
        }
    )


def release_page(visit: Visit) -> Page:
    """Show one release: its guarantee, pictures and files."""
    release = _open_release(visit)
    return Page(
        {
            "release": release,
            "details": release.described(),
            "plain": guarantee_sentence(release),
            "pictures": pictures_of(release.release.public)[:_MOST_PICTURES],
        }
    )


def release_file(visit: Visit) -> Download:
    """Download one file of a release."""
    return download_file(_open_release(visit), visit.path["file"])


def feed_page(visit: Visit) -> Page:
    """Show one feed: its question, its newest periods, and where to subscribe."""
    feed, items = _open_feed(visit, _MOST_PERIODS)
    return Page(
        {
            "feed": feed,
            "state": visit.vault.feed_registry.state(feed),
            "total_cost": feed.whole_in_words,
            "items": list(reversed(items)),
            "pictures": _feed_pictures(items),
            "endings": list(FORMATS),
            "plain": epsilon_sentence(feed.whole_cost.get("epsilon")),
        }
    )


def feed_file(visit: Visit) -> Download:
    """Download a feed with all its periods."""
    name, _, ending = visit.path["file"].partition(".")
    if name != visit.path["name"] or ending not in FORMATS:  # one address per file
        raise not_found()
    feed, items = _open_feed(visit, None)
    media, content = written(feed, items, ending, f"{visit.host}/v1/feeds/{feed.name}")
    return Download(content, media, f"{feed.name}.{ending}")


def download_file(release: LocalRelease, name: str) -> Download:
    """One file of a release; a name that the release does not have is answered as unknown."""
    if name not in release.files:
        raise not_found()
    file = release.file(name)
    return Download(file.content, file.media, file.name)


def guarantee_sentence(release: LocalRelease) -> str:
    """The guarantee of a release for the people in it, in plain words where it has an epsilon."""
    try:
        guarantee = release.release.guarantee
    except SfumatoError:  # another server has its files
        return ""
    return epsilon_sentence(guarantee.parameters.get("epsilon")) or guarantee.statement


def epsilon_sentence(epsilon: Any) -> str:
    """An epsilon in plain words: the factor e**epsilon by which one person changes any chance."""
    if epsilon is None:
        return ""
    # Above 50 the factor has 22 digits; a larger one would overflow and say no more.
    factor = exp(min(float(exact(epsilon, "epsilon")), 50.0))
    return (
        f"With or without any one person, no result here becomes more than {factor:.3g} times as "
        "likely or unlikely."
    )


def _open_release(visit: Visit) -> LocalRelease:
    public = visit.vault.feed_registry.public
    name = visit.path["release"]
    release = None if public is None else visit.vault.releases.look_up(name, principal=public.name)
    # A release that is not public is as unknown as one that does not exist.
    if release is None:
        raise not_found()
    return release


def _open_feed(visit: Visit, limit: int | None) -> tuple[Feed, Sequence[FeedItem]]:
    feeds, name = visit.vault.feed_registry, visit.path["name"]
    public = feeds.public
    feed = None if public is None else feeds.look_up(name, principal=public.name)
    if feed is None or public is None:
        raise not_found()
    return feed, feeds.read(name, principal=public.name, limit=limit)


def _feed_pictures(items: Sequence[FeedItem]) -> list[Picture]:
    """Pictures of a feed: all periods if each has one row, else the groups of the newest period."""
    if not items:
        return []
    newest = items[-1]
    table, error = newest.table, dict(newest.error)
    if all(item.table.num_rows == 1 for item in items):
        table = pa.concat_tables([item.table for item in items])
        periods = pa.array([item.period.low for item in items])
        # One series over time says more than the single number of the newest period.
        table = table.add_column(0, "period", periods)
        error = {name: {"bound95": [_bound95(item, name) for item in items]} for name in error}
    guarantee = Guarantee("differential privacy", newest.guarantee, {})
    answer = Release({"answer": table}, guarantee, Provenance("feed", {}, fingerprint=""), error)
    return answer_pictures(answer)[:_MOST_PICTURES]


def _bound95(item: FeedItem, column: str) -> float | None:
    bounds = item.error[column].get("bound95")
    bound: float | None = bounds[0] if isinstance(bounds, list) else bounds
    return bound


PAGES = (
    public_page("GET", OPEN, "Open data", list_open_data, "open.html", nav="Open data"),
    public_page(
        "GET", f"{OPEN}/releases/{{release}}", "Release", release_page, "open-release.html"
    ),
    public_page("GET", f"{OPEN}/releases/{{release}}/{{file}}", "File of a release", release_file),
    public_page("GET", f"{OPEN}/feeds/{{name}}", "Feed", feed_page, "open-feed.html"),
    public_page("GET", f"{OPEN}/feeds/{{name}}/{{file}}", "Feed as a file", feed_file),
)
