"""What changes, breaks off or comes at once, between a client and a server: nothing costs twice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection, RemoteDisconnected
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.contract.doors.alike import assert_alike
from tests.contract.doors.conftest import LOCAL, PEOPLE, REMOTE, Doors, make_vault, people

import sfumato as sf
from sfumato.client import connection as connecting
from sfumato.client import jobs as waiting
from sfumato.client import session as asking
from sfumato.errors import BudgetError, ParameterError, SfumatoError
from sfumato.testing.servers import served

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_PAUSES", (0.0,) * 5)


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A vault of its own, whose owner changes what is declared."""
    with make_vault(tmp_path_factory.mktemp("changing")) as vault, served(vault) as server:
        yield Doors(vault, server.url, {"owner": vault.tokens.new("owner", operator="root")})


def charges(doors: Doors) -> int:
    """How many charges the ledger has."""
    kinds = [json.loads(entry.body)["kind"] for entry in doors.vault.ledger.entries()]
    return kinds.count("charge")


def test_what_is_declared_otherwise_is_refused_once_and_costs_nothing(changing: Doors) -> None:
    with changing.open(REMOTE) as remote:
        planned = remote.private("people").plan("histogram", columns="age", epsilon=0.1)
        [file] = changing.vault.config.folder.glob("people*.toml")
        declared = file.read_text()
        assert "[0, 110]" in declared
        time.sleep(0.01)
        file.write_text(declared.replace("[0, 110]", "[0, 111]"))
        configuration = changing.vault.config.folder / "vault.toml"
        configuration.write_text(configuration.read_text() + "\n# looked at\n")
        before = charges(changing)
        private = remote.private("people")
        for ask in (private.publish_planned, private.left_after):
            with pytest.raises(ParameterError) as refused:
                ask(planned)
            assert refused.value.code == "plan_changed"
        assert charges(changing) == before
        assert remote.publish("histogram", "people", columns="age", epsilon=0.1).charged
        assert charges(changing) == before + 1


def test_a_budget_that_grew_does_not_make_a_question_dearer_than_it_was_told(
    changing: Doors,
) -> None:
    with changing.open(REMOTE) as remote:
        assert remote.explain(COUNT).to_json()["cost"]["epsilon"] == "1"
        changing.vault.limit("people", epsilon=8, delta="1e-6", operator="root")
        before = charges(changing)
        with pytest.raises(ParameterError) as refused:
            remote.query(COUNT)
        assert refused.value.code == "plan_changed"
        assert charges(changing) == before
        assert remote.query(COUNT).cost == {"epsilon": 0.8}


def test_a_purpose_is_named_by_both_doors(changing: Doors) -> None:
    vault = changing.vault
    source = vault.config.folder.parent / "asked.parquet"
    pq.write_table(people().slice(0, 300), source)
    vault.add("asked", source, PEOPLE, epsilon=5, purposes=["care", "research"])
    for person in range(20):
        vault.consent("asked").give(person, "care")
    sql = "SELECT COUNT(*) AS n FROM asked"
    with changing.open(REMOTE) as remote, changing.open(LOCAL) as local:
        assert remote.purposes("asked") == local.purposes("asked") == ("care", "research")
        before = charges(changing)
        for wrong, code in ((None, "parameter_missing"), ("car", "purpose_unknown")):
            told = []
            for door in (local, remote):
                for ask in (
                    partial(door.query, sql, epsilon=1),
                    partial(door.publish, "histogram", "asked", columns="city", epsilon=1),
                ):
                    with pytest.raises(SfumatoError) as refused:
                        ask(purpose=wrong)
                    told.append((type(refused.value), refused.value.code, str(refused.value)))
            assert told[:2] == told[2:]
            assert {one for _, one, _ in told} == {code}
        assert charges(changing) == before
        fresh = remote.query(sql, epsilon=1, purpose="care")
        assert_alike(fresh, local.query(sql, epsilon=1, purpose="care"))
        assert abs(fresh.table["n"][0].as_py() - 20) < 50, "who was not asked is not counted"
        made = remote.publish("histogram", "asked", columns="city", epsilon=1, purpose="care")
        again = local.publish("histogram", "asked", columns="city", epsilon=1, purpose="care")
        assert_alike(made, again)


def test_client_and_server_that_plan_otherwise_refuse_one_another(
    doors: Doors, remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "plan_digest", lambda _: "0" * 64)
    before = charges(doors)
    with pytest.raises(ParameterError) as refused:
        remote.query(COUNT, epsilon=0.1)
    with pytest.raises(ParameterError) as refused_job:
        remote.publish("histogram", "people", columns="age", epsilon=0.1)
    assert refused.value.code == refused_job.value.code == "plan_changed"
    assert charges(doors) == before


