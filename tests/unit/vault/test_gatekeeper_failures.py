"""What fails between the charge and the answer: one reply, paid once, in its own time."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import EngineError, LedgerError, ParameterError, SfumatoError, SourceError
from sfumato.vault.session import Asker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.vault.answer import Answer
    from sfumato.vault.gatekeeper import Gatekeeper

    Ask = Callable[..., Answer]


OWNER = Asker("owner", ("visits",))


ALICE = Asker("alice", ("visits",), ("visits/alice",))


BOB = Asker("bob", ("visits",), ("visits/bob",))


def spent(ledger: Ledger, account: str) -> Fraction:
    (part,) = ledger.spent(account)
    assert part is not None
    return Fraction(part[0], 10**9)


def nothing() -> AbstractContextManager[dict[str, Any]]:
    return nullcontext({})


class QuotingError(Exception):
    """An error of some driver that quotes a patient."""


@pytest.mark.parametrize(
    "failure",
    [
        QuotingError("Could not convert string 'alice'"),
        MemoryError(),
        ZeroDivisionError("1/0"),
        ParameterError("parameter_out_of_range", "about alice"),
        EngineError("engine_failed", "no", detail="alice"),
        "deadline",
    ],
    ids=lambda one: type(one).__name__,
)
def test_F11_every_failure_after_the_charge_is_one_reply_and_stays_spent(
    failure: BaseException | str, ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    def effect() -> None:
        if isinstance(failure, BaseException):
            raise failure
        time.sleep(0.5)

    limited = replace(gatekeeper, deadline_seconds=0.05)
    with pytest.raises(EngineError) as caught:
        limited.answer(counting(effect=effect), OWNER, nothing)
    error = caught.value
    assert (error.code, error.exit_code) == ("answer_failed", 1)
    assert error.message.startswith("The question was charged but could not be answered.")
    assert "alice" not in error.message
    assert error.__cause__ is None
    assert error.__context__ is None
    assert spent(ledger, "visits") == Fraction(1, 2)


def test_F11_data_that_cannot_be_opened_are_the_same_reply(
    gatekeeper: Gatekeeper, counting: Any
) -> None:
    def open_data() -> AbstractContextManager[dict[str, Any]]:
        raise QuotingError("row 7: 'alice'")

    with pytest.raises(EngineError) as caught:
        gatekeeper.answer(counting(), OWNER, open_data)
    assert caught.value.code == "answer_failed"
    assert caught.value.detail == "QuotingError: row 7: 'alice'"


def test_a_failed_question_may_be_asked_again_and_pays_again(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    def effect() -> None:
        raise MemoryError

    with pytest.raises(EngineError):
        gatekeeper.answer(counting(effect=effect), OWNER, nothing)
    assert gatekeeper.answer(counting(), OWNER, nothing).charged
    assert not gatekeeper.answer(counting(), OWNER, nothing).charged
    assert spent(ledger, "visits") == 1


def test_L2_a_question_that_failed_before_entropy_is_resumed_and_not_paid_again(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    def open_data() -> AbstractContextManager[dict[str, Any]]:
        raise MemoryError

    for _ in range(3):
        with pytest.raises(EngineError) as failed:
            gatekeeper.answer(counting(), ALICE, open_data, request_id="r1")
        assert failed.value.code == "answer_failed"
    # Another principal brings it to its end, and pays their own share of it alone.
    assert gatekeeper.answer(counting(), BOB, nothing).charged
    assert not gatekeeper.answer(counting(), ALICE, nothing, request_id="r1").charged
    for account in ("visits", "visits/alice", "visits/bob"):
        assert spent(ledger, account) == Fraction(1, 2)
    ledger.verify()


def test_L1_a_thread_that_comes_too_late_draws_nothing(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    """The deadline passed while data were opened: the next asker has the receipt, and it alone."""
    answered, ended, outcomes = threading.Event(), threading.Event(), list[str]()

    @contextmanager
    def open_slowly() -> Iterator[dict[str, Any]]:
        answered.wait(60)
        try:
            yield {}
            outcomes.append("drew")
        except LedgerError as error:
            outcomes.append(error.code)
            raise
        finally:
            ended.set()

    limited = replace(gatekeeper, deadline_seconds=0.05)
    with pytest.raises(EngineError):
        limited.answer(counting(), OWNER, open_slowly)
    assert not gatekeeper.answer(counting(), OWNER, nothing).charged
    answered.set()
    assert ended.wait(60)
    assert outcomes == ["receipt_invalid"]
    assert spent(ledger, "visits") == Fraction(1, 2)


def test_what_cannot_be_read_is_refused_for_nothing(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    def gone() -> None:
        raise SourceError("source_unready", "Gone.")

    given_up = threading.Event()

    def slow() -> None:
        given_up.wait(60)

    for seconds, check_data, code in (
        (60, gone, "source_unready"),
        (0.05, slow, "data_unreachable"),
    ):
        with pytest.raises(SfumatoError) as refused:
            replace(gatekeeper, deadline_seconds=seconds).answer(
                counting(), OWNER, nothing, check_data=check_data
            )
        assert refused.value.code == code
    given_up.set()
    assert spent(ledger, "visits") == 0


def test_nobody_waits_for_an_answer_beyond_the_deadline(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    running, go_on = threading.Event(), threading.Event()

    def effect() -> None:
        running.set()
        go_on.wait()

    leader = threading.Thread(
        target=lambda: gatekeeper.answer(counting(effect=effect), OWNER, nothing)
    )
    leader.start()
    running.wait()
    with pytest.raises(SfumatoError) as pending:
        replace(gatekeeper, deadline_seconds=0.05).answer(counting(), OWNER, nothing)
    assert pending.value.code == "answer_pending"
    go_on.set()
    leader.join()
    assert not gatekeeper.answer(counting(), OWNER, nothing).charged
    assert spent(ledger, "visits") == Fraction(1, 2)


def test_L2_a_request_whose_answer_was_lost_is_never_computed_again(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    def effect() -> None:
        raise MemoryError

    with pytest.raises(EngineError):
        gatekeeper.answer(counting(effect=effect), OWNER, nothing, request_id="r1")
    with pytest.raises(SfumatoError) as lost:
        gatekeeper.answer(counting(), OWNER, nothing, request_id="r1")
    assert lost.value.code == "answer_lost"
    assert spent(ledger, "visits") == Fraction(1, 2)


@pytest.mark.parametrize("fails", [False, True])
def test_answers_and_failures_leave_on_the_tick(
    fails: bool, gatekeeper: Gatekeeper, counting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick: Any = Fraction(1, 5)
    now = [Fraction(23, 100)]

    def sleep(seconds: Fraction) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr("sfumato.vault.gatekeeper.time", clock)
    ticking = replace(gatekeeper, tick_seconds=tick)

    def effect() -> None:
        now[0] += Fraction(1, 3)
        if fails:
            raise MemoryError

    for about, leaves in (("one", 3), ("two", 5)):
        try:
            ticking.answer(counting(about=about, effect=effect), OWNER, nothing)
        except EngineError:
            assert fails
        assert now[0] == leaves * tick
