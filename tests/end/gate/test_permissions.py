"""Every route, as OpenAPI tells it, for every kind of principal: their own, another's, nobody's.

What each may do follows from the one table of rights; this is written down here a second time, by
the table alone, and compared with what a real server does.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.end.gate.people_served import OTHERS, ROWS, SCHEMA

from sfumato.testing.servers import Client, Heard, served
from sfumato.vault.principals import PERMITTED, PrincipalKind
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.vault.vault import Vault

OWN, THEIRS, NONE = "people", "zebras", "quaggas"
"""A data set that is the caller's to ask, another's, and one that never was."""
KINDS = [str(kind) for kind in PrincipalKind]
OTHERS_OF_OWNERS = [kind for kind in KINDS if kind != "owner"]
BY: dict[str, Any] = {"operator": "Ann"}


@dataclass
class Gate:
    """A server, a client of each kind, and what somebody else has there."""

    vault: Vault
    nobody: Client
    clients: dict[str, Client]
    operations: list[tuple[str, str, dict[str, Any]]]
    theirs: dict[str, str] = field(default_factory=dict)
    """What somebody else has, by the names of parts of paths."""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    home = tmp_path_factory.mktemp("permissions")
    with _vault(home) as vault, served(vault) as server:
        made = {kind: Client(server.url, vault.tokens.new(f"an-{kind}", **BY)) for kind in KINDS}
        nobody = Client(server.url)
        paths = nobody.ask("GET", "/v1/openapi.json").json["paths"]
        operations = [
            (method.upper(), path, told)
            for path, methods in paths.items()
            for method, told in methods.items()
        ]
        found = Gate(vault, nobody, made, operations)
        yannick = Client(server.url, vault.tokens.new("yannick", **BY))
        found.theirs = {"name": "yannick", "job": _job(yannick), "token": str(yannick.token)[4:12]}
        found.theirs["release"] = found.theirs["job"]
        program = "def f(rows):\n    return 1\n"
        approval = found.vault.program_registry.approve_source(program, "f", None, **BY)
        found.theirs["digest"] = approval.digest
        yield found


def _vault(home: Path) -> Vault:
    for name, held in ((OWN, ROWS), (THEIRS, OTHERS)):
        (home / f"{name}.csv").write_text("\n".join(["sex,age,ill", *held]) + "\n")
        (home / f"{name}.toml").write_text(SCHEMA)
    vault = create_vault(home / "clinic")
    for name in (OWN, THEIRS):
        vault.add(name, home / f"{name}.csv", home / f"{name}.toml", epsilon=8)
    vault.people.add("yannick", "permanent-staff", epsilon=6, population=THEIRS, **BY)
    for kind in KINDS:
        budget: dict[str, Any] = {} if kind == "owner" else {"epsilon": 6, "population": OWN}
        vault.people.add(f"an-{kind}", kind, **budget, **BY)
    return vault


def _job(client: Client) -> str:
    """A release of somebody else, for which they waited."""
    asked = {"dataset": THEIRS, "kind": "histogram", "columns": ["sex"], "epsilon": "0.1"}
    job = str(client.ask("POST", "/v1/publish", asked).json["job"])
    until = time.monotonic() + 60
    while client.ask("GET", f"/v1/jobs/{job}").json["state"] != "done":
        assert time.monotonic() < until
        time.sleep(0.05)
    return job


def filled(gate: Gate, path: str, told: dict[str, Any], whose: str) -> tuple[str, Any]:
    """A path and a body that could be sent, about what is the caller's, another's or nobody's."""

    def value(part: re.Match[str]) -> str:
        name = part[1]
        if "/datasets/" in path or name == "population":
            return whose
        if whose == THEIRS and name in gate.theirs:
            return gate.theirs[name]
        if name == "file":
            return "table.csv"
        return re.sub(r"[0-9a-z]", "0", gate.theirs.get(name, "nothing")) if whose == NONE else "a"

    body = told.get("requestBody", {}).get("content", {}).get("application/json", {})
    said = body.get("example", {}) if body else None
    if said is not None:
        said = {
            key: one.replace(OWN, whose) if key in {"sql", "dataset"} else one
            for key, one in said.items()
        }
    return re.sub(r"\{(\w+)\}", value, path), said


def names_a_thing(gate: Gate, path: str, told: dict[str, Any]) -> bool:
    """Whether a request can be about something that is the caller's or another's."""
    return filled(gate, path, told, THEIRS) != filled(gate, path, told, NONE)


def code(reply: Heard) -> str:
    return str(reply.json.get("code", "")) if reply.status >= 400 else ""


def test_every_door_is_in_the_document(gate: Gate) -> None:
    assert len(gate.operations) > 30
    closed = [path for _, path, told in gate.operations if told["security"]]
    assert all("/admin/" not in path or path in closed for _, path, _ in gate.operations)
    for _, path, told in gate.operations:
        owners = told.get("x-owner", False)
        assert owners == (told["security"] == [{"token": ["admin"]}]), path
        assert owners or "/admin/" not in path


