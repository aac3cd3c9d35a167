"""A feed: its request, periods, cost and readers; its items as JSON, Atom, JSON Feed and CSV.

Periods are days, weeks, months or years, one after the other. They follow from public facts alone;
a declared column of dates decides which rows belong to a period. A period is over by the clock, or
by the time of the ledger's last entry if that is later.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree as ET

import pyarrow as pa

from sfumato.data.counting.contribution import rows_between
from sfumato.data.files.writers import format_of, guarded_names
from sfumato.data.schema.layout import DEFAULT_LAYOUT
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, option
from sfumato.methods.stream.histograms import USUAL_TOP
from sfumato.privacy.accounting.price import amounts_in_words
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlglot import exp

    from sfumato.methods.method import Dataset


MOST_PERIODS = 10_000
_DAYS = re.compile(r"([1-9]\d{0,3})d", re.ASCII)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Period:
    """The days from `low` to `high`, both included, under a name that sorts by time."""

    number: int
    """From 1."""
    name: str
    low: date
    high: date

    def rows(self, data: Dataset, of: str) -> exp.Select:
        """The rows of a data set that belong to it, by a column of dates."""
        return rows_between(data.table, of, self.low, self.high)

    def to_json(self) -> dict[str, Any]:
        """The period as JSON-able data."""
        return {"period": self.name, "from": self.low.isoformat(), "to": self.high.isoformat()}


def periods(every: str, begins: date, ends: date, *, cut: bool = False) -> tuple[Period, ...]:
    """List all periods from one day to another; the first and last may be shorter than the others.

    More than `MOST_PERIODS` are refused, or left out with `cut`.
    """
    if begins > ends:
        raise ParameterError(
            "feed_period_invalid",
            f"The feed would end on {ends} before it begins on {begins}. Give a later "
            f"{option('ends')}.",
        )
    cut_periods = []
    for number, (name, low, high) in enumerate(_cut(every, begins, ends), start=1):
        if number > MOST_PERIODS and cut:
            break
        if number > MOST_PERIODS:
            raise ParameterError(
                "feed_period_invalid",
                f"A feed has at most {MOST_PERIODS:,} periods. Give an earlier {option('ends')}, "
                f"or longer periods such as {option('every', 'month')}.",
            )
        cut_periods.append(Period(number, name, low, high))
    return tuple(cut_periods)


def _cut(every: str, begins: date, ends: date) -> Iterator[tuple[str, date, date]]:
    low = begins
    while low <= ends:
        name, high = _period(every, low)
        high = min(high, ends)
        yield name, low, high
        if high == date.max:
            return
        low = high + _DAY


def _period(every: str, low: date) -> tuple[str, date]:
    """The name and the last day of the period that a day belongs to."""
    # Names sort by time, so years have four digits; strftime's %Y gives fewer to those below 1000.
    if every == "day":
        return low.isoformat(), low
    if every == "week":
        year, week, weekday = low.isocalendar()
        return f"{year:04}-W{week:02}", _later(low, 7 - weekday)
    if every in _MONTHS:
        length = _MONTHS[every]
        first = (low.month - 1) // length * length
        behind = low.year * 12 + first + length
        last = (
            date.max
            if behind // 12 > date.max.year
            else date(behind // 12, behind % 12 + 1, 1) - _DAY
        )
        names = {
            "month": f"{low.year:04}-{low.month:02}",
            "quarter": f"{low.year:04}-Q{first // 3 + 1}",
            "year": f"{low.year:04}",
        }
        return names[every], last
    if days := _DAYS.fullmatch(every):
        return low.isoformat(), _later(low, int(days[1]) - 1)
    raise ParameterError(
        "feed_period_invalid",
        f"{quoted(every)} is no period of a feed. Write day, week, month, quarter, year, or days "
        "such as 10d.",
    )


def _later(day: date, days: int) -> date:
    return date.max if (date.max - day).days < days else day + timedelta(days=days)


NEVER = "never"
"""Given instead of the last day: a continual feed without end."""
CONTINUAL = "continual"
"""The family of a feed that counts, after each period, all rows from its beginning on."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Feed(Shown):
    """A feed as the owner decided it. Nothing in it depends on a row."""

    name: str
    family: str
    dataset: str
    column: str
    every: str
    begins: date
    ends: date
    delay: int = 0
    """Days after a period's end in which late rows may still arrive."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, str]
    """The cost of each period; of a continual feed, the cost of all periods together."""
    principal: str
    """The principal that pays and reads."""
    purpose: str | None = None
    to: tuple[str, ...] = ()
    """Further readers: principals by name, or "public"."""
    stopped: datetime | None = None
    is_unending: bool = False
    """Whether it was decided without a last day."""

    @cached_property
    def periods(self) -> tuple[Period, ...]:
        """All periods of the feed, in order."""
        return periods(self.every, self.begins, self.ends, cut=self.is_unending)

    @property
    def span(self) -> str:
        """The first and last day, in words."""
        if self.is_unending:
            return f"from {self.begins} on, without end"
        return f"from {self.begins} to {self.ends}"

    @property
    def is_continual(self) -> bool:
        """Whether each period counts all rows from the beginning on, for one price."""
        return self.family == CONTINUAL

    @property
    def whole_cost(self) -> dict[str, str]:
        """The cost of all periods together, known ahead from public facts."""
        times = 1 if self.is_continual else len(self.periods)
        return {name: str(times * Fraction(amount)) for name, amount in self.cost.items()}

    @property
    def price_in_words(self) -> str:
        """The cost of each period, or of all periods of a continual feed, in words."""
        return amounts_in_words(self.cost)

    @property
    def whole_in_words(self) -> str:
        """The cost of all periods together, in words."""
        return amounts_in_words(self.whole_cost)

    def request_id(self, period: Period | None = None) -> str:
        """The request id under which a period is charged and answered, once."""
        return f"feed/{self.name}" + ("" if period is None else f"/{period.name}")

    def due(self, moment: datetime) -> tuple[Period, ...]:
        """The periods that were over at a moment, and before it was stopped."""
        end = moment if self.stopped is None else min(moment, self.stopped)
        # A period whose last day is today is not over: rows of today may still arrive.
        latest = end.date() - timedelta(days=self.delay)
        return tuple(period for period in self.periods if period.high < latest)

    def to_json(self) -> dict[str, Any]:
        """The feed as JSON-able data."""
        return {
            "feed": self.name,
            "family": self.family,
            "dataset": self.dataset,
            "column": self.column,
            "every": self.every,
            "begins": self.begins.isoformat(),
            "ends": self.ends.isoformat(),
            "delay": self.delay,
            "asked": dict(self.asked),
            "cost": dict(self.cost),
            "principal": self.principal,
            "purpose": self.purpose,
            "to": list(self.to),
            "stopped": None if self.stopped is None else self.stopped.isoformat(),
            "unending": self.is_unending,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        stopped = record["stopped"]
        return cls(
            name=record["feed"],
            family=record["family"],
            dataset=record["dataset"],
            column=record["column"],
            every=record["every"],
            begins=date.fromisoformat(record["begins"]),
            ends=date.fromisoformat(record["ends"]),
            delay=record["delay"],
            asked=record["asked"],
            cost=record["cost"],
            principal=record["principal"],
            purpose=record["purpose"],
            to=tuple(record["to"]),
            stopped=None if stopped is None else datetime.fromisoformat(stopped),
            is_unending=record.get("unending", False),  # drafts did not write it
        )

    @property
    def in_words(self) -> str:
        """The request in one line."""
        if self.is_continual:
            return self._counted_in_words
        if "asked" in self.asked:
            return str(self.asked["asked"])
        choices = [str(self.asked[option]) for option in ("kind", "method") if option in self.asked]
        columns = self.asked.get("columns") or ()
        listed = columns if isinstance(columns, str) else ", ".join(columns)
        return " ".join([self.family, *choices, "of", listed or "all columns", "in", self.dataset])

    @property
    def _counted_in_words(self) -> str:
        asked, window = self.asked, self.asked.get("window")
        grouping = f" for each {asked['by']}" if "by" in asked else ""
        if asked.get("method") == "top":
            grouping = f", of the {asked.get('top', USUAL_TOP)} largest {asked.get('by')} alone"
            grouping += f", of at most {asked['changes']} changes" if "changes" in asked else ""
        if window is None:
            return f"rows of {self.dataset} up to the end of each {self.every}{grouping}"
        if asked.get("method") == "w-event":  # its window is what is hidden, not what is counted
            rows = f"rows of {self.dataset} in each {self.every}{grouping}"
            return f"{rows}, any {window} hidden together"
        return f"rows of {self.dataset} in the last {window} of each {self.every}{grouping}"

    def _card(self) -> Card:
        price = self.whole_in_words
        facts = {
            "Asks": self.in_words,
            "Every": f"{self.every}, {self.span}, by {self.column}",
            "Costs": f"{price} in all"
            + ("" if self.is_unending else f", {len(self.periods)} periods"),
            "Open to": ", ".join(self.to) or "nobody else",
        }
        facts |= {} if self.stopped is None else {"Stopped": str(self.stopped.date())}
        return Card(f"{self.name}, every {self.every} of {self.dataset}, {price} in all", facts)


@dataclass(frozen=True, repr=False)
class FeedItem(Shown):
    """The item of one period: its table, its errors and its guarantee."""

    period: Period
    made: datetime
    table: pa.Table
    error: Mapping[str, Any]
    guarantee: str

    def to_json(self) -> dict[str, Any]:
        """The item as JSON-able data."""
        rows = [[_plain(value) for value in row.values()] for row in self.table.to_pylist()]
        return {
            **self.period.to_json(),
            "made": self.made.date().isoformat(),
            "columns": self.table.column_names,
            "rows": rows,
            "error": self.error,
            "guarantee": self.guarantee,
        }

    @classmethod
    def from_json(cls, period: Period, record: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote of a period; columns have the types that JSON knows."""
        columns = list(zip(*record["rows"], strict=True)) or [()] * len(record["columns"])
        return cls(
            period,
            datetime.fromisoformat(record["made"]),
            pa.table([pa.array(column) for column in columns], names=record["columns"]),
            record["error"],
            record["guarantee"],
        )

    def _card(self) -> Card:
        rows = [tuple(map(str, row.values())) for row in self.table.slice(0, 10).to_pylist()]
        hidden_rows = max(0, self.table.num_rows - 10)
        table = CardTable(tuple(self.table.column_names), rows, hidden_rows)
        return Card(self.period.name, {"Guarantee": self.guarantee}, table)


