"""Every operation by every door: it works, is refused, finds bad input, and keeps others out.

Each cell of `docs/reference/doors.md` is a case here, or names the test that covers it. A new
operation fails the test until it says by `CALLS` what works and what is refused.
"""

from __future__ import annotations

import json
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
from argon2 import PasswordHasher
from tests.contract.doors.operation_cells import (
    ASPECTS,
    CALLS,
    DOORS,
    cells,
    covering_test,
    is_form,
    why_not,
)
from tests.end.console.visitors import PASSWORD, Console, Visitor

import sfumato as sf
from sfumato.cli.main import run
from sfumato.cli.operation_commands import _example_line
from sfumato.console import sign_in as passwords
from sfumato.console.owner.operation_forms import path_of
from sfumato.methods.local.rounds import new_round
from sfumato.methods.local.survey import Survey
from sfumato.operations.table import all_operations
from sfumato.server.serve import Listening
from sfumato.testing.servers import Client, served
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.operations.operation import Operation
    from sfumato.vault.vault import Vault

BY: dict[str, Any] = {"operator": "Ann"}
DONE = "done"
PEOPLE = """
table = "people"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
nullable = false
[columns.day]
role = "other"
kind = "date"
bounds = ["2025-01-01", "2025-12-31"]
nullable = false
"""
VISITS = """
table = "visits"
unit = { column = "patient", max_rows = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.cost]
kind = "integer"
bounds = [0, 99]
nullable = false
"""


@dataclass
class World:
    """A vault, a server before it, and what is there for each door to change."""

    vault: Vault
    url: str
    tokens: dict[str, str]
    console: Console
    names: dict[str, dict[str, str]] = field(default_factory=dict)
    visitors: dict[str, Visitor] = field(default_factory=dict)

    def visitor(self, name: str) -> Visitor:
        """Somebody who has signed in at the console once."""
        if name not in self.visitors:
            self.visitors[name] = self.console.visitor(name)
        return self.visitors[name]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("operations")
    days = "".join(f"{row % 90},2025-01-{1 + row % 28:02}\n" for row in range(400))
    (home / "people.csv").write_text(f"age,day\n{days}")
    (home / "people.toml").write_text(PEOPLE)
    (home / "visits.csv").write_text("patient,cost\n1042,3\n1042,5\n1043,7\n")
    (home / "visits.toml").write_text(VISITS)
    for number, door in enumerate(DOORS):
        (home / f"more-{door}.csv").write_text(f"age,day\n{number},2025-01-01\n{days}")
    (home / "agreed.csv").write_text("person,purpose,agreed\n1043,research,yes\n")
    (home / "members.csv").write_text("member\n" + "".join(f"{each}\n" for each in range(50)))
    (home / "monday.csv").write_text("member\n7\n9\n")
    (home / "one.py").write_text("def one(rows):\n    return 1\n")
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        _ask_people(home)
        patch.setattr(passwords, "hasher", lambda: quick)
        with create_vault(home / "clinic") as vault:
            _fill(vault, home)
            with served(vault, listening=Listening(port=0, data=home)) as server:
                tokens = {name: vault.tokens.new(name, **BY) for name in ("owner", "eve")}
                tokens["stranger"] = tokens["eve"][:-1] + "x"
                assert server.owner_link is not None
                console = Console(vault, server.url, server.owner_link)
                made = World(vault, server.url, tokens, console)
                made.names = {door: _names(vault, door) for door in DOORS}
                yield made


def _ask_people(home: Path) -> None:
    """A survey with answers, a counter, and where the ledger stands."""
    new_round(home / "mood.toml", "How are you?", ("well", "so so"), epsilon=1)
    Survey(home / "mood.toml").randomize(["well", "so so"]).save(home / "monday.jsonl")
    words = ["seen.pan", "--people", "members.csv", "--column", "member", "--epsilon", "1"]
    assert run(["pan", "new", *words]) == 0


