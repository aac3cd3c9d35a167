"""The state of streams between two steps, in a database beside the ledger; as secret as the data.

There is one row for each stream: the number of its last step, the state and the figures. Each
update compares the number, so a step is settled once, by whichever process comes first. The random
words of a step are written before they are used, and deleted when the step is settled.

Before a step draws words, it is reserved: one transaction writes its counts and raises what each
person has used up. So a step that is repeated after a crash counts the same rows, also where the
table has changed since, and a person who is erased and comes back has no second share. People are
stored as keyed hashes. Decision `streams`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import (
    Column,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from sfumato.errors import LedgerError
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.release.files_in_use import SECRET, STREAMS
from sfumato.release.fingerprint import read_secret
from sfumato.vault.side_database import Int64, SideDatabase
from sfumato.vault.streams import Reached

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from sfumato.arrays import IntArray
    from sfumato.methods.stream.request import Participation
    from sfumato.vault.config import Config
    from sfumato.vault.streams import Arrival

_WORD_BYTES = 8
_HASH_BYTES = 16
"""Bytes of a person's hash: two people of a billion share one with probability below 1e-20."""
_PAGE = 10_000
"""People looked up or written in one statement; databases take 32,766 values and more."""
_metadata = MetaData()
_states = Table(
    "sfumato_stream_states",
    _metadata,
    Column("stream", Text, primary_key=True),
    Column("step", Int64, nullable=False),
    Column("state", Text, nullable=False),
    Column("told", Text, nullable=False),
    sqlite_strict=True,
)
_drawn_words = Table(
    "sfumato_stream_words",
    _metadata,
    Column("stream", Text, primary_key=True),
    Column("step", Int64, primary_key=True),
    Column("draw", Int64, primary_key=True),
    Column("words", LargeBinary, nullable=False),
    sqlite_strict=True,
)
_reserved = Table(
    "sfumato_stream_reserved",
    _metadata,
    Column("stream", Text, primary_key=True),
    Column("step", Int64, nullable=False),
    Column("counts", Text, nullable=False),
    Column("consent", Text, nullable=False),
    Column("people", Int64, nullable=False),
    Column("key", Text, nullable=False),
    sqlite_strict=True,
)
"""The last reserved step of each stream: its counts, the versions of consent that they saw, and
the number of its people in the table below with the mark of their key."""
_people = Table(
    "sfumato_stream_people",
    _metadata,
    Column("stream", LargeBinary, primary_key=True),
    Column("person", LargeBinary, primary_key=True),
    Column("used", Int64, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""By person the rows, or periods, that counted in a stream. It is never lowered, and no row goes:
who is erased from the table and comes back has no more left than before."""


@dataclass(frozen=True)
class Reserved:
    """A reserved step: its counts, and the versions of consent that they saw."""

    step: int
    counts: IntArray
    consent: Mapping[str, int]

    def is_open(self, step: int) -> bool:
        """Whether this is a step of that number which is not settled yet."""
        return self.step == step and self.counts.size > 0


class StepStore:
    """The states of a vault's streams, shared by all its processes and hosts."""

    def __init__(self, config: Config) -> None:
        self._store = SideDatabase(config, STREAMS, _metadata, "streams")
        self._secret = config.folder / SECRET

    def reserved(self, stream: str) -> Reserved | None:
        """The last reserved step of a stream, without counts once settled; None before it."""
        with self._store.reading() as connection:
            row = connection.execute(select(_reserved).where(_reserved.c.stream == stream)).first()
        if row is None:
            return None
        counts = np.array(json.loads(row.counts), dtype=np.int64)
        return Reserved(row.step, counts, json.loads(row.consent))

    def reserve(
        self,
        stream: str,
        step: int,
        arrival: Arrival,
        people: Participation,
        *,
        consent: Mapping[str, int],
    ) -> Reserved | None:
        """Reserve a step: write its counts and raise the use of its people in one transaction.

        Durable before anything is drawn, so that a killed step has used up what it counts. Where
        somebody else began the step, theirs stands; None where they are done with it.
        """
        try:
            with self._store.writing() as connection:
                before = self._take_turn(connection, stream, step, people)
                if before is not None:
                    known = _StreamPeople(connection, stream, read_secret(self._secret))
                    known.check(before)
                    counts, new = known.use_up(arrival, people)
                    values = {
                        "counts": json.dumps(counts.tolist(), allow_nan=False),
                        "consent": json.dumps(consent, allow_nan=False),
                    }
                    values |= {"people": before.people + new, "key": known.key_mark}
                    connection.execute(
                        update(_reserved).where(_reserved.c.stream == stream).values(**values)
                    )
        except IntegrityError:
            pass  # somebody else began the first step
        reserved = self.reserved(stream)
        if reserved is None or reserved.step < step:
            raise lost_state()
        return reserved if reserved.is_open(step) else None

    def _take_turn(
        self, connection: Connection, stream: str, step: int, people: Participation
    ) -> Any:
        """Move a stream to its next step, as long as nobody else has; what stood before, or None.

        First in its transaction: until that ends, nobody else changes what people have used up.
        """
        row = connection.execute(select(_reserved).where(_reserved.c.stream == stream)).first()
        if row is None:
            # Without a person nothing is used up, so that nothing can be lost here.
            if step > 1 and people.unit.by_person:
                raise lost_state()
            first = {"counts": "[]", "consent": "{}", "people": 0, "key": ""}
            connection.execute(insert(_reserved).values(stream=stream, step=step, **first))
            return connection.execute(select(_reserved).where(_reserved.c.stream == stream)).one()
        is_previous_step = _reserved.c.stream == stream, _reserved.c.step == step - 1
        moved = connection.execute(update(_reserved).where(*is_previous_step).values(step=step))
        # Compare and set: of two processes that reserve the step, one changes a row and the other
        # none.
        return row if moved.rowcount == 1 else None

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
        """Store a step, unless another process did; return the stored one."""
        values = {
            "step": reached.step,
            "state": json.dumps(reached.state, allow_nan=False),
            "told": json.dumps(reached.figures, allow_nan=False),
        }
        try:
            with self._store.writing() as connection:
                if reached.step == 1:
                    connection.execute(insert(_states).values(stream=stream, **values))
                else:
                    connection.execute(
                        update(_states)
                        .where(_states.c.stream == stream, _states.c.step == reached.step - 1)
                        .values(**values)
                    )
                old = _drawn_words.c.step <= reached.step
                connection.execute(delete(_drawn_words).where(_drawn_words.c.stream == stream, old))
                # The exact counts of a settled step are needed no more.
                is_settled_step = _reserved.c.stream == stream, _reserved.c.step == reached.step
                connection.execute(update(_reserved).where(*is_settled_step).values(counts="[]"))
        except IntegrityError:
            pass  # somebody else's first step stands
        settled = self.reached(stream)
        assert settled is not None
        return settled

    def close(self) -> None:
        """Close the database."""
        self._store.close()


class StepTape(SystemEntropy):
    """The operating system's entropy by way of a database; read from its beginning."""

    def __init__(self, store: SideDatabase, stream: str, step: int) -> None:
        self._store, self._stream, self._step, self._draw = store, stream, step, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words: those that were drawn here before, or else new ones, kept first."""
        key = {"stream": self._stream, "step": self._step, "draw": self._draw}
        self._draw += 1
        same_draw = (_drawn_words.c[name] == value for name, value in key.items())
        stored_words = select(_drawn_words.c.words).where(*same_draw)
        try:
            with self._store.writing() as connection:
                drawn = connection.scalar(stored_words)
                # Written before it is used, and read back after a crash: one step never has two
                # noises.
                if drawn is None:
                    drawn = os.urandom(_WORD_BYTES * count)
                    connection.execute(insert(_drawn_words).values(words=drawn, **key))
        except IntegrityError:  # somebody else drew at the same moment
            with self._store.reading() as connection:
                drawn = connection.scalar(stored_words)
        # Another number of words than before: the step is not the same, so its noise must not be
        # used.
        if drawn is None or len(drawn) != _WORD_BYTES * count:
            raise lost_state()
        return np.frombuffer(drawn, dtype=np.uint64)


class _StreamPeople:
    """What the people of one stream have used up, within a transaction."""

    def __init__(self, connection: Connection, stream: str, secret: bytes) -> None:
        self._connection = connection
        self._stream = hashlib.sha256(stream.encode()).digest()[:_WORD_BYTES]
        # A key for each stream: nobody can be followed from one stream to another.
        self._key = hmac.digest(secret, b"people of " + stream.encode(), "sha256")

    @property
    def key_mark(self) -> str:
        """What another key of the vault would be recognized by."""
        return hmac.digest(self._key, b"mark", "sha256").hex()

    def check(self, before: Any) -> None:
        """Refuse to go on where people are missing, or would not be recognized under this key."""
        mine = select(func.count()).select_from(_people).where(_people.c.stream == self._stream)
        # A restored or emptied table of people would give everybody a second share.
        if self._connection.scalar(mine) != before.people:
            raise lost_state()
        if before.key not in ("", self.key_mark):
            raise lost_state()

    def use_up(self, arrival: Arrival, people: Participation) -> tuple[IntArray, int]:
        """The counts of a period and the number of new people; counted rows are used up."""
        hashes = [self._hash(person) for person in arrival.people]
        known = self._known(hashes)
        before = np.array([known.get(person_hash, 0) for person_hash in hashes], dtype=np.int64)
        counts, after = arrival.bounded(before, people)
        raised = {hashes[at]: int(after[at]) for at in np.flatnonzero(after > before)}
        self._raise(raised)
        return counts, sum(person_hash not in known for person_hash in raised)

    def _hash(self, person: Any) -> bytes:
        # 7, 7.0 and "7" are one person: a column that is declared anew makes nobody new.
        is_whole = isinstance(person, float) and person.is_integer()
        written = f":{int(person) if is_whole else person}"  # as stored people were hashed
        return hmac.digest(self._key, written.encode(), "sha256")[:_HASH_BYTES]

    def _known(self, hashes: Sequence[bytes]) -> dict[bytes, int]:
        used_rows: dict[bytes, int] = {}
        for start in range(0, len(hashes), _PAGE):
            is_on_page = _people.c.person.in_(hashes[start : start + _PAGE])
            asked = select(_people.c.person, _people.c.used).where(
                _people.c.stream == self._stream, is_on_page
            )
            used_rows |= {bytes(person): used for person, used in self._connection.execute(asked)}
        return used_rows

    def _raise(self, raised: Mapping[bytes, int]) -> None:
        postgres = self._connection.dialect.name == "postgresql"
        statement: Any = postgresql.insert(_people) if postgres else sqlite.insert(_people)
        statement = statement.on_conflict_do_update(
            index_elements=["stream", "person"], set_={"used": statement.excluded.used}
        )
        # In the order of the table, so that a million are put one behind the other; by pages, so
        # that they take no memory twice.
        hashes = sorted(raised)
        for start in range(0, len(hashes), _PAGE):
            rows = [
                {"stream": self._stream, "person": person_hash, "used": raised[person_hash]}
                for person_hash in hashes[start : start + _PAGE]
            ]
            self._connection.execute(statement, rows)


def lost_state() -> LedgerError:
    """The error for a stream whose stored state is missing or older than the ledger says."""
    return LedgerError(
        "stream_state_lost",
        "What the stream remembered, of its last step or of how often each person counted, is gone "
        "or older than what was told. It tells nothing more, because it would draw noise a second "
        "time or count people beyond its guarantee. Restore streams.sqlite and fingerprint.key as "
        "they were, or begin another feed.",
    )