def _plain(value: object) -> object:
    if isinstance(value, float) and value != value:
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


_ATOM = "http://www.w3.org/2005/Atom"
_JSON_FEED = "https://jsonfeed.org/version/1.1"
_CSV = Path("feed.csv")
_SPREADS = ("sd", "bound95")


def atom(feed: Feed, items: Sequence[FeedItem], home: str) -> bytes:
    """The feed in Atom (RFC 4287), the newest period first."""
    top = ET.Element("feed", {"xmlns": _ATOM})
    times = [item.made.isoformat(timespec="seconds") for item in items]
    elements = {
        "id": _entry_id(feed, home),
        "title": _title(feed),
        # Atom wants a time also of a feed without entries: that of its first day.
        "updated": max(times, default=f"{feed.begins.isoformat()}T00:00:00+00:00"),
    }
    for name, text in elements.items():
        ET.SubElement(top, name).text = text
    author = ET.SubElement(top, "author")
    ET.SubElement(author, "name").text = "Sfumato"
    if home:
        ET.SubElement(top, "link", {"rel": "self", "href": f"{home}.atom"})
    for item, time in zip(reversed(items), reversed(times), strict=True):
        entry = ET.SubElement(top, "entry")
        for name, text in {
            "id": _entry_id(feed, home, item),
            "title": f"{feed.name}, {item.period.name}",
            "updated": time,
            "content": _content(item),
        }.items():
            ET.SubElement(entry, name).text = text
    written: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return written