def _fill(vault: Vault, home: Path) -> None:
    vault.add("people", home / "people.csv", home / "people.toml", epsilon=10)
    purposes = ["care", "research"]
    vault.add("visits", home / "visits.csv", home / "visits.toml", epsilon=9, purposes=purposes)
    for name in ("eve", "bob"):
        vault.people.add(name, "external", epsilon=1, population="people", **BY)
    for name in ("owner", "eve"):
        vault.logins.accept(vault.logins.invite(name), passwords.hasher().hash(PASSWORD))


def _names(vault: Vault, door: str) -> dict[str, str]:
    """What one door may change without being in the way of others."""
    vault.people.add(f"p-{door}", "external", epsilon=1, population="people", **BY)
    token = vault.tokens.new("bob", **BY)
    program = f"def {door}(rows):\n    return 1\n"
    approval = vault.program_registry.approve_source(program, door, None, **BY)
    vault.feed_registry.add(
        f"f-{door}",
        "SELECT COUNT(*) AS n FROM people",
        column="day",
        every="month",
        epsilon="0.01",
        **BY,
    )
    kind: dict[str, Any] = {"kind": "histogram", "columns": "age", "epsilon": "0.01"}
    job = vault.jobs.submit("publish", "people", request_id=f"job-{door}", **kind)
    done = vault.jobs.submit("publish", "people", request_id=f"done-{door}", **kind)
    vault.jobs.work()
    return {
        "door": door,
        "token": token[4:12],
        "digest": approval.digest,
        "job": job.id,
        "release": done.id,
    }


