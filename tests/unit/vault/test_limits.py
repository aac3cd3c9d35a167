"""Limits on groups, bytes and stored bytes: refused before the charge, the same by every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato.errors import PolicyError, SfumatoError
from sfumato.methods.method import AnswerLimit
from sfumato.testing.servers import Client, served
from sfumato.vault.families import FAMILIES
from sfumato.vault.limits import MEBIBYTE, SMALL_BYTES, HeavyWork, PrincipalLimits, VaultLimits
from sfumato.vault.vault import create_vault, open_vault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.vault.answer import Answer
    from sfumato.vault.vault import Vault

SCHEMA = """\
table = "people"
[columns.a]
kind = "integer"
bounds = [0, 999]
nullable = false
[columns.b]
kind = "integer"
bounds = [0, 999]
nullable = false
[columns.c]
kind = "integer"
bounds = [0, 199]
nullable = false
[columns.town]
kind = "text"
nullable = false
"""
MILLION = "SELECT a, b, COUNT(*) AS n FROM people GROUP BY a, b"
MANY = "SELECT a, c, COUNT(*) AS n FROM people GROUP BY a, c"
THOUSAND = "SELECT a, COUNT(*) AS n FROM people GROUP BY a"
COUNT = "SELECT COUNT(*) AS n FROM people"
FEW = "CASE WHEN a < 3 THEN 'few' ELSE 'more' END"
TOWNS = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault whose people have a million declared groups; Ana and Bob may ask about them."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{n % 1000},{n * 7 % 1000},{n % 200},t{n % 20}" for n in range(4000)]
    Path("people.csv").write_text("\n".join(["a,b,c,town", *rows]) + "\n")
    Path("people.toml").write_text(SCHEMA)
    with create_vault("clinic") as vault:
        vault.add("people", "people.csv", "people.toml", epsilon=5, delta="1e-4")
        for name in ("ana", "bob"):
            vault.people.add(
                name,
                "permanent-staff",
                epsilon=2,
                delta="1e-4",
                population="people",
                operator="Ann",
            )
    return tmp_path / "clinic"


@pytest.fixture
def vault(folder: Path) -> Iterator[Vault]:
    with open_vault(folder) as opened:
        yield opened


def limit(folder: Path, *lines: str) -> None:
    path = folder / "vault.toml"
    path.write_text("\n".join([path.read_text(), "[limits]", *lines, ""]))


def refusal(vault: Vault, sql: str, who: str | None = "ana", **cost: Any) -> str:
    """The code of the refusal of a question, which costs and stores nothing."""
    before = [one.hash for one in vault.ledger.entries()], vault.ledger.stored_bytes()
    with pytest.raises(SfumatoError) as refused:
        vault.questions(principal=who).query(sql, **(cost or {"epsilon": "0.000001"}))
    assert ([one.hash for one in vault.ledger.entries()], vault.ledger.stored_bytes()) == before
    with pytest.raises(SfumatoError) as explained:
        vault.questions(principal=who).explain(sql, **(cost or {"epsilon": "0.000001"}))
    assert (explained.value.code, explained.value.message) == (
        refused.value.code,
        refused.value.message,
    )
    return refused.value.code


@pytest.mark.parametrize(("sql", "groups"), [(MILLION, "1,000,000"), (MANY, "200,000")])
def test_more_groups_than_allowed_are_refused_before_the_charge(
    vault: Vault, sql: str, groups: str
) -> None:
    assert refusal(vault, sql) == "answer_too_large"
    with pytest.raises(PolicyError, match=rf"{groups} groups.*'ana' may have 100,000"):
        vault.questions(principal="ana").query(sql, epsilon="0.1")
    assert vault.questions(principal="ana").query(THOUSAND, epsilon="0.1").charged


def test_an_owner_may_have_as_many_groups_as_there_are(vault: Vault) -> None:
    found = vault.questions().query(MANY, epsilon="0.1")
    assert found.table.num_rows == 200_000
    assert vault.verify()


def test_limits_are_the_owners_to_set_for_all_and_for_some(folder: Path, vault: Vault) -> None:
    limit(folder, "groups = 500", "[limits.principals.bob]", "groups = 1000")
    vault.refresh()
    assert refusal(vault, THOUSAND) == "answer_too_large"
    assert vault.questions(principal="bob").query(THOUSAND, epsilon="0.1").charged


@pytest.mark.parametrize(
    "lines", [["groups = 0"], ["answer_mebibytes = 'much'"], ["mebibytes = 3"], ["principals = 1"]]
)
def test_limits_that_make_no_sense_are_refused(folder: Path, lines: list[str]) -> None:
    limit(folder, *lines)
    with pytest.raises(SfumatoError, match=r"vault\.toml, line \d+"):
        open_vault(folder)


def test_an_answer_of_too_many_bytes_is_refused_before_the_charge(
    folder: Path, vault: Vault
) -> None:
    limit(folder, "groups = 100000", "answer_mebibytes = 1")
    vault.refresh()
    long = f"SELECT a, CASE WHEN COUNT(*) > 1 THEN '{'x' * 9000}' ELSE '' END AS t FROM people "
    assert refusal(vault, f"{long} GROUP BY a") == "answer_too_large"
    figures = ", ".join(f"SUM(CASE WHEN b > {n} THEN b ELSE 0 END) AS s{n}" for n in range(20))
    assert refusal(vault, f"SELECT a, {figures} FROM people GROUP BY a") == "answer_too_large"
    assert vault.questions(principal="ana").query(THOUSAND, epsilon="0.1").charged


def test_no_stored_answer_is_larger_than_its_bound(vault: Vault) -> None:
    """The bound is what limits are checked by: it must hold for every form of answer."""
    asked = (
        THOUSAND,
        "SELECT a, COUNT(*) AS n, AVG(b) AS m, STDDEV(b) AS s FROM people GROUP BY a",
        "SELECT a, COUNT(*) / SUM(COUNT(*)) OVER () AS p, COUNT(*) * 2 AS c FROM people GROUP BY a",
        "SELECT c, COUNT(*) AS n, MEDIAN(a) AS m FROM people GROUP BY ROLLUP(c)",
        f"SELECT {FEW} AS t, c, COUNT(*) AS n FROM people GROUP BY {FEW}, c",
        "SELECT a, CASE WHEN COUNT(*) > 1 THEN 'äöü' ELSE 'x' END AS t FROM people GROUP BY a",
    )
    overhead = 4096  # what every answer says besides its rows
    before = 0
    for sql in asked:
        questions = vault.questions(principal="ana")
        prepared = questions.prepare(FAMILIES["query"], asked=sql, epsilon="0.01")
        questions.query(sql, epsilon="0.01")
        stored = vault.ledger.stored_bytes()["ana"]
        size = prepared.answer_size
        assert size is not None
        assert size.groups >= 200
        assert stored - before <= size.bytes + overhead
        before = stored


def test_what_a_principal_may_store_is_limited_and_stays_readable(
    folder: Path, vault: Vault
) -> None:
    limit(folder, "answer_mebibytes = 1", "stored_mebibytes = 1")
    vault.refresh()
    ana = vault.questions(principal="ana")
    answers: list[Answer] = []
    with pytest.raises(PolicyError) as full:
        while len(answers) < 200:
            answers.append(ana.query(THOUSAND, epsilon=f"0.0001{len(answers):03}"))
    assert full.value.code == "storage_full"
    assert len(answers) > 3
    last = f"0.0001{len(answers) - 1:03}"
    assert vault.ledger.stored_bytes()["ana"] <= MEBIBYTE
    assert refusal(vault, THOUSAND, epsilon="0.5") == "storage_full"
    again = ana.query(THOUSAND, epsilon=last)
    assert (again.charged, again.table) == (False, answers[-1].table)
    assert ana.explain(THOUSAND, epsilon=last).cost
    assert vault.questions(principal="bob").query(THOUSAND, epsilon="0.1").charged
    assert vault.questions().query(THOUSAND, epsilon="0.2").charged


def test_what_a_vault_stores_is_limited_for_everybody(folder: Path, vault: Vault) -> None:
    limit(folder, "answer_mebibytes = 1", "vault_mebibytes = 1")
    vault.refresh()
    with pytest.raises(PolicyError) as full:
        for number in range(200):
            vault.questions().query(THOUSAND, epsilon=f"0.0001{number:03}")
    assert full.value.code == "storage_full"
    for who in ("ana", None):
        assert refusal(vault, THOUSAND, who, epsilon="0.5") == "storage_full"


def test_jobs_are_refused_by_the_same_limits_when_they_are_submitted(
    folder: Path, vault: Vault
) -> None:
    asked: dict[str, Any] = {"kind": "histogram", "columns": ["a", "c"], "epsilon": "0.1"}
    with pytest.raises(PolicyError, match="200,000 groups"):
        vault.jobs.submit("publish", "people", principal="ana", **asked)
    sets: dict[str, Any] = {
        "kind": "marginals",
        "columns": ["a", "c", "b"],
        "epsilon": "0.1",
        "way": 2,
    }
    with pytest.raises(PolicyError, match="groups"):
        vault.jobs.submit("publish", "people", principal="ana", **sets)
    with pytest.raises(PolicyError) as refused:
        vault.jobs.submit(
            "synthesize", "people", principal="ana", columns=["a"], rows=10**7, epsilon="0.1"
        )
    assert refused.value.code == "answer_too_large"
    limit(folder, "answer_mebibytes = 3", "stored_mebibytes = 2")
    vault.refresh()
    with pytest.raises(PolicyError) as full:
        vault.jobs.submit("publish", "people", principal="ana", kind="tree", columns=["a"])
    assert full.value.code == "storage_full"
    assert vault.ledger.stored_bytes() == {}


def test_what_jobs_and_feeds_store_is_counted(vault: Vault) -> None:
    vault.private("people", principal="ana").publish("histogram", columns="c", epsilon="0.1")
    assert vault.ledger.stored_bytes()["ana"] > 200 * 8


def test_observed_groups_are_shown_up_to_a_public_cap(folder: Path, vault: Vault) -> None:
    cost: dict[str, Any] = {"epsilon": "1", "delta": "1e-5"}
    everything = vault.questions().query(TOWNS, **cost)
    assert everything.table.num_rows == 20
    limit(folder, "groups = 7")
    vault.refresh()
    ana = vault.questions(principal="ana")
    shown = ana.query(TOWNS, **{**cost, "epsilon": "0.9"})
    assert shown.table.num_rows == 7
    assert "at most 7 are shown" in " ".join(shown.to_json()["notes"])
    assert "at most 7 are shown" in " ".join(ana.explain(TOWNS, **cost).notes)


@pytest.mark.parametrize(
    ("sql", "cost", "is_heavy"),
    [
        pytest.param(TOWNS, {"epsilon": "1", "delta": "1e-5"}, True, id="groups"),
        pytest.param("SELECT MEDIAN(a * b) AS m FROM people", {"epsilon": "1"}, True, id="values"),
        pytest.param("SELECT c, MEDIAN(a) AS m FROM people GROUP BY c", {"epsilon": "1"}, True,
                     id="values of groups"),
        pytest.param("SELECT MEDIAN(a) AS m FROM people", {"epsilon": "1"}, False, id="few"),
        pytest.param(COUNT, {"epsilon": "1"}, False, id="one"),
    ],
)  # fmt: skip
def test_what_may_occur_in_the_data_is_heavy_work(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, sql: str, cost: dict[str, Any], is_heavy: bool
) -> None:
    """All groups and values that rows may have are read before noise: how many is not public."""
    weights: list[int] = []
    room = HeavyWork.room

    def weighed(heavy: HeavyWork, weight: int, *given: Any) -> Any:
        weights.append(weight)
        return room(heavy, weight, *given)

    monkeypatch.setattr(HeavyWork, "room", weighed)
    vault.questions(principal="ana").query(sql, **cost)
    assert (max(weights) > SMALL_BYTES) == is_heavy


def test_observed_texts_of_a_long_declared_length_stay_within_the_bytes_of_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_limit = AnswerLimit(groups=100_000, bytes=MEBIBYTE)
    monkeypatch.setattr(VaultLimits, "of_answer", lambda *_: answer_limit)
    town = sf.Column("town", sf.Kind.TEXT, length=60_000, nullable=False)
    rows = [{"town": letter * 60_000} for letter in "abcdefghijklmnopqrstuvwx" for _ in range(60)]
    private = sf.protect(rows, sf.Schema("people", (town,)), unit=sf.Rows(), epsilon=5, delta="0.1")
    answer = private.query(TOWNS, epsilon=4, delta="0.05")
    assert 0 < answer.table.nbytes <= MEBIBYTE


def test_a_question_has_a_deadline_unless_its_owner_says_otherwise(
    folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.vault.limits.QUESTION_SECONDS", 1e-6)
    with pytest.raises(SfumatoError) as late:
        vault.questions(principal="ana").query(COUNT, epsilon="0.1")
    assert late.value.code in ("data_unreachable", "answer_failed")
    job = vault.private("people", principal="ana").publish("tree", columns="c", epsilon="0.1")
    assert job.charged
    path = folder / "vault.toml"
    path.write_text(path.read_text().replace("# deadline_seconds = 600", "deadline_seconds = 0"))
    vault.refresh()
    assert vault.questions(principal="ana").query(COUNT, epsilon="0.2").charged


def test_a_server_tells_explain_and_query_the_same_and_charges_nothing(vault: Vault) -> None:
    token = vault.tokens.new("ana", operator="Ann")
    seq = vault.ledger.verify().position.seq
    with served(vault) as server:
        client = Client(server.url, token)
        body = {"sql": MILLION, "epsilon": "0.000000001"}
        replies = [client.ask("POST", f"/v1/{door}", body) for door in ("explain", "query")]
        assert [one.status for one in replies] == [403, 403]
        assert replies[0].json == replies[1].json
        assert "100,000 in one answer" in replies[0].json["detail"]
        assert client.ask("POST", "/v1/query", {"sql": COUNT, "epsilon": "0.1"}).status == 200
        with sf.connect(server.url, token=token) as remote, pytest.raises(PolicyError) as refused:
            remote.questions().explain(MILLION, epsilon="0.1")
    assert refused.value.code == "answer_too_large"
    assert vault.ledger.verify().position.seq == seq + 2


def test_large_answers_lie_beside_the_ledger_and_are_files_in_use(
    folder: Path, vault: Vault
) -> None:
    answer = vault.questions(principal="ana").query(
        THOUSAND.replace("COUNT(*) AS n", "COUNT(*) AS n, AVG(b) AS m, AVG(c) AS k"), epsilon="0.1"
    )
    (file,) = (one for one in (folder / "ledger.sqlite.large").glob("*") if one.is_file())
    entries = [json.loads(one.body) for one in vault.ledger.entries()]
    assert [one["digest"] for one in entries if one["kind"] == "answer"] == [file.name]
    with pytest.raises(SfumatoError, match="in use"):
        answer.save(file.parent / "mine.parquet")


@pytest.mark.parametrize("request_id", [None, "mine"])
def test_a_lost_file_is_never_drawn_again_for_nothing(
    folder: Path, vault: Vault, request_id: str | None
) -> None:
    sql = THOUSAND.replace("COUNT(*) AS n", "COUNT(*) AS n, AVG(b) AS m, AVG(c) AS k")
    ana = vault.questions(principal="ana")
    first = ana.query(sql, epsilon="0.1", request_id=request_id)
    (file,) = (one for one in (folder / "ledger.sqlite.large").glob("*") if one.is_file())
    kept = file.read_bytes()
    file.write_bytes(kept.replace(b"n", b"m", 1))
    if request_id is not None:
        with pytest.raises(SfumatoError) as lost:
            ana.query(sql, epsilon="0.1", request_id=request_id)
        assert lost.value.code == "answer_lost"
        file.write_bytes(kept)
        assert ana.query(sql, epsilon="0.1", request_id=request_id).table == first.table
        return
    second = ana.query(sql, epsilon="0.1")
    assert second.charged
    assert second.remaining["epsilon"] == pytest.approx(first.remaining["epsilon"] - 0.1)


def test_defaults_are_said_in_the_guide() -> None:
    told = (Path(__file__).parents[3] / "docs/guide/vault.md").read_text()
    usual, whole = PrincipalLimits(), VaultLimits().vault_mebibytes
    for line in (
        f"groups = {usual.groups} ",
        f"answer_mebibytes = {usual.answer_mebibytes} ",
        f"stored_mebibytes = {usual.stored_mebibytes} ",
        f"vault_mebibytes = {whole} ",
    ):
        assert line in told


def test_the_answer_of_a_program_is_as_large_as_its_outputs(vault: Vault) -> None:
    asked: dict[str, Any] = {"program": "def f(rows):\n    return 1", "language": "starlark"}
    outputs = [{"low": 0, "high": 1}] * 3
    ana = vault.private("people", principal="ana")
    prepared = ana.prepare(
        FAMILIES["run"], **asked, function="f", output=outputs, blocks=5, epsilon="0.1"
    )
    size = prepared.answer_size
    assert size is not None
    assert (size.groups, size.work) == (3, 0)
    assert 0 < size.bytes < 2000
