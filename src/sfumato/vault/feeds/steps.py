"""What streams remember between two steps, in a database beside the ledger; as secret as the data.

One row for each stream: the number of its last step, the state, and what the step told. It changes
by comparing the number, so that a step is done once, whoever else tries. What a step draws is
written down before it is given out, and forgotten when the step is done. Decision 0400.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from sfumato.errors import LedgerError
from sfumato.noise.entropy import SystemEntropy
from sfumato.release.in_use import STREAMS
from sfumato.vault.beside import BesideLedger
from sfumato.vault.streaming import Reached

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.vault.config import Config

_WORD = 8
_metadata = MetaData()
_Whole = BigInteger().with_variant(Integer(), "sqlite")
_states = Table(
    "sfumato_stream_states",
    _metadata,
    Column("stream", Text, primary_key=True),
    Column("step", _Whole, nullable=False),
    Column("state", Text, nullable=False),
    Column("told", Text, nullable=False),
    sqlite_strict=True,
)
_words = Table(
    "sfumato_stream_words",
    _metadata,
    Column("stream", Text, primary_key=True),
    Column("step", _Whole, primary_key=True),
    Column("draw", _Whole, primary_key=True),
    Column("words", LargeBinary, nullable=False),
    sqlite_strict=True,
)


class StepStore:
    """How far the streams of a vault are, for all its processes and hosts."""

    def __init__(self, config: Config) -> None:
        self._store = BesideLedger(config, STREAMS, _metadata)

    def reached(self, stream: str) -> Reached | None:
        """The last step of a stream; None before the first."""
        with self._store.reading() as connection:
            row = connection.execute(select(_states).where(_states.c.stream == stream)).first()
        if row is None:
            return None
        return Reached(row.step, json.loads(row.state), json.loads(row.told))

    def tape(self, stream: str, step: int) -> StepTape:
        """The entropy of a step: the same words however often the step is begun."""
        return StepTape(self._store, stream, step)

    def settle(self, stream: str, reached: Reached) -> Reached:
        """Remember one more step, unless somebody else did; what stands then."""
        made = {
            "step": reached.step,
            "state": json.dumps(reached.state, allow_nan=False),
            "told": json.dumps(reached.told, allow_nan=False),
        }
        try:
            with self._store.writing() as connection:
                if reached.step == 1:
                    connection.execute(insert(_states).values(stream=stream, **made))
                else:
                    connection.execute(
                        update(_states)
                        .where(_states.c.stream == stream, _states.c.step == reached.step - 1)
                        .values(**made)
                    )
                old = _words.c.step <= reached.step
                connection.execute(delete(_words).where(_words.c.stream == stream, old))
        except IntegrityError:
            pass  # somebody else's first step stands
        found = self.reached(stream)
        assert found is not None
        return found

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()


class StepTape(SystemEntropy):
    """The operating system's entropy by way of a database; read from its beginning."""

    def __init__(self, store: BesideLedger, stream: str, step: int) -> None:
        self._store, self._stream, self._step, self._draw = store, stream, step, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words: those that were drawn here before, or else new ones, kept first."""
        place = {"stream": self._stream, "step": self._step, "draw": self._draw}
        self._draw += 1
        here = (_words.c[name] == value for name, value in place.items())
        found = select(_words.c.words).where(*here)
        try:
            with self._store.writing() as connection:
                kept = connection.scalar(found)
                if kept is None:
                    kept = os.urandom(_WORD * count)
                    connection.execute(insert(_words).values(words=kept, **place))
        except IntegrityError:  # somebody else drew at the same moment
            with self._store.reading() as connection:
                kept = connection.scalar(found)
        if kept is None or len(kept) != _WORD * count:
            raise lost_state()
        return np.frombuffer(kept, dtype=np.uint64)


def lost_state() -> LedgerError:
    """What is told where a stream cannot go on from where the ledger says it is."""
    return LedgerError(
        "stream_state_lost",
        "What the stream remembered of its last step is gone or older than what was told. It tells "
        "nothing more, because it would draw noise a second time. Restore streams.sqlite as it "
        "was, or begin another feed.",
    )