def filled(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Values in which a word such as `<door>` is replaced."""

    def value(given: Any) -> Any:
        if isinstance(given, str):
            for name, text in names.items():
                given = given.replace(f"<{name}>", text)
        return [value(each) for each in given] if isinstance(given, list) else given

    return {name: value(given) for name, given in values.items()}


def ask(world: World, door: str, operation: Operation, values: dict[str, Any], who: str) -> str:
    """Ask for an operation by a door: the code of the refusal, or that it was done."""
    if door == "command":
        return by_command(operation, values)
    if door in ("python", "client"):
        folder = world.vault.config.folder
        try:
            with (
                sf.open(folder)
                if door == "python"
                else sf.connect(world.url, world.tokens[who]) as vault
            ):
                vault._call(operation.request, **values)
        except sf.SfumatoError as refused:
            return refused.code
        return DONE
    if door == "http":
        return by_http(world, operation, values, who)
    return by_form(world, operation, values, who)


def by_command(operation: Operation, values: dict[str, Any]) -> str:
    known = {each.name for each in operation.fields}
    line = _example_line(operation, {name: one for name, one in values.items() if name in known})
    words = shlex.split(line)[1:]
    for name, value in values.items():
        words += [] if name in known else [f"--{name.replace('_', '-')}", str(value)]
    printed = TextIOWrapper(BytesIO(), write_through=True)
    with redirect_stdout(printed):
        status = run([*words, "--json"])
    if status == 0:
        return DONE
    return str(json.loads(printed.buffer.getvalue())["error"]["code"])


def by_http(world: World, operation: Operation, values: dict[str, Any], who: str) -> str:
    data = dict(values)
    in_path = {name: quote(str(data.pop(name, "-")), safe="") for name in operation.path_fields}
    path = "/v1" + operation.path.format(**in_path)
    body = data if operation.method == "POST" else None
    if body is None and data:
        path += "?" + urlencode(data)
    reply = Client(world.url, world.tokens[who]).ask(operation.method, path, body)
    assert reply.status < 500, reply.body
    return DONE if reply.status < 300 else str(reply.json["code"])


def by_form(world: World, operation: Operation, values: dict[str, Any], who: str) -> str:
    """The generated form; the pages that others have of their own are tested by themselves."""
    path, visitor = path_of(operation), world.visitor(who)
    if not is_form(operation):
        assert operation.page is not None
        reply = visitor.get(operation.page)
        return {200: DONE, 404: "not_found"}[reply.status]
    texts = {name: _typed(value) for name, value in values.items()}
    word = visitor.word(path) if who == "owner" else visitor.word("/console")
    reply = visitor.post(path, {"form": word, **texts})
    assert reply.status in (200, 404, 422), reply.body
    return {200: DONE, 404: "not_found", 422: "refused"}[reply.status]


def _typed(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


OPERATIONS = {operation.name: operation for operation in all_operations()}


@pytest.mark.parametrize(("name", "door"), cells("works"))
def test_it_works(world: World, name: str, door: str) -> None:
    operation = OPERATIONS[name]
    values = CALLS[name].values(door)
    assert ask(world, door, operation, filled(values, world.names[door]), "owner") == DONE


@pytest.mark.parametrize(("name", "door"), cells("refused"))
def test_it_is_refused(world: World, name: str, door: str) -> None:
    operation, call = OPERATIONS[name], CALLS[name]
    assert call.refused is not None
    values = filled({**call.values(door), **call.refused}, world.names[door])
    before = world.vault.ledger.verify().position
    code = ask(world, door, operation, values, "owner")
    assert code == ("refused" if door == "console" else call.code)
    assert world.vault.ledger.verify().position == before


@pytest.mark.parametrize(("name", "door"), cells("bad input"))
def test_bad_input_is_refused_by_its_field(world: World, name: str, door: str) -> None:
    """A field that is not there, and one that is missing."""
    operation, values = OPERATIONS[name], filled(CALLS[name].values(door), world.names[door])
    needed = {each.name for each in operation.fields if each.required}
    needed -= {*operation.path_fields} if door in ("http", "client") else set()
    without = {key: value for key, value in values.items() if key not in needed}
    before = world.vault.ledger.verify().position
    if door == "console":
        wrong = without if needed else {operation.fields[0].name: "?" * 300}
        assert ask(world, door, operation, wrong, "owner") == "refused"
    else:
        strange = ask(world, door, operation, {**values, "unheard": "x"}, "owner")
        assert strange == ("usage" if door == "command" else "option_unknown")
        if needed:
            missing = ask(world, door, operation, without, "owner")
            # The parser of commands finds options, requests find what comes one after another.
            assert missing in ({"usage"} if door == "command" else set()) | {"parameter_missing"}
    assert world.vault.ledger.verify().position == before


@pytest.mark.parametrize(("name", "door"), cells("permission"))
def test_others_are_kept_out(world: World, name: str, door: str) -> None:
    """What is the owner's is not there for others; for the rest a token must be good."""
    operation, values = OPERATIONS[name], filled(CALLS[name].values(door), world.names[door])
    before = world.vault.ledger.verify().position
    if operation.allowed.owner:
        code = ask(world, door, operation, values, "eve")
        assert code in ("not_found", "permission_missing")
    elif door == "console":
        path = operation.page or path_of(operation)
        reply = world.console.stranger().get(path)
        assert (reply.status, reply.headers["location"].partition("?")[0]) == (
            303,
            "/console/sign-in",
        )
    else:
        assert ask(world, door, operation, values, "stranger") == "token_refused"
    assert world.vault.ledger.verify().position == before


def test_a_job_is_cancelled_on_its_page(world: World) -> None:
    owner, asked = world.visitor("owner"), {"kind": "histogram", "columns": "age"}
    job = world.vault.jobs.submit("publish", "people", epsilon="0.01", **asked)
    assert owner.send(f"/console/jobs/{job.id}/cancel", "/console/jobs").status == 303
    assert world.vault.jobs.get(job).state in ("cancelled", "done")
    assert owner.send("/console/jobs/nothing/cancel", "/console/jobs").status == 404


def test_every_operation_has_its_calls() -> None:
    assert set(CALLS) == set(OPERATIONS)
    tests = {covering_test(each, door, aspect) for each in OPERATIONS.values() for door in DOORS
             for aspect in ASPECTS if why_not(each, door, aspect) is None}  # fmt: skip
    for test in tests:
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (Path(__file__).parents[3] / file).read_text(), test
