"""Administration over HTTP: people and tokens, as owners change them while the server runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.end.gate.people_served import COUNT, Served, people_served

from sfumato.testing.servers import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

PEOPLE = "/v1/admin/principals"
TOKENS = "/v1/admin/tokens"
ALICE = f"{PEOPLE}/alice"
OF = {"population": "people"}
SCHEMA = {"table": "new", "columns": [{"name": "age", "kind": "integer", "bounds": [0, 99]}]}
DATASET = {"name": "new", "source": "people.csv", "schema": SCHEMA, "epsilon": 1}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with people_served(tmp_path_factory.mktemp("admin")) as found:
        yield found


def done(client: Client, path: str, body: object, status: int = 200) -> Any:
    reply = client.ask("POST", path, body)
    assert reply.status == status, reply.body
    return reply.json


def refused(client: Client, path: str, body: object, method: str = "POST") -> tuple[int, str]:
    reply = client.ask(method, path, body)
    return reply.status, reply.json["code"]


def client_of(gate: Served, name: str, **more: Any) -> Client:
    made = done(gate.owner, TOKENS, {"principal": name, **more}, 201)
    assert made["token"][4:12] == made["id"]
    return Client(gate.url, made["token"])


def test_an_owner_lets_somebody_in_and_out_again(gate: Served) -> None:
    made = done(gate.owner, PEOPLE, {
        "name": "eve", "kind": "external", "population": "people", "epsilon": "0.5",
        "max_epsilon": 0.25, "expires": "90d",
    }, 201)  # fmt: skip
    assert made["budgets"][0]["remaining"] == {"epsilon": 0.5, "delta": 0.0}
    eve = client_of(gate, "eve")
    asked = {"sql": COUNT, "epsilon": "0.25"}
    assert done(eve, "/v1/query", asked)["cost"]["charged"]
    assert refused(eve, "/v1/query", {"sql": COUNT, "epsilon": "0.3"}) == (
        403, "permission_missing")  # fmt: skip
    assert refused(eve, "/v1/publish", {}) == (403, "permission_missing")
    at = f"{PEOPLE}/eve"
    assert done(gate.owner, f"{at}/grant", {"population": "people", "epsilon": 1})["name"] == "eve"
    done(gate.owner, f"{at}/move", {"population": "people", "epsilon": "1/4", "to": "alice"})
    done(gate.owner, f"{at}/lower", {"population": "people", "epsilon": "0.5"})
    told = gate.owner.ask("GET", at).json
    assert told["budgets"][0]["balance"] == "epsilon 0.25 of 0.5 left"
    done(gate.owner, f"{at}/change", {"shapes": ["explain"]})
    assert refused(eve, "/v1/query", asked) == (403, "permission_missing")
    done(gate.owner, f"{at}/expire", {})
    assert refused(eve, "/v1/query", asked) == (401, "token_refused")
    done(gate.owner, f"{at}/expire", {"at": "1d"})
    done(gate.owner, f"{at}/change", {"kind": "permanent-staff"})
    assert not done(eve, "/v1/query", asked)["cost"]["charged"]
    names = [one["name"] for one in gate.owner.ask("GET", PEOPLE).json["principals"]]
    assert names == ["alice", "bob", "eve"]
    entries = [json.loads(one.body) for one in gate.vault.ledger.entries()]
    by = {one["operator"] for one in entries if one.get("name") == "eve"}
    assert by == {f"owner by token {str(gate.owner.token)[4:12]}"}
    gate.vault.verify()


def test_a_token_is_shown_once_and_dies_at_once(gate: Served) -> None:
    narrow = client_of(gate, "alice", scopes=["plan"], expires="1d")
    assert narrow.ask("GET", "/v1/datasets").status == 200
    assert refused(narrow, "/v1/query", {"sql": COUNT}) == (403, "scope_missing")
    name = str(narrow.token)[4:12]
    listed = gate.owner.ask("GET", TOKENS)
    assert str(narrow.token)[12:] not in listed.body.decode()
    [one] = [one for one in listed.json["tokens"] if one["id"] == name]
    assert (one["principal"], one["scopes"]) == ("alice", ["plan"])
    assert one["used"] is not None
    assert gate.owner.ask("DELETE", f"{TOKENS}/{name}").json == {"revoked": name}
    assert narrow.ask("GET", "/v1/datasets").status == 401
    assert refused(gate.owner, f"{TOKENS}/{name}", None, "DELETE") == (404, "token_unknown")


def test_another_owner_administers_in_their_own_name(gate: Served) -> None:
    done(gate.owner, PEOPLE, {"name": "olga", "kind": "owner"}, 201)
    olga = client_of(gate, "olga")
    done(olga, PEOPLE, {"name": "pia", "kind": "public"}, 201)
    entries = [json.loads(one.body) for one in gate.vault.ledger.entries()]
    [by] = {one["operator"] for one in entries if one.get("name") == "pia"}
    assert by.startswith("olga by token ")


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (PEOPLE, {"name": "аdmin", "kind": "external"}, (422, "name_invalid")),
        (PEOPLE, {"name": "😀", "kind": "external"}, (422, "name_invalid")),
        (PEOPLE, {"name": "\ud800", "kind": "external"}, None),
        (PEOPLE, {"name": "Alice", "kind": "external"}, (422, "name_taken")),
        (PEOPLE, {"name": "a1ice", "kind": "external"}, (422, "name_taken")),
        (PEOPLE, {"name": "owner", "kind": "owner"}, (422, "name_taken")),
        (PEOPLE, {"name": "new", "kind": "boss"}, None),
        (PEOPLE, {"name": "new"}, None),
        (PEOPLE, {"name": "new", "kind": "external", "operator": "me"}, None),
        (f"{ALICE}/grant", {**OF, "epsilon": -1}, (422, "parameter_out_of_range")),
        (f"{ALICE}/grant", {**OF, "epsilon": True}, (422, "parameter_type_wrong")),
        (f"{ALICE}/grant", {**OF, "epsilon": 9}, (422, "budget_out_of_range")),
        (f"{ALICE}/grant", {"epsilon": 7}, (422, "population_unknown")),
        (f"{PEOPLE}/nobody/grant", {**OF, "epsilon": 1}, (404, "principal_unknown")),
        (f"{PEOPLE}/owner/grant", {**OF, "epsilon": 1}, (422, "account_elsewhere")),
        (f"{ALICE}/move", {"to": "alice", **OF, "epsilon": 1}, (422, "options_conflict")),
        (f"{ALICE}/move", {"to": "bob", **OF, "epsilon": 99}, (422, "budget_out_of_range")),
        (f"{PEOPLE}/..%2F..%2Fx/grant", {**OF, "epsilon": 1}, (404, "not_found")),
        (TOKENS, {"principal": "alice", "scopes": ["admin"]}, (422, "choice_unknown")),
        (TOKENS, {"principal": "alice", "expires": "never"}, (422, "time_malformed")),
        ("/v1/admin/datasets", DATASET, (403, "permission_missing")),
        ("/v1/admin/datasets", {**DATASET, "schema": {"columns": 5}}, (422, "schema_malformed")),
        ("/v1/admin/datasets", {**DATASET, "schema": "people.toml"}, (422, "request_malformed")),
        ("/v1/admin/limit", {"account": "nobody", "epsilon": 1}, (422, "account_unknown")),
        ("/v1/admin/snapshot", {"to": -1}, (422, "parameter_out_of_range")),
    ],
)  # fmt: skip
def test_R41_R49_what_is_wrong_changes_nothing(
    gate: Served, path: str, body: object, expected: tuple[int, str] | None
) -> None:
    before = gate.vault.ledger.verify().position
    status, code = refused(gate.owner, path, body)
    assert (status, code) == expected if expected else status in {400, 422}, (status, code)
    assert gate.vault.ledger.verify().position == before
