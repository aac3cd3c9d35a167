"""The consent log: a hash chain of changes, with its last position stored outside the database.

The log is separate from the ledger. Ledger entries are numbered, so a number missing between two
receipts would show that somebody withdrew. A log that is older than its outside head, for example
from a backup, may lack withdrawals. It then refuses all queries until the owner acknowledges the
loss, which voids every yes. An empty log is safe to begin with: nobody has agreed in it.

Each entry binds the changes that were recorded together, by their digest. The table `standing`
holds the present answer of each person to each purpose. It follows from the changes and exists for
fast queries only. Tables and statements are the same for SQLite and PostgreSQL. Decision `consent`.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from sqlalchemy import (
    Column,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from sfumato.errors import LedgerError, RolledBackError, SfumatoError
from sfumato.privacy.ledger.chain import ORIGIN, Position, canonical, first_entry, link
from sfumato.privacy.ledger.receipt import this_process
from sfumato.vault.consent.registry import current_time
from sfumato.vault.side_database import Int64, Name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection, Engine

    from sfumato.privacy.ledger.commit import OutsideHead
    from sfumato.privacy.ledger.sql.store import Dialect
    from sfumato.vault.consent.registry import ConsentChange


class Recorded(NamedTuple):
    """The effect of recorded changes: the new version, changed answers, ignored older ones."""

    version: int
    changed: int
    older: int


class ConsentStanding(NamedTuple):
    """Consent at a position: all who agreed (`is_complete`), or all who changed since another."""

    position: Position
    people: list[str]
    agreed: list[bool]
    is_complete: bool


metadata = MetaData()


def _table(
    name: str, *elements: Any, of: MetaData = metadata, rowid: bool = True, **options: Any
) -> Any:
    table = f"sfumato_consent_{name}"
    return Table(table, of, *elements, sqlite_strict=True, sqlite_with_rowid=rowid, **options)


entries = _table(
    "entries",
    Column("seq", Int64, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("hash", Name, nullable=False),
)

changes = _table(
    "changes",
    Column("seq", Int64, primary_key=True, autoincrement=False),
    # The position within the entry: the digest is over changes in this order.
    Column("number", Int64, primary_key=True, autoincrement=False),
    Column("population", Name, nullable=False),
    Column("purpose", Name, nullable=False),
    Column("person", Name, nullable=False),
    Column("agreed", Integer, nullable=False),
    Column("time", Name, nullable=False),
    rowid=False,
)

standing = _table(
    "standing",
    Column("population", Name, primary_key=True),
    Column("purpose", Name, primary_key=True),
    Column("person", Name, primary_key=True),
    Column("agreed", Integer, nullable=False),
    Column("time", Name, nullable=False),
    Column("seq", Int64, nullable=False),
    # For `CHANGED`: every query asks who changed since the base, which must not scan everybody.
    Index("sfumato_consent_newest", "population", "purpose", "seq"),
    rowid=False,
)

arriving = _table(
    "arriving",
    Column("number", Int64, primary_key=True, autoincrement=False),
    Column("purpose", Name, nullable=False),
    Column("person", Name, nullable=False),
    Column("agreed", Integer, nullable=False),
    Column("time", Name, nullable=False),
    Column("dated", Integer, nullable=False),
    of=MetaData(),
    prefixes=["TEMPORARY"],
)
"""The changes that one transaction received, before it compares them with `standing`."""

PAGE = 10_000
"""Changes that are read and hashed at once; part of the stored format, as the digest is by page."""

LAST_ENTRY = select(entries.c.seq, entries.c.hash).order_by(entries.c.seq.desc()).limit(1)
ONE_ENTRY = select(entries).where(entries.c.seq == bindparam("of_seq"))
ALL_ENTRIES = select(entries).order_by(entries.c.seq)
ADD_ENTRY = insert(entries)

_known = and_(
    standing.c.population == bindparam("of_population"),
    standing.c.purpose == arriving.c.purpose,
    standing.c.person == arriving.c.person,
)
# Only answers that came with a time of their own can be older than what stands; an undated one is
# new by definition.
_newer_no = and_(arriving.c.agreed == 1, arriving.c.dated == 1, standing.c.time > arriving.c.time)
_differs = or_(standing.c.agreed.is_(None), standing.c.agreed != arriving.c.agreed)
_arriving_and_standing = arriving.outerjoin(standing, _known)

COUNT_OLDER = (
    select(func.count())
    .select_from(_arriving_and_standing)
    .where(standing.c.agreed == 0, _newer_no)
)
"""Counts answers of yes dated before a no that stands: an older yes does not undo a later no."""

ADD_CHANGES = insert(changes).from_select(
    ["seq", "number", "population", "purpose", "person", "agreed", "time"],
    select(
        bindparam("of_seq", type_=Int64),
        # In the order of the primary key of `standing`: a million rows are then appended to its
        # index instead of inserted at random.
        func.row_number().over(order_by=(arriving.c.purpose, arriving.c.person)),
        bindparam("of_population", type_=Name),
        arriving.c.purpose,
        arriving.c.person,
        arriving.c.agreed,
        arriving.c.time,
    )
    .select_from(_arriving_and_standing)
    .where(_differs, ~func.coalesce(and_(standing.c.agreed == 0, _newer_no), False))
    .order_by(arriving.c.purpose, arriving.c.person),
)
VOID_ALL = insert(changes).from_select(
    ["seq", "number", "population", "purpose", "person", "agreed", "time"],
    select(
        bindparam("of_seq", type_=Int64),
        func.row_number().over(
            order_by=(standing.c.population, standing.c.purpose, standing.c.person)
        ),
        standing.c.population,
        standing.c.purpose,
        standing.c.person,
        text("0"),
        bindparam("of_time", type_=Name),
    ).where(standing.c.agreed == 1),
)
"""Turns every yes that stands into a no."""

COUNT_CHANGES = (
    select(func.count()).select_from(changes).where(changes.c.seq == bindparam("of_seq"))
)
CHANGES_OF = (
    select(changes)
    .where(changes.c.seq == bindparam("of_seq"), changes.c.number > bindparam("after"))
    .order_by(changes.c.number)
    .limit(PAGE)
)
CHANGES_ABOUT = (
    select(changes)
    .where(
        changes.c.population == bindparam("of_population"),
        changes.c.person == bindparam("of_person"),
    )
    .order_by(changes.c.seq, changes.c.number)
)
Index("sfumato_consent_history", changes.c.person)


def stand(dialect: str) -> Any:
    """The statement that copies the changes of an entry into `standing`."""
    inserted: Any = (
        postgresql.insert(standing) if dialect == "postgresql" else sqlite.insert(standing)
    )
    added = inserted.from_select(
        ["population", "purpose", "person", "agreed", "time", "seq"],
        select(
            changes.c.population,
            changes.c.purpose,
            changes.c.person,
            changes.c.agreed,
            changes.c.time,
            changes.c.seq,
        )
        .where(changes.c.seq == bindparam("of_seq"))
        .order_by(changes.c.number),
    )
    newest = {name: added.excluded[name] for name in ("agreed", "time", "seq")}
    return added.on_conflict_do_update(
        index_elements=["population", "purpose", "person"], set_=newest
    )


_of_purpose = and_(
    standing.c.population == bindparam("of_population"),
    standing.c.purpose == bindparam("of_purpose"),
)
AGREED = select(standing.c.person).where(_of_purpose, standing.c.agreed == 1)
CHANGED = select(standing.c.person, standing.c.agreed).where(
    _of_purpose, standing.c.seq > bindparam("since")
)
ALL_STANDING = (
    select(standing.c.person, standing.c.purpose, standing.c.agreed, standing.c.time)
    .where(standing.c.population == bindparam("of_population"))
    .order_by(standing.c.purpose, standing.c.person)
)
COUNTS = (
    select(standing.c.purpose, standing.c.agreed, func.count())
    .where(standing.c.population == bindparam("of_population"))
    .group_by(standing.c.purpose, standing.c.agreed)
)

_last = (
    select(
        changes.c.population,
        changes.c.purpose,
        changes.c.person,
        func.max(changes.c.seq).label("seq"),
    )
    .group_by(changes.c.population, changes.c.purpose, changes.c.person)
    .subquery()
)
COUNT_STANDING = select(func.count()).select_from(standing)
COUNT_KNOWN = select(func.count()).select_from(_last)
COUNT_TRUE = select(func.count()).select_from(
    standing.join(
        changes,
        and_(
            changes.c.seq == standing.c.seq,
            changes.c.population == standing.c.population,
            changes.c.purpose == standing.c.purpose,
            changes.c.person == standing.c.person,
            changes.c.agreed == standing.c.agreed,
            changes.c.time == standing.c.time,
        ),
    ).join(
        _last,
        and_(
            _last.c.population == standing.c.population,
            _last.c.purpose == standing.c.purpose,
            _last.c.person == standing.c.person,
            _last.c.seq == standing.c.seq,
        ),
    )
)
"""Counts rows of `standing` that equal the last change of their person and purpose."""


def protections(dialect: str) -> tuple[str, ...]:
    """Triggers by which the database itself refuses to update or delete entries and changes."""
    names = (entries.name, changes.name)
    if dialect == "postgresql":
        function = (
            "CREATE FUNCTION sfumato_consent_keep() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'entries are only ever added'; END $$"
        )
        return (
            function,
            *(
                f"CREATE TRIGGER {name}_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
                "FOR EACH STATEMENT EXECUTE FUNCTION sfumato_consent_keep()"
                for name in names
            ),
        )
    return tuple(
        f"CREATE TRIGGER {name}_no_{action.lower()} BEFORE {action} ON {name} "
        "BEGIN SELECT RAISE(ABORT, 'entries are only ever added'); END"
        for name in names
        for action in ("UPDATE", "DELETE")
    )


P = ParamSpec("P")
R = TypeVar("R")

_LOCK = 0x5F0C05  # any number that other programs are unlikely to lock
_COLUMNS = ("number", "purpose", "person", "agreed", "time", "dated")


def _guarded(
    method: Callable[Concatenate[ConsentLog, P], R],
) -> Callable[Concatenate[ConsentLog, P], R]:
    """Turn a driver's error, which may quote people, into one of ours.

    Our error is raised after the `except` block, so that the driver's is not even its context.
    """

    @wraps(method)
    def call(log: ConsentLog, /, *arguments: P.args, **options: P.kwargs) -> R:
        log.check_process()
        try:
            return method(log, *arguments, **options)
        except SfumatoError:
            raise
        except Exception as error:  # noqa: BLE001  a registry that failed in any way is closed
            cause, busy = type(getattr(error, "orig", None) or error).__name__, log.is_busy(error)
        raise log.failure(cause, busy=busy)

    return call


class ConsentLog:
    """Changes of consent in a database. Safe for any number of threads and processes."""

    def __init__(
        self,
        engine: Engine,
        dialect: Dialect,
        head: OutsideHead,
        *,
        tell_operator: Callable[[str], None],
    ) -> None:
        self._engine, self._dialect, self._head = engine, dialect, head
        self._tell_operator = tell_operator
        self._stand = stand(engine.dialect.name)
        self._process = this_process()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    @_guarded
    def _begin(self) -> None:
        """Create the tables if there are none, and repair the head after a crash."""
        with self._dialect.reading(self._engine) as connection, connection.begin():
            if self._stands(connection) and _position(connection) == self._head.read():
                return  # the usual case takes no lock
        with self._head.lock(), self._transaction() as connection:
            self._dialect.lock_creation(connection)
            if not self._stands(connection):
                # Tables, triggers and the first entry in one transaction: a crash leaves all of it
                # or nothing.
                metadata.create_all(connection, checkfirst=False)
                for statement in protections(self._engine.dialect.name):
                    connection.exec_driver_sql(statement)
                connection.execute(ADD_ENTRY, [first_entry()._asdict()])
        with self._head.lock(), self._dialect.reading(self._engine) as connection:
            position, outside = _position(connection), self._head.read()
            # A process that died between commit and head left a database that is ahead: that is
            # safe to accept if it holds all that the head has seen. A log of one entry is empty.
            begun = outside is None and position.seq == 1
            if position != outside and (begun or _follows(connection, outside)):
                self._head.write(position)

    def _stands(self, connection: Connection) -> bool:
        return self._engine.dialect.has_table(connection, entries.name)

    @_guarded
    def check(self) -> Position:
        """Return the last position; refuse a log that lost changes."""
        with self._reading() as connection:
            return _position(connection)

    @_guarded
    def standing(self, population: str, purpose: str, since: Position | None) -> ConsentStanding:
        """Everybody who agreed, or all who changed since a position that the log still has."""
        parameters = {"of_population": population, "of_purpose": purpose}
        with self._reading() as connection:
            position = _position(connection)
            # A base from before a rollback is of another history: changes since it would mean
            # nothing.
            if since is None or not _follows(connection, since):
                people = list(connection.scalars(AGREED, parameters))
                return ConsentStanding(position, people, [True] * len(people), is_complete=True)
            rows = connection.execute(CHANGED, {**parameters, "since": since.seq}).all()
        people, agreed = [row[0] for row in rows], [row[1] == 1 for row in rows]
        return ConsentStanding(position, people, agreed, is_complete=False)

    @_guarded
    def record(
        self, population: str, changed_answers: Sequence[ConsentChange], *, operator: str
    ) -> Recorded:
        """Record changes, all or none; answers that are the same as before add nothing."""
        if not changed_answers:
            return Recorded(self.check().seq, 0, 0)
        # Compared inside the database under the writer's lock: two imports at once cannot both
        # count a change that only the first of them made.
        with self._writing() as connection:
            arriving.create(connection, checkfirst=False)
            self._fill(connection, changed_answers)
            parameters = {"of_population": population}
            older = connection.scalar(COUNT_OLDER, parameters) or 0
            before = _position(connection)
            new = {"of_seq": before.seq + 1}
            connection.execute(ADD_CHANGES, {**parameters, **new})
            changed = connection.scalar(COUNT_CHANGES, new) or 0
            arriving.drop(connection, checkfirst=False)
            # No entry without a change: the version would move, and stored bases with it, for
            # nothing.
            if not changed:
                return Recorded(before.seq, 0, older)
            entry = {"kind": "changes", "population": population}
            position = self._link(connection, before, operator, **entry)
        return Recorded(position.seq, changed, older)

    @_guarded
    def acknowledge(self, *, operator: str) -> int | None:
        """Accept a log that lost changes: every yes becomes a no, since withdrawals may be lost."""
        with self._head.lock():
            lost = self._head.read()
            with self._transaction() as connection:
                self._lock(connection)
                if _follows(connection, lost):
                    return None
                before = _position(connection)
                # Skip the numbers of lost entries: receipts may name them.
                if lost is not None and lost.seq > before.seq:
                    before = before._replace(seq=lost.seq)
                new = {"of_seq": before.seq + 1}
                connection.execute(VOID_ALL, {**new, "of_time": current_time()})
                count = connection.scalar(COUNT_CHANGES, new)
                record = None if lost is None else lost._asdict()
                position = self._link(connection, before, operator, kind="rollback", lost=record)
            self._head.write(position)
            return count

    @_guarded
    def rows(self, population: str) -> list[tuple[str, str, bool, str]]:
        """The present answers of a population: person, purpose, whether agreed, time."""
        with self._reading() as connection:
            result = connection.execute(ALL_STANDING, {"of_population": population})
            return [(row[0], row[1], row[2] == 1, row[3]) for row in result]

    @_guarded
    def counts(self, population: str) -> dict[tuple[str, bool], int]:
        """How many answers of yes and no there are for each purpose."""
        with self._reading() as connection:
            result = connection.execute(COUNTS, {"of_population": population})
            return {(row[0], row[1] == 1): row[2] for row in result}

    @_guarded
    def history(self, population: str, person: str) -> list[tuple[int, str, bool, str]]:
        """All changes of one person: version, purpose, whether agreed, time."""
        parameters = {"of_population": population, "of_person": person}
        with self._reading() as connection:
            result = connection.execute(CHANGES_ABOUT, parameters)
            return [
                (change.seq, change.purpose, change.agreed == 1, change.time) for change in result
            ]

    @_guarded
    def verify(self) -> Position:
        """Check the chain and its digests, and that `standing` follows from the changes."""
        with self._reading() as connection:
            previous, last = ORIGIN, 0
            for entry in connection.execute(ALL_ENTRIES).all():
                body = json.loads(entry.body)
                digest, number = _digest(connection, entry.seq)
                bound = body.get("digest", digest), body.get("changes", number)
                # Chain, number and digest of the changes: an entry that was altered, moved or
                # emptied shows in one.
                if (
                    link(previous, entry.body) != entry.hash
                    or body["seq"] != entry.seq
                    or bound != (digest, number)
                ):
                    raise _damaged(f"entry {entry.seq} or one of its changes is missing or changed")
                previous, last = entry.hash, entry.seq
            # Equal counts: each person and purpose has one row, and that row is the last change.
            counted = {
                connection.scalar(statement)
                for statement in (COUNT_STANDING, COUNT_KNOWN, COUNT_TRUE)
            }
            if len(counted) != 1:
                raise _damaged("somebody stands otherwise than they said")
            return Position(last, previous)

    def close(self) -> None:
        """Close connections and files."""
        self._engine.dispose()
        self._head.close()

    def _link(
        self, connection: Connection, before: Position, operator: str, **facts: object
    ) -> Position:
        """Add the entry that binds its changes to the chain, and update `standing`."""
        seq = before.seq + 1
        digest, number = _digest(connection, seq)
        # Canonical JSON: the same facts are the same bytes, which the hash of the entry covers.
        body = canonical(
            {**facts, "changes": number, "digest": digest, "operator": operator, "seq": seq,
             "time": current_time()}
        )  # fmt: skip
        position = Position(seq, link(before.hash, body))
        connection.execute(ADD_ENTRY, [{"seq": seq, "body": body, "hash": position.hash}])
        connection.execute(self._stand, {"of_seq": seq})
        return position

    def _fill(self, connection: Connection, changed_answers: Sequence[ConsentChange]) -> None:
        rows = (
            (
                number,
                change.purpose,
                change.person,
                int(change.agreed),
                change.time,
                int(change.dated),
            )
            for number, change in enumerate(changed_answers, 1)
        )
        if self._engine.dialect.name == "postgresql":
            driver = connection.connection.driver_connection
            assert driver is not None
            # COPY takes a million changes in seconds, single INSERTs in minutes.
            with driver.cursor() as cursor, cursor.copy(f"COPY {arriving.name} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        placeholders = ", ".join("?" * len(_COLUMNS))
        connection.exec_driver_sql(
            f"INSERT INTO {arriving.name} VALUES ({placeholders})", list(rows)
        )

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction of the only writer. The head moves after the commit, never before it.

        A crash between the two leaves a head that is behind, which `_begin` repairs. A head that
        is ahead would look like a rollback.
        """
        with self._head.lock():
            outside = self._head.read()
            with self._transaction() as connection:
                self._lock(connection)
                _check(connection, outside)
                yield connection
                position = _position(connection)
            if position != outside:
                self._head.write(position)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        outside = self._head.read()  # before the database, which only grows meanwhile
        with self._dialect.reading(self._engine) as connection, connection.begin():
            _check(connection, outside)
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._dialect.writing(self._engine) as connection, connection.begin():
            yield connection

    def _lock(self, connection: Connection) -> None:
        if self._engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    def check_process(self) -> None:
        """Refuse to share connections with the process that this one was forked from."""
        # Two processes on one connection would mix their statements and answers.
        if self._process != this_process():
            raise LedgerError(
                "object_not_shareable",
                "A registry of consent cannot be used in a forked process. Open the vault there.",
            )

    def failure(self, cause: str, *, busy: bool) -> LedgerError:
        """One error for all failures of the storage; only the operator's log has the cause."""
        self._tell_operator(f"registry of consent: {cause}")
        if busy:
            return LedgerError(
                "consent_unavailable",
                "The registry of consent is held by another process for too long. Nothing was "
                "changed. Try again later.",
            )
        return LedgerError(
            "consent_unavailable",
            "The registry of consent cannot be read or written; nothing was changed or charged. "
            "Its operator finds the cause in the vault's failures.log.",
        )

    def is_busy(self, error: Exception) -> bool:
        """Whether an error means that another process held the lock for too long."""
        return isinstance(error, DBAPIError) and self._dialect.is_busy(error)