def json_feed(feed: Feed, items: Sequence[FeedItem], home: str) -> bytes:
    """The feed as a JSON Feed 1.1, the newest period first; `_sfumato` has figures and errors."""
    document: dict[str, Any] = {
        "version": _JSON_FEED,
        "title": _title(feed),
        "items": [
            {
                "id": _entry_id(feed, home, item),
                "title": f"{feed.name}, {item.period.name}",
                "content_text": _content(item),
                "date_published": item.made.isoformat(timespec="seconds"),
                "_sfumato": item.to_json(),
            }
            for item in reversed(items)
        ],
    }
    if home:
        document["feed_url"] = f"{home}.json"
    return dumps(document, ensure_ascii=False).encode()


def csv(feed: Feed, items: Sequence[FeedItem], home: str) -> bytes:
    """All periods in one table: each row names its period, and each figure has its errors."""
    del feed, home
    tables = [_table(item) for item in items]
    table = _period_columns(None, 0)
    if tables:
        table = pa.concat_tables(tables, promote_options="permissive")
    # The asker names the columns, and others open the file: a name that a spreadsheet would run as
    # a formula is guarded.
    table = table.rename_columns(guarded_names(table.column_names))
    written = io.BytesIO()
    format_of(_CSV)(table.to_reader(), written, DEFAULT_LAYOUT)
    return written.getvalue()


