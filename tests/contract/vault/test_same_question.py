"""The same question at once: one charge, one answer, and the others get it for nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import opened_ledger, run_threads
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from sfumato.privacy.ledger.base import Ledger

ASKER = Path(__file__).with_name("asker.py")
VAULT = Path("vault")
SCHEMA = 'table = "t"\n[columns.x]\nkind = "integer"\nbounds = [0, 99]\nnullable = false\n'
SHARES = "".join(
    f'[principals.{name}.budgets.t]\nepsilon = "5"\n' for name in ("alice", "bob", "carol", "dora")
)
ASKERS, QUESTIONS = 8, 25


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x\n" + "7\n" * 1000)
    Path("t.toml").write_text(SCHEMA)
    create(VAULT)
    Registration(name="t", source="t.csv", schema=Path("t.toml"), epsilon=9).add_to(VAULT)
    configuration = VAULT / "vault.toml"
    configuration.write_text(configuration.read_text() + SHARES)
    return VAULT


def charges(ledger: Ledger) -> Counter[str]:
    """How often each account was charged."""
    records = [json.loads(entry.body) for entry in ledger.entries()]
    return Counter(name for one in records if one["kind"] == "charge" for name in one["charges"])


def kept_charges() -> Counter[str]:
    with closing(opened_ledger(VAULT)) as ledger:
        ledger.verify()
        return charges(ledger)


def ask_all(private: Any, said: list[tuple[int, object]], **options: object) -> None:
    for number in range(QUESTIONS):
        question = f"SELECT COUNT(*) AS n FROM t WHERE x > {number}"
        try:
            answer = private.query(question, epsilon="1/100", **options)
            said.append((number, (answer.charged, answer.table["n"][0].as_py())))
        except SfumatoError as error:
            said.append((number, error.code))


def check_said(said: list[tuple[int, Any]], *, paid: int, askers: int = ASKERS) -> None:
    """Everybody got the same answer to each question, and so many of them paid."""
    assert len(said) == askers * QUESTIONS
    assert all(isinstance(one, tuple) for _, one in said), Counter(map(str, said))
    for number in range(QUESTIONS):
        answers = [one for asked, one in said if asked == number]
        assert len({figure for _, figure in answers}) == 1
        assert sum(charged for charged, _ in answers) == paid


def test_F17_threads_of_one_process_in_memory() -> None:
    table = sf.read(_arrow(), sf.Schema("t", (_column(),)))
    private = sf.protect(table, epsilon=9)
    said: list[tuple[int, object]] = []
    run_threads(lambda _: ask_all(private, said), ASKERS)
    check_said(said, paid=1)
    session: Any = private._session
    assert charges(session.gatekeeper.ledger) == {"t": QUESTIONS}


def _arrow() -> Any:
    import pyarrow as pa

    return pa.table({"x": pa.array([7] * 1000, pa.int64())})


def _column() -> sf.Column:
    return sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(0, 99), nullable=False)


def test_F17_threads_of_one_process(vault: Path) -> None:
    said: list[tuple[int, object]] = []
    with sf.open(vault) as opened:
        run_threads(lambda _: ask_all(opened, said), ASKERS)
    check_said(said, paid=1)
    assert kept_charges() == {"t": QUESTIONS}
    assert not list((vault / "answers").glob("*.flight"))


def test_F17_principals_pay_their_own_once(vault: Path) -> None:
    names = ["alice", "bob", "carol", "dora"]
    said: list[tuple[int, object]] = []
    with sf.open(vault) as opened:
        run_threads(lambda one: ask_all(opened, said, principal=names[one % 4]), ASKERS)
    check_said(said, paid=4)
    assert kept_charges() == {
        "t": QUESTIONS,
        **{f"t/{name}": QUESTIONS for name in names},
    }


def test_L4_one_request_id_at_once(vault: Path) -> None:
    """The same id and question at once is one answer; the id for another question is refused."""
    said: list[object] = []
    with sf.open(vault) as opened:

        def ask(worker: int) -> None:
            question = f"SELECT COUNT(*) AS n FROM t WHERE x > {worker % 2}"
            try:
                answer = opened.query(question, epsilon="1/100", request_id="r1")
                said.append((worker % 2, answer.table["n"][0].as_py()))
            except SfumatoError as error:
                said.append(error.code)

        run_threads(ask, ASKERS)
    assert said.count("request_reused") == ASKERS // 2
    assert len(set(said)) == 2
    assert kept_charges() == {"t": 1}


def start(principal: str, count: int, stage: str = "", sign: str = "sign") -> Any:
    command = [sys.executable, str(ASKER), str(VAULT), principal, str(count), stage, sign]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(250)
@pytest.mark.parametrize("count", [3, pytest.param(ASKERS, marks=pytest.mark.slow)])
def test_F17_processes(vault: Path, count: int) -> None:
    assert vault.is_dir()
    askers = [start("owner", QUESTIONS) for _ in range(count)]
    for asker in askers:
        asker.stdin.write("go\n")
        asker.stdin.flush()
    said: list[tuple[int, Any]] = []
    for asker in askers:
        out, _ = asker.communicate()
        assert asker.returncode == 0
        for line in out.splitlines():
            number, charged, figure = line.split()
            assert charged in {"True", "False"}, line
            said.append((int(number), (charged == "True", figure)))
    check_said(said, paid=1, askers=count)
    assert kept_charges() == {"t": QUESTIONS}


LOST = {"drawn", "computed"}
"""Where the death of an asker loses its charge."""


STAGES = ("claimed", "reserved", "opened", "drawn", "computed", "stored")
BOTH = {"reserved", "drawn"}
"""Where one who pays for themselves waits in the fast set too: a charge kept, and one lost."""


@pytest.mark.parametrize(
    ("stage", "follower"),
    [
        *few_fast([(stage, "owner") for stage in STAGES], 2),
        *(
            pytest.param(stage, "bob", marks=() if stage in BOTH else pytest.mark.slow)
            for stage in STAGES
        ),
    ],
)
def test_L2_a_leader_is_killed_while_others_wait(vault: Path, stage: str, follower: str) -> None:
    leader = start("owner", 1, stage)
    leader.stdin.write("go\n")
    leader.stdin.flush()
    while not Path("sign").exists():
        time.sleep(0.005)
    said: list[Any] = []
    with sf.open(vault) as opened:

        def follow(worker: int) -> None:
            if worker == 0:  # the leader dies when the others have been waiting for a while
                time.sleep(0.3)
                assert stage == "stored" or not said
                os.kill(leader.pid, signal.SIGKILL)
                leader.communicate()
                return
            question = "SELECT COUNT(*) AS n FROM t WHERE x > 0"
            answer = opened.query(question, epsilon="1/100", principal=follower)
            said.append((answer.charged, answer.table["n"][0].as_py()))

        run_threads(follow, 5)
    assert len({figure for _, figure in said}) == 1
    counted = kept_charges()
    assert counted["t"] == (2 if stage in LOST else 1)
    if follower == "bob":
        assert counted["t/bob"] == 1
        assert sum(charged for charged, _ in said) == 1
    else:
        assert sum(charged for charged, _ in said) == (1 if stage in {*LOST, "claimed"} else 0)


@pytest.mark.parametrize("stage", ["reserved", "drawn"])
def test_L2_a_request_id_of_a_killed_asker(vault: Path, stage: str) -> None:
    """Before entropy the same id continues; after it, the id is lost for good."""
    script = ASKER.read_text().replace(
        "principal=principal)", 'principal=principal, request_id="r1")'
    )
    Path("asker.py").write_text(script)
    command = [sys.executable, "asker.py", str(vault), "owner", "1", stage, "sign"]
    leader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert leader.stdin is not None
    leader.stdin.write("go\n")
    leader.stdin.flush()
    while not Path("sign").exists():
        time.sleep(0.005)
    os.kill(leader.pid, signal.SIGKILL)
    leader.communicate()
    question = "SELECT COUNT(*) AS n FROM t WHERE x > 0"
    with sf.open(vault) as opened:
        if stage == "drawn":
            with pytest.raises(SfumatoError) as lost:
                opened.query(question, epsilon="1/100", request_id="r1")
            assert lost.value.code == "answer_lost"
        else:
            assert not opened.query(question, epsilon="1/100", request_id="r1").charged
    assert kept_charges() == {"t": 1}