def _position(connection: Connection) -> Position:
    row = connection.execute(LAST_ENTRY).first()
    if row is None:
        raise _damaged("it has no entries")
    return Position(row.seq, row.hash)


def _follows(connection: Connection, outside: Position | None) -> bool:
    """Whether a position is part of the log; then so is everything before it."""
    # No head, but entries: whoever removed the head may have put an old database in place.
    if outside is None:
        return False
    entry = connection.execute(ONE_ENTRY, {"of_seq": outside.seq}).first()
    return entry is not None and entry.hash == outside.hash


def _check(connection: Connection, outside: Position | None) -> None:
    if not _follows(connection, outside):
        raise RolledBackError(
            "consent_rolled_back",
            "The registry of consent is older than its outside head, or another one, or the head "
            "is missing: withdrawals may be lost. No fresh answer is given. Put the right files "
            "back, or settle it with 'sfumato consent acknowledge', which voids every yes.",
            detail=f"outside {outside}, database {_position(connection)}",
        )


def _digest(connection: Connection, seq: int) -> tuple[str, int]:
    """The SHA-256 of the changes of an entry, one line of JSON for each page, and their number."""
    hasher, after = hashlib.sha256(), 0
    while rows := connection.execute(CHANGES_OF, {"of_seq": seq, "after": after}).all():
        hasher.update(f"{canonical([tuple(row) for row in rows])}\n".encode())
        after = rows[-1].number
    return hasher.hexdigest(), after


def _damaged(damage: str) -> LedgerError:
    return LedgerError(
        "consent_damaged",
        f"The registry of consent is damaged: {damage}. Restore a backup and settle the loss with "
        "'sfumato consent acknowledge', then import what people said again.",
    )
