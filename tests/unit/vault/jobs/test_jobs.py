"""Jobs of a vault: charged once, whatever happens on the way, and nobody's but one's own."""

from __future__ import annotations

import threading
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.errors import LedgerError, SourceError
from sfumato.vault.datastore import DataStore
from sfumato.vault.gatekeeper import Gatekeeper
from sfumato.vault.jobs import jobs as jobs_module
from sfumato.vault.jobs.job import JobState, plain_values
from sfumato.vault.jobs.jobs import Jobs
from sfumato.vault.jobs.store import JobStore

if TYPE_CHECKING:
    from collections.abc import Callable

ASKED: dict[str, Any] = {"kind": "histogram", "columns": ["city"], "epsilon": 0.5}


class Killed(BaseException):
    """What ends a thread where a machine would have ended the process."""


def spent(vault: sf.Vault, principal: str = "ann") -> float:
    account = next(one for one in vault.accounts() if one["account"] == f"visits/{principal}")
    left: float = account["remaining"]["epsilon"]
    return round(2 - left, 6)


def submit(vault: sf.Vault, principal: str = "ann", **said: Any) -> Any:
    return vault.jobs.submit("publish", "visits", principal=principal, **{**ASKED, **said})


def let_lease_end(vault: sf.Vault) -> None:
    """Let the holder of every job seem to have died."""
    with vault.jobs._store._tables.writing() as connection:
        connection.exec_driver_sql("UPDATE sfumato_jobs SET until = 0 WHERE state = 'running'")


def test_a_job_costs_nothing_before_it_is_done_and_then_what_it_says(vault: sf.Vault) -> None:
    job = submit(vault)
    assert (job.state, spent(vault)) == (JobState.WAITING, 0)
    assert vault.jobs.work() == 1
    done = vault.jobs.get(job, principal="ann")
    assert (done.state, done.release, spent(vault)) == (JobState.DONE, job.id, 0.5)
    kept = vault.releases.get(job.id, principal="ann").release
    direct = vault.private("visits", principal="ann").publish(**ASKED)
    assert not direct.charged
    assert direct.table == kept.table
    assert vault.jobs.work() == 0
    assert spent(vault) == 0.5


def test_what_cannot_be_done_is_refused_at_once(vault: sf.Vault) -> None:
    refused: dict[str, dict[str, Any]] = {
        "column_unknown": {"columns": ["nothing"]},
        "choice_unknown": {"kind": "nothing"},
        "parameter_out_of_range": {"epsilon": 0},
        "request_malformed": {"workload": "ranges.csv"},
        "plan_changed": {"plan": "0" * 64},
        "name_invalid": {"request_id": "\n"},
    }
    for code, said in refused.items():
        assert code_of(submit, vault, **said) == code
    # Some kinds take no columns, so that a call without them is right; this kind refuses it.
    no_columns: dict[str, Any] = {"kind": "histogram", "epsilon": 1}
    assert code_of(vault.jobs.submit, "publish", "visits", **no_columns) == "columns_invalid"
    assert code_of(vault.jobs.submit, "publish", "visits", columns=["city"]) == "request_malformed"
    # What is synthesized says which options it takes, as kinds of publications do.
    assert code_of(vault.jobs.submit, "synthesize", "visits", epsilon=1, epsilom=1) == (
        "option_unknown"
    )
    for family in ("query", "nothing"):
        assert code_of(vault.jobs.submit, family, "visits") == "choice_unknown"
    assert code_of(vault.jobs.submit, "publish", "nothing", **ASKED) == "dataset_unknown"
    assert code_of(submit, vault, principal="stranger") == "principal_unknown"
    assert code_of(submit, vault, principal="eve") == "permission_missing"
    anonymizing = {"principal": "ann", "k": 5}
    assert code_of(vault.jobs.submit, "anonymize", "visits", **anonymizing) == (
        "permission_missing"
    )
    assert vault.jobs.list() == []


