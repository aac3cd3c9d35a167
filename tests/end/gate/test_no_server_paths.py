"""No reply tells where on the server anything lies, whatever fails there and whoever asks.

Each fault is one that an operator's machine may have. Under it every route of the gate and every
page of the console is asked, as each kind of principal and as nobody.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from argon2 import PasswordHasher
from tests.end.console.visitors import PASSWORD, Console, Visitor
from tests.end.gate.people_served import ROWS, SCHEMA

import sfumato
from sfumato.console import sign_in as passwords
from sfumato.console.app import PAGES
from sfumato.methods.local.rounds import new_round, store_file
from sfumato.server.serve import Listening
from sfumato.testing.servers import Client, Heard, served
from sfumato.vault.principals import PrincipalKind
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sfumato.methods.local.rounds import Round
    from sfumato.vault.vault import Vault

KINDS = [str(kind) for kind in PrincipalKind]
COUNT = "SELECT COUNT(*) AS n FROM people"
FIELDS = {
    "sql": COUNT,
    "epsilon": "0.1",
    "dataset": "people",
    "name": "new",
    "source": "gone.csv",
    "columns": "age",
    "kind": "histogram",
    "family": "publish",
    "k": "2",
}
"""What could stand in the fields of many forms of the console."""


def _remove_source(home: Path) -> None:
    (home / "people.csv").unlink()


def _make_source_a_folder(home: Path) -> None:
    (home / "people.csv").unlink()
    (home / "people.csv").mkdir()


def _break_source(home: Path) -> None:
    (home / "people.csv").write_bytes(b"sex,age\n\xff\xfe,,,,\n\x00")


def _move_columns(home: Path) -> None:
    (home / "people.csv").write_text("other\n1\n")


def _break_schema(home: Path) -> None:
    (home / "people.toml").write_text("[columns")


def _remove_schema(home: Path) -> None:
    (home / "people.toml").unlink()


def _break_configuration(home: Path) -> None:
    (home / "clinic" / "vault.toml").write_text("[[[")


def _break_ledger(home: Path) -> None:
    (home / "clinic" / "ledger.sqlite").write_bytes(b"no database at all" * 1000)


def _remove_head(home: Path) -> None:
    (home / "clinic.head").unlink()


def _break_console(home: Path) -> None:
    (home / "clinic" / "console.sqlite").write_bytes(b"no database at all" * 1000)


def _break_jobs(home: Path) -> None:
    (home / "clinic" / "jobs.sqlite").write_bytes(b"no database at all" * 1000)


def _remove_answers(home: Path) -> None:
    answers = home / "clinic" / "answers"
    for path in answers.iterdir():
        path.unlink()
    answers.rmdir()
    answers.write_text("a file")


def _break_surveys(home: Path) -> None:
    store_file(home / "clinic" / "surveys" / "smoking.toml").write_bytes(b"no database" * 1000)


def _break_data_folder(home: Path) -> None:
    (home / "data" / "connections.toml").write_text("[[[")


FAULTS: Mapping[str, Callable[[Path], None]] = {
    "none": lambda _home: None,
    "source removed": _remove_source,
    "source is a folder": _make_source_a_folder,
    "source is broken": _break_source,
    "source has other columns": _move_columns,
    "schema is broken": _break_schema,
    "schema removed": _remove_schema,
    "configuration is broken": _break_configuration,
    "ledger is broken": _break_ledger,
    "head removed": _remove_head,
    "console's store is broken": _break_console,
    "jobs' store is broken": _break_jobs,
    "answers cannot be noted": _remove_answers,
    "survey's store is broken": _break_surveys,
    "connections are broken": _break_data_folder,
}


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "hasher", lambda: quick)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder whose name nothing else has."""
    place = tmp_path / "where the server keeps it"
    (place / "data").mkdir(parents=True)
    return place


@pytest.fixture
def vault(home: Path) -> Iterator[Vault]:
    (home / "people.csv").write_text("\n".join(["sex,age,ill", *ROWS]) + "\n")
    (home / "people.toml").write_text(SCHEMA)
    (home / "data" / "broken.csv").write_bytes(b"age\n\xff\xfe\n")
    with create_vault(home / "clinic") as made:
        made.add("people", home / "people.csv", home / "people.toml", epsilon=8)
        for kind in KINDS:
            budget: dict[str, Any] = (
                {} if kind == "owner" else {"epsilon": 1, "population": "people"}
            )
            made.people.add(f"an-{kind}", kind, operator="Ann", **budget)
            hashed = passwords.hasher().hash(PASSWORD)
            assert made.logins.accept(made.logins.invite(f"an-{kind}"), hashed)
        yield made


