"""Continual feeds over tables that change: people are erased, come back, withdraw and agree again.

Every person has a cell of their own and noise is left out, so that the last step tells how often
each person counted. That must be at most what the guarantee says, whatever became of the table.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.privacy.ledger.records import Amendment
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.vault.feeds.feed import Feed
from sfumato.vault.feeds.feeds import TOPIC
from sfumato.vault.feeds.period_answers import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Row = tuple[str, date]

PEOPLE = ("ann", "bob", "eve")
FIRST, STEP_COUNT, MOST = date(2024, 1, 1), 10, 2
SCHEMA = """\
table = "visits"
unit = { column = "patient", max_rows = 2 }
[columns.patient]
role = "identifier"
kind = "text"
nullable = false
[columns.day]
kind = "date"
bounds = [2024-01-01, 2024-01-10]
nullable = false
[columns.who]
kind = "text"
values = ["ann", "bob", "eve"]
nullable = false
"""
_POSTGRES = [pytest.mark.postgres, pytest.mark.xdist_group("postgres")]


def into_csv(rows: list[Row]) -> None:
    """Put the table in a file in the place of the one before."""
    lines = [f"{who},{day},{who}" for who, day in rows]
    Path("next.csv").write_text("\n".join(["patient,day,who", *lines]) + "\n")
    Path("next.csv").replace("visits.csv")


def into_postgres(connection: psycopg.Connection, rows: list[Row]) -> None:
    with connection.transaction():
        connection.execute("DELETE FROM feed_visits")
        for who, day in rows:
            connection.execute("INSERT INTO feed_visits VALUES (%s, %s, %s)", (who, day, who))


@pytest.fixture(params=["csv", pytest.param("postgres", marks=_POSTGRES)])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Callable[[list[Row]], None]]]:
    """Where the table is, and what puts other rows there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Geometric, "steps", lambda _self, values, _entropy: np.asarray(values))
    Path("visits.toml").write_text(SCHEMA)
    if request.param == "csv":
        into_csv([])
        yield "visits.csv", into_csv
        return
    url = request.getfixturevalue("postgres_url")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE feed_visits (patient TEXT, day DATE, who TEXT)")
        yield f"{url}#feed_visits", partial(into_postgres, connection)
        connection.execute("DROP TABLE feed_visits")


def opened(where: str, **asked: Any) -> sf.Vault:
    with sf.init("clinic") as vault:
        vault.add("visits", where, "visits.toml", epsilon=10, **asked)
    return sf.open("clinic")


def add(vault: sf.Vault, **said: Any) -> Feed:
    asked = {"column": "day", "every": "day", "epsilon": 1, "by": "who", "method": "tree", **said}
    return vault.feed_registry.add(
        "daily", None, family="continual", dataset="visits", operator="Ann", **asked
    )


def work(vault: sf.Vault, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Answer the periods up to a number, as if the next were not over yet."""
    with monkeypatch.context() as patched:
        patched.setattr(Feed, "due", lambda feed, _now: feed.periods[:last])
        vault.feed_registry.work()


def counted(vault: sf.Vault) -> dict[str, int]:
    """How often each person counted in all steps."""
    table = vault.feed_registry.read("daily")[-1].table
    return dict(zip(*(one.to_pylist() for one in table.columns), strict=True))


def history(seed: int) -> list[list[Row]]:
    """Tables, one for each period: rows come, whole people are erased and come back."""
    draw = random.Random(seed)
    rows: dict[str, list[Row]] = defaultdict(list)
    found = []
    for step in range(STEP_COUNT):
        today = FIRST + timedelta(days=step)
        for who in PEOPLE:
            if draw.random() < 0.5:
                rows[who].clear()
            if draw.random() < 0.2:  # what was erased is put back under another day
                rows[who].append((who, FIRST + timedelta(days=draw.randrange(STEP_COUNT))))
            rows[who] += [(who, today)] * draw.choice([0, 1, 1, 3])
        found.append([row for who in PEOPLE for row in rows[who]])
    return found


def expected(
    tables: list[list[Row]], days: int | None, absent: Callable[[int, str], bool]
) -> Counter[str]:
    """How often each person counts by the guarantee: the first rows, or periods, that were seen."""
    used, total = Counter[str](), Counter[str]()
    for step, table in enumerate(tables):
        today = FIRST + timedelta(days=step)
        for who, many in Counter(who for who, day in table if day == today).items():
            left = MOST - used[who] if days is None else MOST * (used[who] < days)
            counts = 0 if absent(step, who) else min(many, left)
            total[who] += counts
            used[who] += counts if days is None else counts > 0
    return total


@pytest.mark.parametrize("days", [None, 3])
@pytest.mark.parametrize("seed", few_fast(range(4), 1))
def test_nobody_counts_more_often_than_is_claimed_however_often_they_come_back(
    source: tuple[str, Callable[[list[Row]], None]],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    days: int | None,
) -> None:
    where, put = source
    tables = history(seed)
    with opened(where) as vault:
        add(vault, **({} if days is None else {"days": days}))
        for step, table in enumerate(tables, start=1):
            put(table)
            work(vault, monkeypatch, step)
        total = counted(vault)
    assert max(total.values()) <= MOST * (days or 1)
    assert total == {who: expected(tables, days, lambda *_: False)[who] for who in PEOPLE}


@pytest.mark.parametrize("seed", range(3))
def test_consent_that_is_withdrawn_and_given_again_gives_no_second_share(
    source: tuple[str, Callable[[list[Row]], None]], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    where, put = source
    tables, draw = history(seed), random.Random(seed)
    agreed = [{who: draw.random() < 0.6 for who in PEOPLE} for _ in tables]
    versions = []
    with opened(where, purposes=("care",)) as vault:
        registry = vault.consent()
        add(vault, purpose="care")
        for step, table in enumerate(tables, start=1):
            put(table)
            said = [(who, "care", yes, None) for who, yes in agreed[step - 1].items()]
            registry.change(said, operator="Ann")
            versions.append(registry.version)
            work(vault, monkeypatch, step)
        total = counted(vault)
        told = vault.ledger.decided().of(STEPS)
    right = expected(tables, None, lambda step, who: not agreed[step][who])
    assert total == {who: right[who] for who in PEOPLE}
    steps = [told[f"daily/{FIRST + timedelta(days=step)}"] for step in range(STEP_COUNT)]
    assert [one["consent"] for one in steps] == [{"visits": version} for version in versions]


def test_a_feed_begun_before_there_were_methods_stops_no_other(
    source: tuple[str, Callable[[list[Row]], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    where, put = source
    with opened(where) as vault:
        plan: dict[str, Any] = {"column": "day", "every": "day", "epsilon": 1}
        draft = vault.feed_registry.plan("old", None, family="continual", dataset="visits", **plan)
        record = draft.to_json()
        del record["asked"]["method"], record["unending"]
        records = {(TOPIC, "a-draft"): {**record, "feed": "a-draft"}}
        vault.ledger.amend(lambda _: Amendment(records=records), operator="Ann")
        vault.feed_registry.add(
            "today", None, family="continual", dataset="visits", operator="Ann", **plan
        )
        put([("ann", FIRST)])
        work(vault, monkeypatch, 1)
        assert {feed.name for feed in vault.feed_registry.list()} == {"a-draft", "today"}
        assert {key.partition("/")[0] for key in vault.ledger.decided().of(STEPS)} == {"today"}
