"""The whole of the service on two neighbouring tables: the same bytes, but for noise and names.

What is noise, or drawn at random, is named here; whatever else differs is told of a person.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.end.gate.people_served import HEAD, ROWS, Served, people_served

from sfumato.operations.ledger import LedgerPage
from sfumato.server.route_table import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sfumato.server.routing import Route
    from sfumato.testing.servers import Client, Heard

NOISE = {
    *("rows", "error", "notes"),  # figures with noise, and what is concluded from these alone
    *("receipt", "token", "id", "job", "release", "request_id", "hash", "head"),  # drawn
    *("submitted", "started", "ended", "used", "time", "expires", "created", "made"),  # by clock
    *("approved", "operator"),  # by clock, and by whose token, which is drawn
}
VARYING = {"date", "content-length", "content-disposition", "location"}
PROVOKING = (
    "SELECT COUNT(*) AS n FROM people",
    "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY sex",
    "SELECT COUNT(*) FROM people WHERE CAST(ill AS INT) > 1",
    "SELECT SUM(age / (age - 7)) FROM people",
    "SELECT COUNT(*) FROM people WHERE 1 // (age - 7) = 1",
    "SELECT SUM(LN(age - 7)) FROM people",
    "SELECT MEDIAN(age) AS m FROM people WHERE ill = 'flu'",
    "SELECT COUNT(*) FROM people WHERE age = (SELECT age FROM people)",
    "SELECT ill, COUNT(*) FROM people GROUP BY ill",
    "SELECT error(ill) FROM people",
    "SELECT MAX(age) FROM people",
    "SELECT * FROM people",
    "SELECT COUNT(*) FROM people WHERE ill = 'no such illness'",
)
HARDEST = "one that breaks every rule"
PAIRS = {
    "one less": (ROWS, ROWS[:-1]),
    HARDEST: (ROWS, (*ROWS, "neither,abc,'; DROP")),
    "nobody at all": ((), ("f,7,flu",)),
}


@pytest.mark.parametrize(
    "pair", [one if one == HARDEST else pytest.param(one, marks=pytest.mark.slow) for one in PAIRS]
)
def test_neighbours_look_alike_by_every_route(pair: str, tmp_path: Path) -> None:
    found = []
    for place, rows in enumerate(PAIRS[pair]):
        with people_served(tmp_path / str(place)) as gate:
            # Later, because whoever adds a table is its owner and sees what is wrong with it.
            (tmp_path / str(place) / "people.csv").write_text("\n".join([HEAD, *rows]) + "\n")
            found.append(list(crawl(gate)))
    for (asked, one), (also, other) in zip(*found, strict=True):
        assert asked == also
        assert one == other, asked


def crawl(gate: Served) -> Iterator[tuple[str, Any]]:
    """Every route, asked by each kind of caller, and questions that could provoke an error."""
    callers = {"owner": gate.owner, "alice": gate.alice, "bob": gate.bob, "nobody": gate.nobody}
    for who, client in callers.items():
        for route in ROUTES:
            for path in paths(route):
                body = (route.example or {}) if route.has_body else None
                heard = client.ask(route.method, path, body)
                if heard.status == 202:
                    jobs(client)  # what comes of it shows by other routes
                yield f"{who} {route.method} {path}", told(heard)
        for sql in PROVOKING:
            for door in ("explain", "query"):
                heard = client.ask("POST", f"/v1/{door}", {"sql": sql, "epsilon": "0.01"})
                yield f"{who} {door} {sql}", told(heard)
        yield f"{who} jobs", jobs(client)


def paths(route: Route) -> Sequence[str]:
    names = ("people", "nothing") if "{" in route.path else ("",)
    return ["/v1" + re.sub(r"\{[^}]*\}", name, route.path) for name in names]


def jobs(client: Client) -> list[str]:
    """How jobs ended, once they all have."""
    for _ in range(1200):  # blocks of a program take their whole time, one after another
        found = client.ask("GET", "/v1/jobs")
        listed = found.json.get("jobs", []) if found.status == 200 else []
        if all(one["state"] in {"done", "failed", "cancelled"} for one in listed):
            return sorted(json.dumps(masked(one), sort_keys=True) for one in listed)
        time.sleep(0.05)
    raise AssertionError("the jobs do not end")


def told(heard: Heard) -> Any:
    headers = {name: value for name, value in heard.headers.items() if name not in VARYING}
    if headers.get("content-type") == LedgerPage.media:
        # Entries of the ledger, the owner's alone, are full of hashes; which ones there are is not.
        entries = [json.loads(line) for line in heard.body.splitlines()]
        return heard.status, headers, [(one.get("kind"), sorted(one)) for one in entries]
    if "json" not in headers.get("content-type", ""):
        return heard.status, headers
    return heard.status, headers, masked(heard.json)


def masked(value: Any) -> Any:
    """JSON without what is noise or drawn; that it is there, and of which type, stays."""
    if isinstance(value, dict):
        return {
            name: type(one).__name__ if name in NOISE else masked(one)
            for name, one in value.items()
        }
    if isinstance(value, list):  # what came about in one second has no order
        return sorted(map(masked, value), key=lambda one: json.dumps(one, sort_keys=True))
    if isinstance(value, str) and value.startswith("There is no token"):
        return re.sub("'[a-z2-9]{8}'", "'a token'", value)  # the names of those that there are
    return value