@pytest.fixture
def asked(vault: Vault) -> Round:
    folder = vault.config.folder / "surveys"
    folder.mkdir()
    return new_round(folder / "smoking.toml", "Do you smoke?", ("yes", "no"), epsilon=1)


def _filled(path: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda part: names.get(part[1], "people"), path)


def _ask_gate(client: Client, names: Mapping[str, str]) -> Iterator[tuple[str, Heard]]:
    document = Client(client.url).ask("GET", "/v1/openapi.json").json["paths"]
    for path, methods in document.items():
        for method, told in methods.items():
            body = told.get("requestBody", {}).get("content", {}).get("application/json")
            sent = None if body is None else body.get("example", {})
            where = _filled(path, names)
            yield f"{method} {where}", client.ask(method.upper(), where, sent)
    for source in ("broken.csv", "gone.csv", "../people.csv", "/etc/passwd"):
        schema = {"table": "new", "columns": [{"name": "age", "kind": "integer"}]}
        added = {"name": "new", "source": source, "schema": schema, "epsilon": "1"}
        yield f"add {source}", client.ask("POST", "/v1/admin/datasets", added)


def _ask_jobs(client: Client) -> Iterator[tuple[str, Heard]]:
    """What comes of jobs that fail, once they have."""
    wanted: dict[str, dict[str, Any]] = {
        "publish": {"kind": "histogram", "columns": ["sex"], "epsilon": "0.1"},
        "anonymize": {"k": 2},
    }
    for family, asked in wanted.items():
        begun = client.ask("POST", f"/v1/{family}", {"dataset": "people", **asked})
        yield family, begun
        if begun.status != 202:
            continue
        until = time.monotonic() + 20
        while time.monotonic() < until:
            heard = client.ask("GET", f"/v1/jobs/{begun.json['job']}")
            if heard.status != 200 or heard.json["state"] not in {"waiting", "running"}:
                break
            time.sleep(0.05)
        yield f"job of {family}", heard


def _ask_console(visitor: Visitor, names: Mapping[str, str]) -> Iterator[tuple[str, Heard]]:
    word = _word(visitor)
    for page in PAGES:
        where = _filled(page.path, names)
        if page.method == "GET":
            yield f"GET {where}", visitor.get(where)
        elif "sign-out" not in where and "password" not in where:
            yield f"POST {where}", visitor.send(where, word=word, **FIELDS)


def _word(visitor: Visitor) -> str:
    """The word of a form, or one that is none where no page has any."""
    found = re.search(rb'name="form" value="([0-9a-f]{64})"', visitor.get("/console/ask").body)
    return "0" * 64 if found is None else found[1].decode()


QUICK = ("schema is broken", "ledger is broken")
"""Under these and two others every kind of reply was seen to name a place."""


@pytest.mark.parametrize(
    "fault", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in FAULTS]
)
def test_no_reply_names_a_place_of_the_server(
    vault: Vault, asked: Round, home: Path, fault: str
) -> None:
    listening = Listening(port=0, data=home / "data")
    with served(vault, listening=listening) as server:
        console = Console(vault, server.url, "")
        tokens = {kind: vault.tokens.new(f"an-{kind}", operator="Ann") for kind in KINDS}
        clients = {**{kind: Client(server.url, tokens[kind]) for kind in KINDS}}
        visitors = {kind: console.visitor(f"an-{kind}") for kind in KINDS}
        FAULTS[fault](home)
        names = {"round": asked.id}
        nobody = Client(server.url)
        heard = [
            (f"survey {path}", nobody.ask("GET", f"/survey/{asked.id}{path}"))
            for path in ("", "/results", "/round.toml")
        ]
        for kind in (*KINDS, "nobody"):
            client = clients.get(kind, nobody)
            visitor = visitors.get(kind, console.stranger())
            for name, reply in (
                *_ask_gate(client, names),
                *_ask_jobs(client),
                *_ask_console(visitor, names),
            ):
                heard.append((f"{kind}: {name}", reply))
    private = [str(home), str(Path(sfumato.__file__).parents[2]), sys.prefix, str(Path.home())]
    told = {
        where: reply.body.decode(errors="replace")
        for where, reply in heard
        if any(one in f"{reply.headers} {reply.body.decode(errors='replace')}" for one in private)
    }
    assert told == {}
    assert len(heard) > 300
