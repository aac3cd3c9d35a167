"""Feeds over HTTP: decided by owners, read by who may, by everybody where they are open."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.testing.servers import Client, served
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.vault.vault import Vault

SCHEMA = """\
table = "visits"
[columns.day]
kind = "date"
bounds = [2024-01-01, 2024-03-31]
nullable = false
"""
SAID: dict[str, Any] = {"column": "day", "every": "month"}
SQL = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    home: Path = tmp_path_factory.mktemp("feeds")
    rows = [f"2024-0{1 + at % 3}-{1 + at % 28:02}" for at in range(300)]
    (home / "visits.csv").write_text("\n".join(["day", *rows]) + "\n")
    (home / "visits.toml").write_text(SCHEMA)
    with create_vault(home / "clinic") as vault:
        vault.add("visits", home / "visits.csv", home / "visits.toml", epsilon=4)
        vault.people.add("ann", "permanent-staff", epsilon=1, operator="me")
        yield vault


def test_feeds_by_owners_by_others_and_by_everybody(vault: Vault) -> None:
    owner = vault.tokens.new("owner", operator="me")
    ann = vault.tokens.new("ann", operator="me")
    with served(vault) as server:
        nobody = Client(server.url)
        assert nobody.ask("GET", "/v1/feeds").status == 401
        with sf.connect(server.url, owner) as remote, sf.connect(server.url, ann) as hers:
            begun = date(2024, 2, 1)
            feed = remote.feeds.add("months", SQL, **SAID, begins=begun, epsilon="0.1", to="ann")
            assert feed.whole_cost == {"epsilon": "1/5"}
            remote.feeds.add("so-far", family="continual", dataset="visits", **SAID, epsilon=1)
            vault.feeds.work()
            assert [one.name for one in remote.feeds.list()] == ["months", "so-far"]
            assert [one.name for one in hers.feeds.list()] == ["months"]
            there, here = hers.feeds.read("months"), vault.feeds.read("months")
            assert [one.table.to_pylist() for one in there] == [
                one.table.to_pylist() for one in here
            ]
            assert len(hers.feeds.read("months", limit=1)) == 1
            assert code_of(hers.feeds.get, "so-far") == "feed_unknown"
            assert code_of(hers.feeds.stop, "months") == "permission_missing"
            assert code_of(remote.feeds.add, "months", SQL, **SAID, epsilon="0.1") == "name_taken"
            said = {"epsilon": "0.1", "request_id": "feed/months/2024-03"}
            assert code_of(hers.query, SQL, **said) == "name_invalid"
            vault.people.add("eve", "public", operator="me")
            assert nobody.ask("GET", "/v1/feeds").json == {"feeds": []}
            assert nobody.ask("GET", "/v1/feeds/months.csv").status == 404
            assert remote.feeds.open_to("months", "public").to == ("public",)
            _read_by_everybody(nobody)
            assert remote.feeds.stop("months").stopped is not None
            assert nobody.ask("POST", "/v1/admin/feeds/months/stop", {}).status == 401


def _read_by_everybody(nobody: Client) -> None:
    [listed] = nobody.ask("GET", "/v1/feeds").json["feeds"]
    assert not listed.keys() & {"principal", "to", "trouble"}
    csv = nobody.ask("GET", "/v1/feeds/months.csv")
    assert csv.body.decode().splitlines()[0] == "period,from,to,n,n sd,n bound95"
    assert json.loads(nobody.ask("GET", "/v1/feeds/months.json").body)["items"][0]["id"]
    ET.fromstring(nobody.ask("GET", "/v1/feeds/months.atom").body)
    for path in ("months.xml", "months.", "so-far", "so-far.csv", "nothing"):
        assert nobody.ask("GET", f"/v1/feeds/{path}").status == 404
    wrong = nobody.ask("GET", "/v1/feeds/months", headers={"Authorization": "Bearer sfu_no"})
    assert wrong.status == 401, "a token that is no good does not count as none"
