"""Feeds: every period once, for what was said ahead, whatever happens on the way."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest
from tests.fixtures.ledgers import code_of

from sfumato.privacy.ledger.base import Ledger
from sfumato.release.codec import from_bytes
from sfumato.vault.config import Config
from sfumato.vault.feeds import period_answers
from sfumato.vault.feeds.feed import FeedItem, written

if TYPE_CHECKING:
    import sfumato as sf
    from sfumato.vault.feeds.feed import Feed

SQL = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"


def add(vault: sf.Vault, name: str = "cities", **said: Any) -> Feed:
    told = {"column": "day", "every": "month", "epsilon": "0.5", "operator": "Ann", **said}
    question = None if "family" in said else SQL
    return vault.feed_registry.add(name, question, **told)


def left(vault: sf.Vault) -> float:
    found = next(one for one in vault.accounts() if one["account"] == "visits")
    amount: float = found["remaining"]["epsilon"]
    return round(amount, 6)


def test_every_period_is_answered_once_on_its_own_rows(vault: sf.Vault) -> None:
    feed = add(vault)
    assert (feed.whole_cost, left(vault)) == ({"epsilon": "7/2"}, 10)
    assert (vault.feed_registry.work(), left(vault)) == (7, 6.5)
    items = vault.feed_registry.read("cities")
    assert [one.period.name for one in items] == [f"2024-0{month}" for month in range(1, 8)]
    for one in items:
        days = (one.period.high - one.period.low).days + 1
        total = sum(one.table.column("n").to_pylist())
        assert abs(total - 30 * days) < 200, "far from the rows of that period"
    assert vault.feed_registry.work() == 0
    assert vault.feed_registry.read("cities")[0].table == items[0].table
    assert left(vault) == 6.5
    assert vault.feed_registry.read("cities", limit=2)[0].period.name == "2024-06"


def test_a_publication_and_a_principal_who_pays(vault: sf.Vault) -> None:
    asked = {"family": "publish", "dataset": "visits", "kind": "histogram", "columns": ["city"]}
    add(vault, "shapes", **asked, every="quarter", principal="ann")
    assert vault.feed_registry.work() == 3
    assert vault.feed_registry.read("shapes", principal="ann")[0].table.num_rows == 2
    [account] = vault.accounts(principal="ann")
    assert account["remaining"]["epsilon"] == 0.5


def test_a_price_that_nobody_named_stays_what_it_was(vault: sf.Vault) -> None:
    said: dict[str, Any] = {"column": "day", "every": "year"}
    assert vault.feed_registry.plan("usual", SQL, **said).asked["epsilon"] == "1"
    clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) {SQL[7:]}"
    named = vault.feed_registry.plan("named", clause, **said)
    assert (named.cost, "epsilon" in named.asked) == ({"epsilon": "2"}, False)


def test_new_data_change_no_period_that_was_told(vault: sf.Vault) -> None:
    add(vault)
    vault.feed_registry.work()
    before = [one.table for one in vault.feed_registry.read("cities")]
    vault.raise_snapshot()
    assert vault.feed_registry.work() == 0
    assert [one.table for one in vault.feed_registry.read("cities")] == before


def test_a_period_is_due_when_its_last_day_and_the_delay_are_over(vault: sf.Vault) -> None:
    feed = add(vault, delay=2)
    for day, due in (("2024-01-31", 0), ("2024-02-02", 0), ("2024-02-03", 1)):
        assert len(feed.due(datetime.fromisoformat(day).replace(tzinfo=UTC))) == due
    stopped = vault.feed_registry.stop("cities", operator="Ann")
    assert stopped.due(datetime.max.replace(tzinfo=UTC)) == feed.periods


def test_what_cannot_be_is_refused_and_nothing_kept(vault: sf.Vault) -> None:
    refused: list[tuple[str, dict[str, Any]]] = [
        ("feed_period_invalid", {"every": "fortnight"}),
        ("column_unsuitable", {"column": "city"}),
        ("feed_period_invalid", {"begins": "2024-03-01", "ends": "2024-02-01"}),
        ("feed_period_invalid", {"ends": "2025-01-01"}),
        ("time_malformed", {"ends": "tomorrow"}),
        ("parameter_out_of_range", {"delay": -1}),
        ("reader_unknown", {"to": "nobody"}),
        ("budget_exhausted", {"every": "day", "epsilon": 1}),
        ("parameter_missing", {"family": "publish"}),
        (
            "parameter_missing",
            {
                "family": "continual",
                "dataset": "visits",
                "epsilon": None,
            },
        ),
        ("name_invalid", {"name": "a/b"}),
    ]
    for code, said in refused:
        assert code_of(add, vault, **said) == code, code
    assert vault.feed_registry.list() == []
    add(vault)
    assert code_of(add, vault) == "name_taken"
    assert code_of(vault.feed_registry.read, "citis") == "feed_unknown"
    assert code_of(vault.feed_registry.read, "cities", limit=0) == "parameter_out_of_range"
    assert left(vault) == 10


def test_only_whom_it_is_opened_to_sees_it(vault: sf.Vault) -> None:
    add(vault)
    for name in ("eve", "ann"):
        assert vault.feed_registry.list(principal=name) == []
        assert code_of(vault.feed_registry.read, "cities", principal=name) == "feed_unknown"
    vault.feed_registry.open_to("cities", "public", operator="Ann")
    vault.feed_registry.work()
    assert len(vault.feed_registry.read("cities", principal="eve")) == 7
    registry = vault.feed_registry
    told = registry.described(registry.get("cities", principal="eve"), principal="eve")
    assert not told.keys() & {"principal", "to", "trouble"}
    assert vault.feed_registry.public is not None
    assert vault.feed_registry.public.name == "eve"
    vault.people.expire("eve", operator="me")
    assert vault.feed_registry.public is None


def test_a_budget_that_others_spent_is_waited_for_and_told(vault: sf.Vault) -> None:
    feed = add(vault, epsilon=1)
    vault.query("SELECT COUNT(*) FROM visits", epsilon=8)
    assert vault.feed_registry.work() == 2
    state = vault.feed_registry.state(feed)
    assert state["trouble"] == {"period": "2024-03", "code": "budget_exhausted"}
    entries = vault.verify()["entries"]
    assert vault.feed_registry.work() == 0
    assert vault.verify()["entries"] == entries, "the same trouble is written down once"


def test_of_hosts_that_share_a_ledger_one_works_on_a_feed_at_a_time(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(vault, every="year")
    monkeypatch.setattr(Config, "in_postgres", True)
    monkeypatch.setattr("socket.gethostname", lambda: "first")
    assert vault.feed_registry._answering._holds(vault.feed_registry.get("cities"))
    monkeypatch.setattr("socket.gethostname", lambda: "second")
    assert vault.feed_registry.work() == 0
    monkeypatch.setattr(period_answers, "_LEASE", timedelta(0))
    monkeypatch.setattr("socket.gethostname", lambda: "first")
    assert vault.feed_registry._answering._holds(vault.feed_registry.get("cities"))
    monkeypatch.setattr("socket.gethostname", lambda: "second")
    assert vault.feed_registry.work() == 1, "the lease of the first is over"


class Killed(BaseException):
    """What ends a thread where a machine would have ended the process."""


@pytest.mark.parametrize("at", ["reserve", "store"])
def test_a_period_whose_answer_was_on_its_way_comes_to_the_same_end(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    add(vault, every="year")
    made, real = list[bytes](), getattr(Ledger, at)

    def killed(self: Ledger, *said: Any, **more: Any) -> Any:
        if at == "reserve":
            real(self, *said, **more)
        else:
            made.append(said[1])
        raise Killed

    monkeypatch.setattr(Ledger, at, killed)
    with pytest.raises(Killed):
        vault.feed_registry.work()
    assert left(vault) == 9.5
    monkeypatch.setattr(Ledger, at, real)
    assert vault.feed_registry.work() == 1
    [item] = vault.feed_registry.read("cities")
    for stored in made:
        assert from_bytes(stored).table == item.table, "it drew anew"
    assert left(vault) == 9.5
    assert not list(Path("clinic/answers").glob("*.tape"))
    assert not list(Path("clinic/answers").glob("*.flight"))


def test_no_cell_and_no_header_of_a_csv_is_a_formula(vault: sf.Vault) -> None:
    feed = add(vault)
    table = pa.table(
        {"=A1+1": ["=cmd()", "@x", "plain"], "-n": [-5, 1, 2], '"q",': ["+", "", None]}
    )
    item = FeedItem(feed.periods[0], datetime.now(UTC), table, {"-n": {"sd": 1.5}}, "")
    found = list(csv.reader(written(feed, [item], "csv")[1].decode().splitlines()))
    assert found[0][3:] == ["'=A1+1", "'-n", "'-n sd", '"q",']
    assert [row[3:] for row in found[1:]] == [
        ["'=cmd()", "-5", "1.5", "'+"], ["'@x", "1", "1.5", ""], ["plain", "2", "1.5", ""],
    ]  # fmt: skip


def test_a_feed_in_every_form(vault: sf.Vault) -> None:
    feed = add(vault)
    empty = written(feed, [], "csv")[1]
    assert empty == b"period,from,to\n"
    vault.feed_registry.work()
    items = vault.feed_registry.read("cities")
    rows = list(csv.DictReader(written(feed, items, "csv")[1].decode().splitlines()))
    assert len(rows) == 14
    assert rows[0].keys() == {"period", "from", "to", "city", "n", "n sd", "n bound95"}
    told = json.loads(written(feed, items, "json", "https://x.org/v1/feeds/cities")[1])
    assert told["version"] == "https://jsonfeed.org/version/1.1"
    assert told["items"][0]["_sfumato"]["period"] == "2024-07"
    atom = ET.fromstring(written(feed, items, "atom")[1])
    space = "{http://www.w3.org/2005/Atom}"
    assert len(atom.findall(f"{space}entry")) == 7
    for needed in ("id", "title", "updated", "author"):
        assert atom.find(f"{space}{needed}") is not None
    assert len({one.findtext(f"{space}id") for one in atom.findall(f"{space}entry")}) == 7
    assert code_of(written, feed, items, "xlsx") == "choice_unknown"