@pytest.mark.parametrize("ask", ["query", "publish"])
def test_an_answer_that_got_lost_is_charged_once(
    doors: Doors, remote: Any, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    asked = {
        "query": lambda: remote.query(f"{COUNT} WHERE age > 7", epsilon=0.1),
        "publish": lambda: remote.publish("histogram", "people", columns="city", epsilon=0.1),
    }
    whole, lost = HTTPConnection.getresponse, list[int]()

    def broken(self: HTTPConnection) -> Any:
        received = whole(self)
        if len(lost) < 2 and self.path_asked.endswith(ask):  # type: ignore[attr-defined]
            received.read()
            lost.append(received.status)
            raise RemoteDisconnected("lost")
        return received

    sent = HTTPConnection.request

    def noted(self: HTTPConnection, method: str, url: str, *rest: Any, **more: Any) -> None:
        self.path_asked = url  # type: ignore[attr-defined]
        sent(self, method, url, *rest, **more)

    monkeypatch.setattr(HTTPConnection, "getresponse", broken)
    monkeypatch.setattr(HTTPConnection, "request", noted)
    before = charges(doors)
    assert asked[ask]().charged, "by the attempt that nobody heard of"
    assert len(lost) == 2, "it was worked on, twice, and nobody heard of it"
    assert charges(doors) == before + 1
    assert not asked[ask]().charged


def test_a_name_that_was_given_is_paid_for_once_however_it_gets_lost(
    doors: Doors, remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> Any:
        return remote.query(f"{COUNT} WHERE age > 8", epsilon=0.1, request_id="mine")

    assert ask().charged
    lose_one(monkeypatch)
    before = charges(doors)
    assert not ask().charged, "it was paid by a call before"
    assert charges(doors) == before


def lose_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next answer get lost."""
    whole, lost = HTTPConnection.getresponse, list[int]()

    def broken(self: HTTPConnection) -> Any:
        received = whole(self)
        if not lost:
            lost.append(received.status)
            raise RemoteDisconnected("lost")
        return received

    monkeypatch.setattr(HTTPConnection, "getresponse", broken)


def test_who_stops_waiting_gets_the_answer_later(
    doors: Doors, remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    asked: dict[str, Any] = {"columns": "smoker", "epsilon": 0.1, "request_id": "later"}
    before = charges(doors)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(waiting, "quote", interrupted)
        remote.publish("histogram", "people", **asked)
    assert remote.publish("histogram", "people", **asked).tables
    assert charges(doors) == before + 1
    with pytest.raises(SfumatoError) as refused:
        remote.publish("histogram", "people", **{**asked, "columns": "city"})
    assert refused.value.code == "request_reused"


def test_a_job_that_was_cancelled_says_so(
    doors: Doors, remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[str] = []

    def cancelled(told: dict[str, Any], name: str) -> str:
        if name == "job":
            submitted.append(told[name])
            doors.vault.jobs.cancel(told[name])
        found: str = told[name]
        return found

    doors.vault.jobs.stop()
    try:
        monkeypatch.setattr(waiting, "_text", cancelled)
        with pytest.raises(SfumatoError) as refused:
            remote.publish("histogram", "people", columns="born", epsilon=0.1)
    finally:
        doors.vault.jobs.start(2)
    assert submitted
    assert refused.value.code == "job_cancelled"


def test_a_job_is_refused_as_a_call_would_be(local: Any, remote: Any) -> None:
    told = []
    for vault in (local, remote):
        with pytest.raises(BudgetError) as refused:
            vault.publish("histogram", "people", columns="income", epsilon=10)
        told.append((refused.value.code, str(refused.value)))
    assert told[0] == told[1]


def test_many_threads_ask_one_client(doors: Doors, remote: Any) -> None:
    before = charges(doors)
    same = f"{COUNT} WHERE age > 70"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: remote.query(same, epsilon=0.1), range(16)))
    assert len({one.receipt for one in answers}) == 1
    assert charges(doors) == before + 1
    # Who waits for the same question while it is answered may hear either.
    assert sum(one.charged for one in answers) == 1


def test_a_token_that_was_revoked_ends_at_once(doors: Doors) -> None:
    token = doors.vault.tokens.new("ann", operator="root")
    with sf.connect(doors.url, token) as remote:
        assert remote.query(COUNT, epsilon=0.1).tables
        doors.vault.tokens.revoke(token, operator="root")
        for ask in (
            lambda: remote.query(COUNT, epsilon=0.1),
            lambda: remote.explain(COUNT, epsilon=0.1),
            remote.accounts,
        ):
            with pytest.raises(SfumatoError) as refused:
                ask()
            assert refused.value.code == "token_refused"
            assert token not in str(refused.value)
    with pytest.raises(SfumatoError) as refused:
        sf.connect(doors.url, token)
    assert refused.value.code == "token_refused"


def test_a_scope_that_is_missing_is_told(doors: Doors) -> None:
    token = doors.vault.tokens.new("owner", operator="root", scopes="plan")
    with sf.connect(doors.url, token) as remote:
        assert remote.explain(COUNT, epsilon=0.1).text()
        with pytest.raises(SfumatoError) as refused:
            remote.query(COUNT, epsilon=0.1)
    assert refused.value.code == "scope_missing"


def test_a_client_needs_nothing_of_a_server(doors: Doors) -> None:
    script = f"""
import sys
sys.modules.update(dict.fromkeys(("starlette", "uvicorn", "httptools"), None))
import sfumato as sf
with sf.connect({doors.url!r}, {doors.tokens["owner"]!r}) as vault:
    print(vault.query({COUNT!r}, epsilon=0.1).table.num_rows)
    print(len(vault.publish("histogram", "people", columns="city", epsilon=0.1).tables))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "1"]
    assert done.stderr == ""
