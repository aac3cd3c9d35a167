"""A server whose ledger was replaced under it answers nobody until it is restarted (0372)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.end.gate.people_served import COUNT, people_served

from sfumato.testing.servers import Client, served
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from pathlib import Path


def test_it_says_503_to_everybody_and_a_new_one_answers(tmp_path: Path) -> None:
    with people_served(tmp_path) as gate:
        folder = tmp_path / "clinic"
        asked = {"sql": COUNT, "epsilon": "0.1"}
        assert gate.alice.ask("POST", "/v1/query", asked).status == 200
        head = folder.with_name(f"{folder.name}.head")
        shutil.copy2(head, tmp_path / "copy")
        (tmp_path / "copy").replace(head)
        for client in (gate.alice, gate.owner):
            for method, path, body in (
                ("POST", "/v1/query", asked),
                ("POST", "/v1/explain", asked),
                ("GET", "/v1/datasets", None),
                ("GET", "/v1/ledger", None),
            ):
                reply = client.ask(method, path, body)
                assert (reply.status, reply.json["code"]) == (503, "ledger_replaced")
        with open_vault(folder) as again, served(again) as server:
            client = Client(server.url, gate.alice.token)
            assert client.ask("POST", "/v1/query", asked).json["cost"]["charged"] is False
