"""Feeds of a server: read, and for owners decided, as those of a vault are."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from sfumato import arguments
from sfumato.client.admin import reading
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, SfumatoError
from sfumato.report.display import Card, CardTable, Shown
from sfumato.vault.feeds.feed import CONTINUAL, Feed, FeedItem
from sfumato.vault.principals import OWNER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.client.admin import Office
    from sfumato.client.connection import Connection

_SAID = ("column", "every", "dataset", "begins", "ends", "delay", "principal", "purpose", "to")


class RemoteFeeds(Shown):
    """Standing questions of a server: own ones, and those that were opened to who asks."""

    def __init__(self, connection: Connection, office: Office) -> None:
        self._connection, self._office = connection, office

    def add(self, name: str, sql: str | None = None, *, operator: str = OWNER, **told: Any) -> Feed:
        """Have a question answered for every period, as `Feeds.add` does; for owners."""
        self._office.check(operator)
        family = told.pop("family", None)
        sent = {one: told.pop(one) for one in _SAID if one in told}
        sent |= {"name": name, "sql": sql, "asked": told}
        sent |= {"continual": True} if family == CONTINUAL else {"family": family}
        plain = {key: _sent(one) for key, one in sent.items() if one is not None}
        return _feed(self._office.once("feeds", plain))

    def list(self) -> Sequence[Feed]:
        """The feeds that the token's holder may read, by name."""
        with reading("feeds"):
            return [_feed(one) for one in self._connection.get("feeds").json()["feeds"]]

    def get(self, name: str) -> Feed:
        """A feed by its name; one that somebody may not read is not there."""
        return _feed(self._got(name, 1))

    def read(self, name: str, *, limit: int | None = None) -> Sequence[FeedItem]:
        """What a feed told of each period, in order; the newest `limit` of them."""
        most = 1000 if limit is None else arguments.whole(limit, "limit")
        told = self._got(name, most)
        with reading("a feed"):
            periods = {one.name: one for one in _feed(told).periods}
            return [_item(periods, one) for one in told["items"]]

    def stop(self, name: str, *, operator: str = OWNER) -> Feed:
        """Answer no period that ends from now on; for owners."""
        self._office.check(operator)
        return _feed(self._office.send(f"feeds/{quote(name, safe='')}/stop", {}))

    def open_to(self, name: str, to: Sequence[str] | str, *, operator: str = OWNER) -> Feed:
        """Let others read a feed from now on, and nobody else; for owners."""
        self._office.check(operator)
        told = {"to": list(arguments.names(to, "to"))}
        return _feed(self._office.send(f"feeds/{quote(name, safe='')}/open", told))

    def _got(self, name: str, limit: int) -> Mapping[str, Any]:
        path = f"feeds/{quote(arguments.text(name, 'name'), safe='')}?limit={limit}"
        try:
            return self._connection.get(path).json()
        except SfumatoError as error:
            if error.code != "not_found":
                raise
        raise ParameterError(
            "feed_unknown", f"There is no feed {quoted(name)} for you. feeds.list() has them."
        )

    def _card(self) -> Card:
        rows = [(one.name, one.in_words, one.every) for one in self.list()]
        table = CardTable(("Feed", "Asks", "Every"), rows[:10], len(rows[10:]))
        return Card(f"{len(rows)} to read", {}, table if rows else None)


def _sent(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {
            name: one if isinstance(one, bool | int | list) else str(one)
            for name, one in value.items()
        }
    return value


def _feed(told: Mapping[str, Any]) -> Feed:
    with reading("a feed"):
        return Feed.from_json({"principal": "", "to": (), **told})


def _item(periods: Mapping[str, Any], told: Mapping[str, Any]) -> FeedItem:
    columns = list(zip(*told["rows"], strict=True)) or [()] * len(told["columns"])
    return FeedItem(
        periods[told["period"]],
        datetime.fromisoformat(told["made"]),
        pa.table([pa.array(one) for one in columns], names=told["columns"]),
        told["error"],
        told["guarantee"],
    )
