"""Consent over HTTP: the owner writes down who agrees; everybody else learns nothing of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sfumato.testing.servers import Client, served
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.vault.vault import Vault

SCHEMA = """\
table = "visits"
unit = { column = "patient", max_rows = 1 }
[columns.patient]
role = "identifier"
kind = "text"
nullable = false
[columns.cost]
kind = "integer"
bounds = [0, 9]
nullable = false
"""
COUNT = {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 1}
ROUTES = [
    ("GET", "/v1/admin/consent", None),
    ("GET", "/v1/admin/consent/visits/file", None),
    ("POST", "/v1/admin/consent/visits/person", {"person": "p1"}),
    (
        "POST",
        "/v1/admin/consent/visits/changes",
        {"changes": [{"person": "p1", "purpose": "care", "agreed": True}]},
    ),
]


@dataclass(frozen=True)
class Asked:
    vault: Vault
    owner: Client
    alice: Client


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    home = tmp_path_factory.mktemp("consent")
    (home / "visits.toml").write_text(SCHEMA)
    rows = "".join(f"p{one},5\n" for one in range(200))
    (home / "visits.csv").write_text(f"patient,cost\n{rows}")
    with create_vault(home / "clinic") as vault:
        vault.add(
            "visits",
            home / "visits.csv",
            home / "visits.toml",
            epsilon=9,
            purposes=["care", "research"],
        )
        vault.people.add("alice", "permanent-staff", epsilon=9, population="visits", operator="Ann")
        with served(vault) as server:
            clients = [
                Client(server.url, vault.tokens.new(name, operator="Ann"))
                for name in ("owner", "alice")
            ]
            yield Asked(vault, *clients)


def said(gate: Asked, agreed: bool, *people: str, purpose: str = "care") -> dict[str, object]:
    changes = [{"person": one, "purpose": purpose, "agreed": agreed} for one in people]
    reply = gate.owner.ask("POST", "/v1/admin/consent/visits/changes", {"changes": changes})
    assert reply.status == 200, reply.json
    found: dict[str, object] = reply.json
    return found


def test_a_question_names_its_purpose_and_sees_who_agreed(gate: Asked) -> None:
    assert gate.alice.ask("GET", "/v1/datasets/visits").json["purposes"] == ["care", "research"]
    missing = gate.alice.ask("POST", "/v1/query", COUNT)
    assert (missing.status, missing.json["code"]) == (422, "parameter_missing")
    unknown = gate.alice.ask("POST", "/v1/query", {**COUNT, "purpose": "fun"})
    assert (unknown.status, unknown.json["code"]) == (403, "purpose_unknown")
    assert said(gate, True, *(f"p{one}" for one in range(100)))["changed"] == 100
    assert said(gate, True, "p1", "p2")["unchanged"] == 2
    found = gate.alice.ask("POST", "/v1/query", {**COUNT, "purpose": "care"})
    # Noise of scale 1: beyond 30 with probability below 1e-12.
    assert abs(found.json["rows"][0][0] - 100) < 30
    said(gate, False, *(f"p{one}" for one in range(100)))
    again = gate.alice.ask("POST", "/v1/query", {**COUNT, "purpose": "care"})
    assert again.json["rows"] == found.json["rows"]
    fresh = {**COUNT, "sql": f"{COUNT['sql']} WHERE cost < 9", "purpose": "care"}
    assert abs(gate.alice.ask("POST", "/v1/query", fresh).json["rows"][0][0]) < 30


def test_a_job_for_no_purpose_is_refused_when_it_is_submitted(gate: Asked) -> None:
    asked = {"dataset": "visits", "kind": "histogram", "columns": ["cost"], "epsilon": 1}
    reply = gate.alice.ask("POST", "/v1/publish", asked)
    assert (reply.status, reply.json["code"]) == (422, "parameter_missing")
    assert gate.alice.ask("POST", "/v1/publish", {**asked, "purpose": "care"}).status == 202


def test_the_owner_sees_and_has_what_was_said(gate: Asked) -> None:
    said(gate, True, "p7", purpose="research")
    said(gate, False, "p7", purpose="research")
    told = gate.owner.ask("POST", "/v1/admin/consent/visits/person", {"person": "p7"}).json
    assert told["purposes"]["research"] == "no"
    assert [one["agreed"] for one in told["history"] if one["purpose"] == "research"] == [
        "yes",
        "no",
    ]
    [listed] = gate.owner.ask("GET", "/v1/admin/consent").json["registries"]
    assert listed["purposes"]["research"] == {"yes": 0, "no": 1}
    assert listed["version"] == gate.vault.consent().version
    file = gate.owner.ask("GET", "/v1/admin/consent/visits/file")
    assert file.headers["content-type"].startswith("text/csv")
    assert "p7,research,no," in file.body.decode()


def test_what_cannot_be_taken_is_listed_and_changes_nothing(gate: Asked) -> None:
    before = gate.vault.consent().version
    changes = [
        {"person": "new", "purpose": "care", "agreed": True},
        {"person": "p1", "purpose": "cure", "agreed": True},
        {"person": "p1", "purpose": "care", "agreed": False, "time": "2999-01-01"},
    ]
    reply = gate.owner.ask("POST", "/v1/admin/consent/visits/changes", {"changes": changes})
    assert (reply.status, reply.json["code"]) == (422, "file_malformed")
    assert "change 2" in reply.json["detail"]
    assert "change 3" in reply.json["detail"]
    assert gate.vault.consent().version == before
    wrong: object
    for wrong in ({}, {"changes": []}, {"changes": [{"person": "p1"}]}, {"changes": "all"}):
        reply = gate.owner.ask("POST", "/v1/admin/consent/visits/changes", wrong)
        assert reply.status == 422


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_for_everybody_else_there_is_nothing(
    gate: Asked, method: str, path: str, body: object
) -> None:
    hidden = gate.alice.ask(method, path, body)
    nowhere = gate.alice.ask(method, "/v1/admin/consenting", body)
    assert (hidden.status, hidden.json) == (nowhere.status, nowhere.json) == (404, nowhere.json)
    assert Client(gate.owner.url).ask(method, path, body).status == 401
    other = gate.owner.ask(method, path.replace("/visits/", "/nobody/"), body)
    assert other.status == (200 if path.endswith("consent") else 404)