def test_R39_whatever_is_wrong_with_a_token_the_reply_is_the_same(gate: Gate) -> None:
    tokens, people = gate.vault.tokens, gate.vault.people
    people.add("gone", "owner", **BY)
    gone = tokens.new("gone", **BY)
    people.expire("gone", **BY)
    expired, revoked = tokens.new("owner", expires="2020-01-01", **BY), tokens.new("owner", **BY)
    tokens.revoke(revoked, **BY)
    good = str(gate.clients["owner"].token)
    bad = [None, gone, expired, revoked, "", "sfu_", good[:-1], f"{good}x", "sfu_" + "a" * 51]
    for method, path, told in gate.operations:
        if not told["security"]:
            continue
        for whose in (OWN, THEIRS, NONE):
            where, body = filled(gate, path, told, whose)
            replies = {
                (reply.status, reply.body)
                for token in bad
                if token is not None or {} not in told["security"]
                for reply in [Client(gate.nobody.url, token).ask(method, where, body)]
            }
            if {} in told["security"]:  # where none is needed, one that is wrong is still refused
                assert [status for status, _ in replies] == [401], (method, path)
                continue
            asked = f"{where}?token={good}&access_token={good}"
            hidden = gate.nobody.ask(method, asked, body)
            assert replies == {(hidden.status, hidden.body)}, (method, path)
            assert hidden.status == 401


def test_R39_without_a_token_open_feeds_are_read_and_nothing_else(gate: Gate) -> None:
    open_ones = [(method, path) for method, path, told in gate.operations if {} in told["security"]]
    paths = ["/v1/feeds", "/v1/feeds/{name}.{ending}", "/v1/feeds/{name}"]
    assert open_ones == [("GET", path) for path in paths]
    assert gate.nobody.ask("GET", "/v1/feeds").json == {"feeds": []}
    nothing = gate.nobody.ask("GET", "/v1/feeds/never-was")
    assert (nothing.status, code(nothing)) == (404, "feed_unknown")


@pytest.mark.parametrize("kind", KINDS)
def test_every_route_does_what_the_table_of_rights_says(gate: Gate, kind: str) -> None:
    client, permitted = gate.clients[kind], PERMITTED[PrincipalKind(kind)]
    nothing = client.ask("GET", "/v1/nothing-of-this-name")
    assert nothing.status == 404
    for method, path, told in gate.operations:
        if kind == "owner" and (told.get("x-owner") or method == "DELETE"):
            continue  # which would change what the others are tested with: test_admin.py
        where, body = filled(gate, path, told, OWN)
        reply = client.ask(method, where, body)
        shape = told.get("x-shape")
        assert reply.status < 500, (method, path, reply.body)
        if told.get("x-owner") and kind != "owner":
            assert (reply.status, reply.body) == (404, nothing.body), (method, path)
        elif shape is not None and shape not in permitted:
            # Who may not send code has no token for it either, which is what is looked at first.
            scoped = told["security"] == [{"token": ["submit-code"]}]
            refused = "scope_missing" if scoped else "permission_missing"
            assert (reply.status, code(reply)) == (403, refused), (method, path)
        elif "{" not in path:
            assert reply.status not in {401, 403, 404}, (method, path, reply.body)
        check_unsaid(gate, kind, (where, body), reply)


@pytest.mark.parametrize("kind", OTHERS_OF_OWNERS)
def test_what_is_anothers_is_as_if_it_never_was(gate: Gate, kind: str) -> None:
    client, seen = gate.clients[kind], 0
    for method, path, told in gate.operations:
        if not names_a_thing(gate, path, told) or not told["security"]:
            continue
        replies = []
        for whose in (THEIRS, NONE):
            where, body = filled(gate, path, told, whose)
            reply = client.ask(method, where, body)
            assert reply.status in {403, 404, 422}, (method, path, whose, reply.body)
            text = reply.body.decode().replace(THEIRS, NONE)
            for name in gate.theirs:
                text = text.replace(where.rpartition("/")[2], name)
            replies.append((reply.status, text, sorted(reply.headers)))
            check_unsaid(gate, kind, (where, body), reply)
        assert replies[0] == replies[1], (method, path)
        seen += 1
    assert seen > 15


@pytest.mark.parametrize("kind", ["owner", "permanent-staff"])
def test_R39_a_token_for_less_does_less(gate: Gate, kind: str) -> None:
    before = gate.vault.ledger.verify().position
    narrow = Client(gate.nobody.url, gate.vault.tokens.new(f"an-{kind}", scopes="plan", **BY))
    for method, path, told in gate.operations:
        if not told["security"] or told["security"] == [{"token": ["plan"]}]:
            continue
        for whose in (OWN, THEIRS, NONE):
            where, body = filled(gate, path, told, whose)
            reply = narrow.ask(method, where, body)
            hidden = told.get("x-owner") and kind != "owner"
            expected = (404, "not_found") if hidden else (403, "scope_missing")
            assert (reply.status, code(reply)) == expected, (method, path)
    assert gate.vault.ledger.verify().position.seq == before.seq + 1  # the token itself


def test_the_matrix_notices_a_door_without_a_guard(gate: Gate) -> None:
    """A wrong twin: the owner's own view, given to somebody else, does not pass unsaid."""
    reply = gate.clients["owner"].ask("GET", "/v1/admin/principals")
    assert reply.status == 200
    with pytest.raises(AssertionError):
        check_unsaid(gate, "external", ("/v1/admin/principals", None), reply)


def check_unsaid(gate: Gate, kind: str, asked: tuple[str, Any], reply: Heard) -> None:
    """Nothing in a reply tells of other people, their data sets or tokens, but what was asked."""
    if kind == "owner":
        return
    said = f"{asked[0]} {asked[1]}"
    others = {f"an-{one}" for one in KINDS if one != kind}
    for word in {THEIRS, *gate.theirs.values(), *others}:
        found = re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", reply.body.decode("latin-1"))
        assert word in said or not found, (asked, word)
