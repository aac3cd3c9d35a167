"""The vault over HTTP: what may be seen and asked, by whom, and how refusals come back."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.end.gate.people_served import COUNT, Served, people_served

from sfumato.server.endpoints import SECURITY_HEADERS
from sfumato.testing.servers import Client

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with people_served(tmp_path_factory.mktemp("http")) as found:
        yield found


def code(
    client: Client, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, str]:
    reply = client.ask(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    found = reply.json
    assert reply.headers["content-type"] == "application/problem+json"
    always = {"type", "title", "status", "code", "detail", "kind"}
    assert always <= set(found) <= always | {"options", "parameter", "given", "allowed", "hint"}
    assert found["status"] == reply.status
    assert found["type"] == f"urn:sfumato:{found['code']}"
    return reply.status, found["code"]


def test_a_data_set_is_told_with_what_one_may_spend_on_it(gate: Served) -> None:
    listed = gate.alice.ask("GET", "/v1/datasets").json["datasets"]
    assert [one["name"] for one in listed] == ["people"]
    assert [one["name"] for one in gate.owner.ask("GET", "/v1/datasets").json["datasets"]] == [
        "people",
        "others",
    ]
    told = gate.alice.ask("GET", "/v1/datasets/people").json
    assert told["usual_epsilon"] == "3/5"
    assert told["remaining"]["epsilon"] <= 6
    assert [column["name"] for column in told["schema"]["columns"]] == ["sex", "age", "ill"]


def test_a_question_is_explained_and_answered_as_by_every_other_door(gate: Served) -> None:
    asked = {"sql": COUNT, "epsilon": "0.125"}
    before = gate.alice.ask("GET", "/v1/ledger").json
    explained = gate.alice.ask("POST", "/v1/explain", asked).json
    assert explained["cost"] == {"epsilon": "1/8"}
    assert gate.alice.ask("GET", "/v1/ledger").json == before
    answered = gate.alice.ask("POST", "/v1/query", asked)
    assert answered.status == 200
    assert explained["remaining_after"] == answered.json["remaining"]
    here = gate.vault.query(COUNT, epsilon="0.125", principal="alice").to_json()
    assert here == {**answered.json, "cost": {"epsilon": 0.125, "charged": False}}
    again = gate.alice.ask("POST", "/v1/query", asked).json
    assert again == {**answered.json, "cost": {"epsilon": 0.125, "charged": False}}
    [account] = gate.alice.ask("GET", "/v1/ledger").json["accounts"]
    assert account["account"] == "people/alice"


def test_an_idempotency_key_names_one_request_for_good(gate: Served) -> None:
    asked, key = {"sql": f"{COUNT} WHERE age < 10", "epsilon": 0.1}, {"Idempotency-Key": "k 1"}
    first = gate.alice.ask("POST", "/v1/query", asked, key)
    assert first.json["cost"]["charged"]
    again = gate.alice.ask("POST", "/v1/query", asked, key).json
    assert not again["cost"]["charged"]
    assert again["rows"] == first.json["rows"]
    other = {**asked, "epsilon": 0.2}
    assert code(gate.alice, "POST", "/v1/query", other, Idempotency_Key="k 1") == (
        409,
        "request_reused",
    )
    for wrong in ("k" * 10_000, "", "ä", "a\tb", "utf-8''%ff", "utf-8''%0a", "utf-8''%41"):
        assert code(gate.alice, "POST", "/v1/query", asked, Idempotency_Key=wrong) == (
            422,
            "name_invalid",
        ), wrong


def test_numbers_are_exact_however_they_are_written(gate: Served) -> None:
    for written in ("0.1", '"0.1"', "0.100", '"1/10"'):
        body = f'{{"sql": "{COUNT}", "epsilon": {written}}}'.encode()
        reply = gate.alice.ask("POST", "/v1/explain", body, {"Content-Type": "application/json"})
        assert reply.json["cost"] == {"epsilon": "1/10"}, written
    # A float of this number would be 0.1; the cost is cut to whole units of 1e-9.
    below = f'{{"sql": "{COUNT}", "epsilon": 0.09999999999999999999999}}'.encode()
    reply = gate.alice.ask("POST", "/v1/explain", below, {"Content-Type": "application/json"})
    assert reply.json["cost"] == {"epsilon": "99999999/1000000000"}


WRONG = {
    "0": "parameter_out_of_range",
    "-1": "parameter_out_of_range",
    '"nan"': "parameter_type_wrong",
    "true": "parameter_type_wrong",
    "null": "parameter_type_wrong",
    "[1]": "parameter_type_wrong",
    "1e999": "parameter_out_of_range",
    "1e9999999": "parameter_out_of_range",
    "1e-12": "parameter_out_of_range",
    "51": "parameter_out_of_range",
    '"' + "1" * 500 + '"': "parameter_type_wrong",
}


@pytest.mark.parametrize("written", WRONG)
def test_a_wrong_epsilon_is_refused_by_the_same_code_as_elsewhere(
    gate: Served, written: str
) -> None:
    body = f'{{"sql": "{COUNT}", "epsilon": {written}}}'.encode()
    refused = code(gate.alice, "POST", "/v1/query", body, Content_Type="application/json")
    assert refused == (422, WRONG[written])


def test_what_the_form_does_not_know_is_refused(gate: Served) -> None:
    for body, wanted in (
        ({"sql": COUNT, "epsilom": 1}, "option_unknown"),
        ({"epsilon": 1}, "parameter_missing"),
        ({"sql": 7}, "parameter_type_wrong"),
        ({"sql": "S" * 70_000}, "request_malformed"),
        ({"sql": COUNT, "weights": [1]}, "request_malformed"),
        ({"sql": COUNT, "principal": "owner"}, "option_unknown"),
        ({"sql": COUNT, "request_id": "k"}, "option_unknown"),
    ):
        assert code(gate.alice, "POST", "/v1/query", body) == (422, wanted), body
    for query in ("?epsilon=1&epsilon=2", "?sort=;drop", "?limit=-1", "?x", "?%ff=1"):
        status, _ = code(gate.alice, "GET", f"/v1/datasets{query}")
        assert status == 422, query
    assert code(gate.alice, "POST", "/v1/query?dry=1", {"sql": COUNT}) == (422, "option_unknown")


def test_what_is_not_ones_own_does_not_exist(gate: Served) -> None:
    never, hidden = (
        gate.alice.ask("GET", f"/v1/datasets/{name}") for name in ("nothing", "others")
    )
    assert never.status == hidden.status == 404
    assert never.body == hidden.body
    asked = [
        {"sql": f"SELECT COUNT(*) FROM {name}", "epsilon": 0.1} for name in ("nothin", "others")
    ]
    replies = [gate.alice.ask("POST", "/v1/query", body) for body in asked]
    assert [one.status for one in replies] == [422, 422]
    assert replies[0].json["detail"].replace("nothin", "others") == replies[1].json["detail"]
    assert b"others" not in gate.alice.ask("GET", "/v1/ledger").body


def test_whatever_is_wrong_with_a_token_is_told_alike(gate: Served) -> None:
    good = gate.alice.token or ""
    revoked = gate.vault.tokens.new("alice", operator="Ann")
    gate.vault.tokens.revoke(revoked, operator="Ann")
    shown = (
        None,
        f"Bearer {good[:-1]}{'A' if good[-1] != 'A' else 'B'}",
        f"Bearer {revoked}",
        "Bearer sfu_",
        "Bearer",
        f"Basic {good}",
        f"Bearer {good} {good}",
        "Bearer " + "x" * 9000,
        "Bearer ä",
    )
    replies = [
        gate.nobody.ask("GET", "/v1/datasets", headers={"Authorization": one} if one else {})
        for one in shown
    ]
    replies.append(gate.nobody.ask("GET", f"/v1/datasets?token={good}"))
    replies.append(gate.nobody.ask("POST", "/v1/query", {"sql": COUNT}))
    replies.append(gate.nobody.ask("GET", "/v1/datasets/nothing"))
    assert {one.status for one in replies} == {401}
    assert len({one.body for one in replies}) == 1
    assert all(one.headers["www-authenticate"] == "Bearer" for one in replies)


def test_a_token_for_less_does_less(gate: Served) -> None:
    planner = Client(gate.url, gate.vault.tokens.new("alice", scopes="plan", operator="Ann"))
    assert planner.ask("POST", "/v1/explain", {"sql": COUNT}).status == 200
    assert code(planner, "POST", "/v1/query", {"sql": COUNT}) == (403, "scope_missing")
    assert code(planner, "GET", "/v1/ledger") == (403, "scope_missing")


def test_a_budget_that_is_spent_is_told_as_ones_own(gate: Served) -> None:
    asked = {"sql": f"{COUNT} WHERE age = 3", "epsilon": 9}
    reply = gate.alice.ask("POST", "/v1/query", asked)
    assert (reply.status, reply.json["code"]) == (402, "budget_exhausted")
    assert "people/alice" in reply.json["detail"]


def test_methods_and_paths_that_are_none(gate: Served) -> None:
    for path in ("/v1", "/v1/", "/v2/datasets", "/v1/datasets/", "/v1/../etc", "/v1/query/x", "/x"):
        assert code(gate.owner, "GET", path) == (404, "not_found"), path
    for method in ("PUT", "HEAD", "OPTIONS", "TRACE", "PATCH", "DELETE"):
        reply = gate.owner.ask(method, "/v1/datasets")
        assert (reply.status, reply.headers["allow"]) == (405, "GET"), method


def test_every_reply_tells_a_browser_to_keep_out(gate: Served) -> None:
    replies = [
        gate.alice.ask("GET", "/v1/datasets"),
        gate.nobody.ask("GET", "/v1/datasets"),
        gate.nobody.ask("GET", "/nothing"),
        gate.nobody.ask("GET", gate.owner_link.removeprefix(gate.url)),
        gate.nobody.ask("GET", "/v1/health", headers={"Host": "evil.example"}),
    ]
    for reply in replies:
        for name, value in SECURITY_HEADERS.items():
            assert reply.headers[name.lower()] == value
        assert "access-control-allow-origin" not in reply.headers
        assert "server" not in reply.headers


def test_a_server_answers_under_its_own_names_alone(gate: Served) -> None:
    for name in ("evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost:x"):
        assert code(gate.nobody, "GET", "/v1/health", Host=name) == (421, "host_unknown"), name
    for name in ("localhost", "LOCALHOST:1", "127.0.0.1:8321", "[::1]:8321"):
        assert gate.nobody.ask("GET", "/v1/health", headers={"Host": name}).status == 200, name


def test_the_owners_link_is_good_once(gate: Served) -> None:
    path = gate.owner_link.removeprefix(gate.url)
    for origin in ("https://evil.example", "http://localhost:1", gate.url + ".evil", "x", ""):
        foreign = gate.nobody.ask("POST", path, headers={"Origin": origin})
        assert (foreign.status, foreign.json["code"]) == (403, "form_foreign"), origin
    for origin in ("null", gate.url):
        assert gate.nobody.ask("GET", path, headers={"Origin": origin}).status == 200
    page = gate.nobody.ask("GET", path)
    assert (page.status, b"sfu_" in page.body) == (200, False)
    assert code(gate.nobody, "POST", path[:-1] + "!") == (404, "not_found")
    assert code(gate.nobody, "POST", path, Sec_Fetch_Site="cross-site") == (403, "form_foreign")
    with ThreadPoolExecutor(8) as pool:
        takes = {"Accept": "application/json"}
        replies = list(pool.map(lambda _: gate.nobody.ask("POST", path, headers=takes), range(8)))
    assert sorted(one.status for one in replies) == [200, *[404] * 7]
    [token] = [one.json["token"] for one in replies if one.status == 200]
    assert len(Client(gate.url, token).ask("GET", "/v1/ledger").json["accounts"]) == 4
    assert gate.nobody.ask("GET", path).status == 404


def test_what_is_added_meanwhile_is_asked_without_a_restart(gate: Served) -> None:
    home = gate.vault.config.folder.parent
    (home / "later.csv").write_text("sex,age,ill\nf,1,flu\nm,2,flu\n")
    from sfumato.cli.main import run

    assert code(gate.owner, "GET", "/v1/datasets/later") == (404, "not_found")
    given = ["--schema", home / "people.toml", "--epsilon", "1", "--vault", home / "clinic"]
    assert run(["add", "later", *map(str, [home / "later.csv", *given])]) == 0
    assert gate.owner.ask("GET", "/v1/datasets/later").status == 200
    body = {"sql": "SELECT COUNT(*) AS n FROM later", "epsilon": 0.5}
    assert gate.owner.ask("POST", "/v1/query", body).status == 200
    config = gate.vault.config.folder / "vault.toml"
    whole = config.read_text()
    config.write_text(whole.replace("snapshot = 1", "snapshot = 2"))
    assert gate.owner.ask("POST", "/v1/query", body).json["cost"]["charged"]
    config.write_text("format = 1\n[")
    assert code(gate.owner, "GET", "/v1/datasets") == (503, "vault_unready")
    config.write_text(whole)
    assert gate.owner.ask("GET", "/v1/datasets").status == 200


def test_what_fails_inside_is_told_to_the_operator_alone(
    gate: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("bob has the flu")

    monkeypatch.setattr("sfumato.vault.accounts.balances_of", fails)
    reply = gate.alice.ask("GET", "/v1/ledger")
    assert (reply.status, reply.json["code"]) == (500, "internal")
    assert b"flu" not in reply.body
    assert "bob has the flu" in (gate.vault.config.folder / "failures.log").read_text()


def test_many_connections_are_held_at_once(gate: Served) -> None:
    place = urlsplit(gate.url)
    with ExitStack() as held:
        wires = [
            held.enter_context(socket.create_connection((place.hostname, place.port), timeout=20))
            for _ in range(200)
        ]
        assert gate.nobody.ask("GET", "/v1/health").status == 200
        for wire in wires:  # one by one: of many at once some are told to come back
            wire.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.recv(65536).startswith(b"HTTP/1.1 200")


def test_the_document_of_routes_names_all_of_them(gate: Served) -> None:
    document = gate.nobody.ask("GET", "/v1/openapi.json").json
    assert {"/v1/datasets/{name}", "/v1/query", "/v1/explain", "/v1/ledger"} <= set(
        document["paths"]
    )
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            assert json.dumps(operation["responses"])
