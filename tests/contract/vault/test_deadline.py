"""A deadline ends the work of the database too; the next question finds it free."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Rows
from sfumato.errors import EngineError
from sfumato.methods.method import Dataset, Plan
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.memory import memory_ledger
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.testing.engines import query
from sfumato.vault.answer import AnswerIndex
from sfumato.vault.gatekeeper import Gatekeeper
from sfumato.vault.session import Asker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.engines.base import Engine
    from sfumato.privacy.noise.entropy import Entropy

ROWS = 4_000
SLOW = "SELECT SUM((a.x * b.x + c.x) % 7) AS n FROM t a CROSS JOIN t b CROSS JOIN t c"
QUICK = "SELECT CAST(COUNT(*) AS BIGINT) AS n FROM t"


@dataclass
class Asking(Plan):
    """A method that asks its engine one thing; `ended` tells when the engine has let go of it."""

    sql: str
    name: str = "asking"
    datasets: tuple[str, ...] = ("t",)
    public: tuple[str, ...] = ()
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def event(self) -> PureEvent:
        return PureEvent(epsilon=Fraction(1, 10))

    @property
    def parameters(self) -> dict[str, Any]:
        return {"sql": self.sql}

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee("none", "A test.")

    def run(self, datasets: Mapping[str, Dataset], _: Entropy) -> Release:
        held = datasets["t"]
        try:
            table = held.engine.run(query(self.sql, t=held.table))
        finally:
            self.ended.set()
        return Release({"n": table}, self.guarantee, Provenance("asking", {}, ""))


def test_a_deadline_stops_the_engine(open_engine: Callable[[pa.Table], Engine]) -> None:
    engine = open_engine(pa.table({"x": pa.array(range(ROWS), pa.int64())}))
    ledger = memory_ledger()
    ledger.open_account("t", budget=Budget.for_epsilon_delta(epsilon=1, delta=0))
    gatekeeper = Gatekeeper(ledger, AnswerIndex(), deadline_seconds=1.5)
    schema = Schema("t", (Column("x", Kind.INTEGER),))
    data = {"t": Dataset("t", engine, engine.table, schema, Rows())}
    slow = Asking(SLOW)
    with pytest.raises(EngineError) as caught:
        gatekeeper.answer(slow, Asker("owner", ("t",)), lambda: nullcontext(data))
    assert caught.value.code == "answer_failed"
    assert slow.ended.wait(60), "the engine still works at a question that nobody waits for"
    unhurried = Gatekeeper(ledger, AnswerIndex())
    found = unhurried.answer(Asking(QUICK), Asker("owner", ("t",)), lambda: nullcontext(data))
    assert found.table["n"].to_pylist() == [ROWS]


def test_ctrl_c_stops_the_engine(open_engine: Callable[[pa.Table], Engine]) -> None:
    engine = open_engine(pa.table({"x": pa.array(range(ROWS), pa.int64())}))
    ledger = memory_ledger()
    ledger.open_account("t", budget=Budget.for_epsilon_delta(epsilon=1, delta=0))
    gatekeeper = Gatekeeper(ledger, AnswerIndex(), deadline_seconds=600)
    data = {
        "t": Dataset("t", engine, engine.table, Schema("t", (Column("x", Kind.INTEGER),)), Rows())
    }
    slow = Asking(SLOW)
    pressing = threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        gatekeeper.answer(slow, Asker("owner", ("t",)), lambda: nullcontext(data))
    pressing.join()
    assert slow.ended.wait(60), "the engine still works at a question that nobody waits for"


def test_others_go_on(open_engine: Callable[[pa.Table], Engine]) -> None:
    engine = open_engine(pa.table({"x": pa.array(range(3), pa.int64())}))
    idle = threading.Thread(target=lambda: None)
    idle.start()
    idle.join()
    assert idle.ident is not None
    engine.cancel(idle.ident)
    engine.cancel(threading.get_ident())
    assert engine.run(query(QUICK, t=engine.table))["n"].to_pylist() == [3]