FORMATS: dict[str, tuple[str, Callable[[Feed, Sequence[FeedItem], str], bytes]]] = {
    "atom": ("application/atom+xml; charset=utf-8", atom),
    "json": ("application/feed+json; charset=utf-8", json_feed),
    "csv": ("text/csv; charset=utf-8", csv),
}
"""The media type and the writer of each ending."""
_NEWEST = 100
"""Periods in a file for feed readers, which fetch all of it again and again."""


def written(
    feed: Feed, items: Sequence[FeedItem], ending: str, home: str = ""
) -> tuple[str, bytes]:
    """Write a feed as the file that an ending names; return its media type and content.

    A CSV has all periods, the others only the newest 100.
    """
    if ending not in FORMATS:
        raise ParameterError(
            "choice_unknown",
            f"A feed cannot be had as {quoted(ending)}; {suggestion(ending, list(FORMATS))}",
            parameter="format",
        )
    media, write = FORMATS[ending]
    return media, write(feed, items if ending == "csv" else items[-_NEWEST:], home)


def _table(item: FeedItem) -> pa.Table:
    table = _period_columns(item, item.table.num_rows)
    for name, values in zip(item.table.column_names, item.table.columns, strict=True):
        table = table.append_column(name, values)
        for spread in _SPREADS:
            size = (item.error.get(name) or {}).get(spread)
            if isinstance(size, int | float):
                table = table.append_column(
                    f"{name} {spread}", pa.array([float(size)] * len(values))
                )
    return table


def _period_columns(item: FeedItem | None, rows: int) -> pa.Table:
    names = {"period": "", "from": "", "to": ""} if item is None else item.period.to_json()
    return pa.table({name: pa.array([text] * rows, pa.string()) for name, text in names.items()})


def _title(feed: Feed) -> str:
    return f"{feed.name}: {feed.in_words}, every {feed.every}"


def _entry_id(feed: Feed, home: str, item: FeedItem | None = None) -> str:
    # A name-based UUID (version 5): the same entry has the same id at each fetch, so readers show
    # it once.
    suffix = "" if item is None else f"/{item.period.name}"
    return f"urn:uuid:{uuid5(NAMESPACE_URL, f'{home}/{feed.name}{suffix}')}"


def _content(item: FeedItem) -> str:
    """An item as text: its rows, their standard deviations and the guarantee."""
    rows = [
        ", ".join(f"{name} {'-' if value is None else value}" for name, value in row.items())
        for row in item.table.to_pylist()
    ]
    spread = [
        f"{name} is off by a standard deviation of {size['sd']:.4g}."
        for name, size in item.error.items()
        if isinstance(size, dict) and isinstance(size.get("sd"), int | float)
    ]
    return "\n".join([*rows, *spread, item.guarantee])
