"""A feed as programs read feeds: Atom, JSON Feed 1.1, and one table of all periods as CSV."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree as ET

import pyarrow as pa

from sfumato.data.files.writers import format_of, guarded_names
from sfumato.data.schema.layout import USUAL
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.vault.feeds.feed import Feed, FeedItem

_ATOM = "http://www.w3.org/2005/Atom"
_JSON_FEED = "https://jsonfeed.org/version/1.1"
_CSV = Path("feed.csv")
_SPREADS = ("sd", "bound95")


def atom(feed: Feed, items: Sequence[FeedItem], home: str) -> bytes:
    """The feed in Atom (RFC 4287), the newest period first."""
    top = ET.Element("feed", {"xmlns": _ATOM})
    times = [one.made.isoformat(timespec="seconds") for one in items]
    told = {
        "id": _id(feed, home),
        "title": _title(feed),
        "updated": max(times, default=_began(feed)),
    }
    for name, text in told.items():
        ET.SubElement(top, name).text = text
    author = ET.SubElement(top, "author")
    ET.SubElement(author, "name").text = "Sfumato"
    if home:
        ET.SubElement(top, "link", {"rel": "self", "href": f"{home}.atom"})
    for item, time in zip(reversed(items), reversed(times), strict=True):
        entry = ET.SubElement(top, "entry")
        for name, text in {
            "id": _id(feed, home, item),
            "title": f"{feed.name}, {item.period.name}",
            "updated": time,
            "content": _content(item),
        }.items():
            ET.SubElement(entry, name).text = text
    written: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return written


def json_feed(feed: Feed, items: Sequence[FeedItem], home: str) -> bytes:
    """The feed as a JSON Feed 1.1, the newest period first; `_sfumato` has figures and errors."""
    told: dict[str, Any] = {
        "version": _JSON_FEED,
        "title": _title(feed),
        "items": [
            {
                "id": _id(feed, home, one),
                "title": f"{feed.name}, {one.period.name}",
                "content_text": _content(one),
                "date_published": one.made.isoformat(timespec="seconds"),
                "_sfumato": one.to_json(),
            }
            for one in reversed(items)
        ],
    }
    if home:
        told["feed_url"] = f"{home}.json"
    return dumps(told, ensure_ascii=False).encode()


def csv(feed: Feed, items: Sequence[FeedItem], home: str) -> bytes:
    """All periods in one table: whose rows say their period, with how far each figure is off."""
    del feed, home
    tables = [_table(one) for one in items]
    found = pa.concat_tables(tables, promote_options="permissive") if tables else _periods(None, 0)
    # Who asks also names the columns, and others open the file.
    found = found.rename_columns(guarded_names(found.column_names))
    written = io.BytesIO()
    format_of(_CSV)(found.to_reader(), written, USUAL)
    return written.getvalue()


FORMATS: dict[str, tuple[str, Callable[[Feed, Sequence[FeedItem], str], bytes]]] = {
    "atom": ("application/atom+xml; charset=utf-8", atom),
    "json": ("application/feed+json; charset=utf-8", json_feed),
    "csv": ("text/csv; charset=utf-8", csv),
}
"""By ending: the media type, and who writes it."""


def written(
    feed: Feed, items: Sequence[FeedItem], ending: str, home: str = ""
) -> tuple[str, bytes]:
    """A feed in the form that an ending names: the media type, and what is sent."""
    if ending not in FORMATS:
        raise ParameterError(
            "feed_format_unknown",
            f"A feed cannot be had as {quoted(ending)}; {suggestion(ending, list(FORMATS))}",
        )
    media, write = FORMATS[ending]
    return media, write(feed, items, home)


def _table(item: FeedItem) -> pa.Table:
    found = _periods(item, item.table.num_rows)
    for name, values in zip(item.table.column_names, item.table.columns, strict=True):
        found = found.append_column(name, values)
        for spread in _SPREADS:
            size = (item.error.get(name) or {}).get(spread)
            if isinstance(size, int | float):
                found = found.append_column(
                    f"{name} {spread}", pa.array([float(size)] * len(values))
                )
    return found


def _periods(item: FeedItem | None, rows: int) -> pa.Table:
    told = {"period": "", "from": "", "to": ""} if item is None else item.period.to_json()
    return pa.table({name: pa.array([one] * rows, pa.string()) for name, one in told.items()})


def _title(feed: Feed) -> str:
    return f"{feed.name}: {feed.in_words}, every {feed.every}"


def _began(feed: Feed) -> str:
    return f"{feed.begins.isoformat()}T00:00:00+00:00"


def _id(feed: Feed, home: str, item: FeedItem | None = None) -> str:
    place = "" if item is None else f"/{item.period.name}"
    return f"urn:uuid:{uuid5(NAMESPACE_URL, f'{home}/{feed.name}{place}')}"


def _content(item: FeedItem) -> str:
    """A period in words: its rows, how far they are off, and what is promised."""
    rows = [
        ", ".join(f"{name} {'-' if one is None else one}" for name, one in row.items())
        for row in item.table.to_pylist()
    ]
    spread = [
        f"{name} is off by a standard deviation of {size['sd']:.4g}."
        for name, size in item.error.items()
        if isinstance(size, dict) and isinstance(size.get("sd"), int | float)
    ]
    return "\n".join([*rows, *spread, item.guarantee])