def test_what_the_budget_cannot_pay_is_refused_at_once(vault: sf.Vault) -> None:
    words = []
    for asked in (submit, lambda vault, **said: vault.publish(name="visits", **ASKED | said)):
        for who, much in (("ann", 2.5), ("owner", 8.5)):
            with pytest.raises(sf.SfumatoError) as refusal:
                asked(vault, principal=who, epsilon=much)
            words.append((refusal.value.code, str(refusal.value)))
    assert words[:2] == words[2:]
    assert vault.jobs.list() == []
    first = submit(vault, epsilon=1.5, request_id="first")
    second = submit(vault, epsilon=1.5, columns=["cost"])  # nothing is charged yet
    vault.jobs.work()
    states = [vault.jobs.get(one).state for one in (first, second)]
    assert states == [JobState.DONE, JobState.FAILED]
    assert (vault.jobs.get(second).error or {})["code"] == "budget_exhausted"
    assert spent(vault) == 1.5
    assert submit(vault, epsilon=1.5, request_id="first").id == first.id
    assert submit(vault, epsilon=1.5).state is JobState.WAITING, "it is there already"
    assert code_of(submit, vault, epsilon=1.5, columns=["cost"]) == "budget_exhausted"


def test_a_request_id_stands_for_one_job_and_one_charge(vault: sf.Vault) -> None:
    first = submit(vault, request_id="once")
    assert submit(vault, request_id="once").id == first.id
    assert code_of(submit, vault, request_id="once", columns=["cost"]) == "request_reused"
    assert submit(vault, principal="bob", request_id="once").id != first.id
    vault.jobs.work()
    assert submit(vault, request_id="once").release == first.id
    assert spent(vault) == 0.5


def test_the_same_asked_twice_is_paid_for_once(vault: sf.Vault) -> None:
    first, second = submit(vault), submit(vault)
    assert first.id != second.id
    assert vault.jobs.work() == 2
    assert spent(vault) == 0.5
    tables = [vault.releases.get(one.id).release.table for one in (first, second)]
    assert tables[0] == tables[1]
    charged = [
        vault.releases.get(one.id, principal="ann").answer().charged for one in (first, second)
    ]
    assert charged == [True, False]


def test_a_job_of_somebody_else_is_not_there(vault: sf.Vault) -> None:
    job = submit(vault)
    for action in (vault.jobs.get, vault.jobs.cancel):
        words = []
        for name in (job.id, "0" * 16):
            with pytest.raises(sf.SfumatoError) as refusal:
                action(name, principal="bob")
            words.append((refusal.value.code, str(refusal.value).replace(name, "...")))
        assert words[0] == words[1]
    assert vault.jobs.list(principal="bob") == []
    assert [one.id for one in vault.jobs.list(principal="ann")] == [job.id]
    assert [one.id for one in vault.jobs.list()] == [job.id]
    assert vault.jobs.get(job).state is JobState.WAITING


def test_a_cancelled_job_is_not_begun(vault: sf.Vault) -> None:
    job = submit(vault)
    assert vault.jobs.cancel(job, principal="ann").state is JobState.CANCELLED
    assert vault.jobs.work() == 0
    assert spent(vault) == 0
    assert vault.jobs.cancel(job).state is JobState.CANCELLED


