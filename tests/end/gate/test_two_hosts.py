"""Two servers on one PostgreSQL ledger: never more than the budget, and any notices a rollback."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.end.gate.people_served import OTHERS, SCHEMA

from sfumato.cli.main import run
from sfumato.errors import ParameterError, RolledBackError
from sfumato.testing.servers import Client, served
from sfumato.vault.creation import join, positions
from sfumato.vault.vault import create_vault, open_vault

psycopg = pytest.importorskip("psycopg")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

pytestmark = pytest.mark.postgres
COMMAND = [sys.executable, "-c", "from sfumato.cli import main; main()"]


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    name = f"hosts_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield postgres_url.replace("/postgres?", f"/{name}?", 1)
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def hosts(tmp_path: Path, database: str) -> tuple[Path, Path]:
    """Two hosts, each with the data, the vault's folder and a head of its own."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    (one / "people.csv").write_text("\n".join(["sex,age,ill", *OTHERS]) + "\n")
    (one / "people.toml").write_text(SCHEMA)
    with create_vault(one / "clinic", ledger=database) as vault:
        vault.add("people", one / "people.csv", one / "people.toml", epsilon=1)
    shutil.copytree(one, two, ignore=shutil.ignore_patterns("*.head"))
    told = tmp_path / "head.json"
    told.write_text(json.dumps(positions(one / "clinic")))
    join(two / "clinic", told)
    return one / "clinic", two / "clinic"


@contextmanager
def in_a_process(vault: Path) -> Iterator[str]:
    words = [*COMMAND, "serve", "--json", "--port", "0", "--vault", str(vault)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


@contextmanager
def in_a_thread(vault: Path) -> Iterator[str]:
    with open_vault(vault) as opened, served(opened) as server:
        yield server.url


@pytest.mark.parametrize(
    "serving", [in_a_thread, pytest.param(in_a_process, marks=pytest.mark.slow)]
)
def test_two_servers_never_overspend(
    hosts: tuple[Path, Path], serving: Callable[[Path], AbstractContextManager[str]]
) -> None:
    with open_vault(hosts[0]) as vault:
        token = vault.tokens.new("owner", operator="Ann")
    with ExitStack() as stack, ThreadPoolExecutor(8) as threads:
        clients = [Client(stack.enter_context(serving(one)), token) for one in hosts]

        def ask(number: int) -> Any:
            sql = f"SELECT COUNT(*) FROM people WHERE age < {number}"
            return clients[number % 2].ask("POST", "/v1/query", {"sql": sql, "epsilon": "0.05"})

        replies = list(threads.map(ask, range(40)))
        assert [one.status for one in replies].count(200) == 20  # all of the budget, no more
        assert {one.json["code"] for one in replies if one.status != 200} == {"budget_exhausted"}
        told = [one.ask("GET", "/v1/ledger").json for one in clients]
        assert told[0] == told[1]
        revoked = clients[1].ask("GET", "/v1/ledger")
        assert revoked.status == 200
        with open_vault(hosts[0]) as vault:
            for held in vault.tokens.list():
                vault.tokens.revoke(held.id, operator="Ann")
        assert [one.ask("GET", "/v1/ledger").status for one in clients] == [401, 401]


def test_a_rollback_is_noticed_by_whichever_host_saw_more(
    hosts: tuple[Path, Path], database: str
) -> None:
    one, two = hosts
    with open_vault(one) as vault:
        vault.query("SELECT COUNT(*) FROM people", epsilon="0.1")
    with open_vault(two) as vault:
        assert vault.accounts()[0]["remaining"]["epsilon"] <= 0.9
        vault.query("SELECT COUNT(*) FROM people WHERE age < 9", epsilon="0.1")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE sfumato_entries DISABLE TRIGGER ALL")
        last = "seq = (SELECT MAX(seq) FROM sfumato_entries)"
        connection.execute(f"DELETE FROM sfumato_entries WHERE {last}")
    with open_vault(one) as vault:  # has seen no more than there is
        vault.accounts()
    with pytest.raises(RolledBackError):
        open_vault(two)


def test_a_host_joins_once_and_only_where_another_stands(
    hosts: tuple[Path, Path], tmp_path: Path
) -> None:
    one, two = hosts
    with open_vault(one) as vault:
        vault.query("SELECT COUNT(*) FROM people", epsilon="0.1")
    told = tmp_path / "later.json"
    told.write_text(json.dumps(positions(one)))
    with pytest.raises(ParameterError) as begun:
        join(two, told)
    assert begun.value.code == "ledger_taken"
    head = two.with_name("clinic.head")
    head.unlink()
    with pytest.raises(RolledBackError):
        open_vault(two)
    head.unlink()
    told.write_text(json.dumps({"ledger": f"3:{'0' * 64}"}))
    with pytest.raises(RolledBackError) as refused:
        join(two, told)
    assert refused.value.code == "head_not_held"
    assert not head.exists()  # it may still join


def test_the_command_tells_and_joins(
    hosts: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ledger", "head", "--vault", str(hosts[0])]) == 0
    told = capsys.readouterr().out
    assert json.loads(told) == positions(hosts[0])
    (tmp_path / "head.json").write_text(told)
    join_again = ["ledger", "join", "--vault", str(hosts[1]), "--head"]
    # The same position again, or one that has moved.
    assert run([*join_again, str(tmp_path / "head.json")]) in (0, 2)