def test_a_job_cancelled_before_its_charge_costs_nothing(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, prepared = submit(vault), Jobs._prepared

    def cancelling(jobs: Jobs, of: Any) -> Any:
        jobs.cancel(of)
        return prepared(jobs, of)

    monkeypatch.setattr(Jobs, "_prepared", cancelling)
    assert vault.jobs.work() == 1
    assert (vault.jobs.get(job).state, spent(vault)) == (JobState.CANCELLED, 0)


def test_a_job_cancelled_while_it_runs_is_over_and_its_engine_is_stopped(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = threading.Event(), threading.Event()
    run = Gatekeeper._run

    def slow(gatekeeper: Gatekeeper, *given: Any) -> bytes:
        begun.set()
        assert stopped.wait(30)
        return run(gatekeeper, *given)

    monkeypatch.setattr(Gatekeeper, "_run", slow)
    monkeypatch.setattr(DataStore, "cancel", lambda _store, _thread: stopped.set())
    job = submit(vault)
    vault.jobs.start()
    assert begun.wait(30)
    assert vault.jobs.get(job).stage == 2
    assert vault.jobs.cancel(job).state is JobState.CANCELLED
    assert stopped.wait(30)
    assert vault.jobs.stop()
    assert vault.jobs.get(job).state is JobState.CANCELLED
    assert code_of(vault.releases.get, job.id) == "release_unknown"


def died(vault: sf.Vault) -> None:
    """Work until the thread ends as a machine would end it."""
    with pytest.raises(Killed):
        vault.jobs.work()
    let_lease_end(vault)


def killed(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool = False) -> None:
    """Die once at something, before it or when it is done."""
    real = getattr(owner, name)

    def dying(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        if after:
            real(*given, **named)
        raise Killed

    monkeypatch.setattr(owner, name, dying)


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (Jobs, "_prepared", False),
        (JobStore, "note", True),
        (Gatekeeper, "_run", False),
        (Gatekeeper, "read", False),
        (JobStore, "mark_done", False),
    ],
)
def test_a_job_whose_server_died_is_done_by_the_next_and_paid_for_once(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, after: bool
) -> None:
    job = submit(vault)
    killed(monkeypatch, owner, name, after=after)
    died(vault)
    assert vault.jobs.work() == 1
    assert (vault.jobs.get(job).state, spent(vault)) == (JobState.DONE, 0.5)
    release = vault.releases.get(job.id)
    assert release.answer().charged, "by whichever attempt"
    assert release.release.tables["histogram"].num_rows == 2


def test_what_drew_noise_and_was_lost_is_not_drawn_again(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(vault)
    killed(monkeypatch, Gatekeeper, "_run", after=True)
    died(vault)
    assert vault.jobs.work() == 1
    failed = vault.jobs.get(job)
    assert failed.error is not None
    assert (failed.state, failed.error["code"]) == (JobState.FAILED, "answer_lost")
    assert spent(vault) == 0.5
    again = submit(vault)
    vault.jobs.work()
    assert (vault.jobs.get(again).state, spent(vault)) == (JobState.DONE, 1)


def test_a_ledger_that_is_away_is_waited_for_and_a_source_for_a_while(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[sf.SfumatoError] = [LedgerError("ledger_busy", "Later.")] * 4
    refusals += [SourceError("source_unready", "Later.")] * 3
    run = Jobs._run

    def outage(jobs: Jobs, job: Any, charging: Callable[[], None]) -> Any:
        if refusals:
            raise refusals.pop(0)
        return run(jobs, job, charging)

    monkeypatch.setattr(jobs_module, "_LATER_SECONDS", 0)
    monkeypatch.setattr(jobs_module, "_AGAIN_SECONDS", 0)
    monkeypatch.setattr(Jobs, "_run", outage)
    job = submit(vault)
    assert vault.jobs.work() == 7
    failed = vault.jobs.get(job)
    assert failed.error is not None
    assert (failed.attempts, failed.error["code"]) == (3, "source_unready")
    assert spent(vault) == 0
    other = submit(vault)
    refusals += [SourceError("source_unready", "Later.")] * 2
    assert vault.jobs.work() == 3
    assert vault.jobs.get(other).state is JobState.DONE


def test_why_a_job_failed_inside_is_the_operators(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by the cell 'Meier'")

    monkeypatch.setattr(Jobs, "_run", broken)
    job = submit(vault)
    vault.jobs.work()
    failed = vault.jobs.get(job)
    assert failed.error is not None
    assert failed.error["code"] == "job_failed"
    assert "Meier" not in str(failed.to_json()) + repr(failed) + str(failed._repr_html_())
    assert "Meier" in (vault.config.folder / "failures.log").read_text()


def test_a_job_that_may_no_longer_be_asked_is_refused_when_it_is_run(vault: sf.Vault) -> None:
    job, usual = submit(vault), submit(vault, principal="bob", epsilon=None)
    assert usual.asked["epsilon"] == "1/5"
    vault.people.expire("ann", operator="me")
    vault.people.grant("bob", epsilon=4, delta="1e-7", operator="me")
    vault.jobs.work()
    error = vault.jobs.get(job).error
    assert error is not None
    assert error["code"] == "principal_expired"
    assert vault.jobs.get(usual).state is JobState.DONE  # at the price of the day it was asked
    release = vault.releases.get(usual.id, principal="bob")
    assert release.answer().cost == {"epsilon": 0.2}


def test_another_plan_than_that_of_the_day_is_not_run(vault: sf.Vault) -> None:
    job = submit(vault)
    text = Path("visits.toml").read_text()
    Path("visits.toml").write_text(text.replace('"south"]', '"south", "west"]'))
    with sf.open(vault.config.folder) as other:
        assert other.jobs.work() == 1
        error = other.jobs.get(job).error
    assert error is not None
    assert error["code"] == "plan_changed"
    assert spent(vault) == 0


def test_workers_in_threads_do_all_that_comes_and_end_when_told(vault: sf.Vault) -> None:
    vault.jobs.start(2)
    found = [
        submit(vault, principal=who, columns=[column], epsilon=0.1)
        for who in ("ann", "bob")
        for column in ("city", "cost")
    ]
    assert {vault.jobs.wait(one, seconds=60).state for one in found} == {JobState.DONE}
    assert vault.jobs.stop()
    waiting = submit(vault, epsilon=0.2)
    assert vault.jobs.wait(waiting, seconds=0).state is JobState.WAITING


def test_nothing_that_a_job_tells_depends_on_a_row(vault: sf.Vault) -> None:
    lines = Path("visits.csv").read_text().splitlines(keepends=True)
    Path("fewer.csv").write_text("".join(lines[:-2]))
    vault.add("fewer", "fewer.csv", "visits.toml", epsilon=8, delta="1e-6")
    told = []
    for name in ("visits", "fewer"):
        job = vault.jobs.submit("publish", name, **ASKED)
        seen = [job]
        vault.jobs.work()
        seen.append(vault.jobs.get(job))
        apart = {"job", "request_id", "release", "submitted", "started", "ended", "dataset"}
        told.append([{k: v for k, v in one.to_json().items() if k not in apart} for one in seen])
    assert told[0] == told[1]


def test_values_of_a_job_are_plain_and_exact() -> None:
    asked = {
        "a": Fraction(1, 3),
        "b": Decimal("0.10"),
        "c": np.array([[1, 2]]),
        "d": (date(2020, 1, 2), True, 0.1, np.int64(3)),
        "e": None,
        "f": {"x": Fraction(1)},
    }
    assert plain_values(asked, ()) == {
        "a": "1/3",
        "b": "0.10",
        "c": [[1, 2]],
        "d": ["2020-01-02", True, 0.1, 3],
        "f": {"x": "1"},
    }
    for wrong in (object(), float("nan"), float("inf"), {1, 2}, b"x"):
        assert code_of(plain_values, {"x": wrong}, ()) == "request_malformed"
    assert code_of(plain_values, {"x": "y" * 2**20}, ()) == "request_malformed"
    for file in ("ranges.csv", Path("ranges.csv")):
        assert code_of(plain_values, {"workload": file}, ("workload",)) == "request_malformed"


def test_jobs_are_listed_as_many_as_asked_for(vault: sf.Vault) -> None:
    for number in range(3):
        submit(vault, epsilon=0.1 + number / 10)
    assert len(vault.jobs.list(limit=2)) == 2
    for wrong in (0, 1001, -1):
        assert code_of(vault.jobs.list, limit=wrong) == "parameter_out_of_range"
    assert repr(vault.jobs) == "<Jobs: 3 kept, 3 not done yet>"
    assert "histogram" not in (vault.jobs._repr_html_() or "")


def test_a_vault_without_jobs_has_no_store_of_them(vault: sf.Vault) -> None:
    assert not vault.jobs.list()
    assert not vault.releases.list()
    assert vault.jobs.work() == 0
    assert code_of(vault.jobs.get, "nothing") == "job_unknown"
    assert code_of(vault.releases.get, "nothing") == "release_unknown"
    assert not (vault.config.folder / "jobs.sqlite").exists()
    submit(vault)
    assert (vault.config.folder / "jobs.sqlite").stat().st_mode & 0o077 == 0


def test_a_store_of_jobs_that_is_broken_is_one_closed_door(vault: sf.Vault) -> None:
    path = vault.config.folder / "jobs.sqlite"
    path.write_bytes(b"no database at all" * 100)
    for action in (vault.jobs.list, vault.jobs.work, lambda: submit(vault)):
        assert code_of(action) == "store_unavailable"
    assert "store of jobs" in (vault.config.folder / "failures.log").read_text()
    path.unlink()
    assert submit(vault).state is JobState.WAITING
