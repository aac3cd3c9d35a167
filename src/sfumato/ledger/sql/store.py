"""The book in a database; what differs between databases is given by a `Dialect`."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from sqlalchemy.exc import DBAPIError

from sfumato.errors import LedgerError
from sfumato.ledger.book import FORMAT, first_entry
from sfumato.ledger.sql import statements
from sfumato.ledger.sql.tables import entries, metadata
from sfumato.ledger.sql.view import Known, SqlView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine


class Dialect(Protocol):
    """What differs between databases."""

    @property
    def protections(self) -> tuple[str, ...]:
        """Statements, run once, after which the database itself refuses to change an entry."""

    def writing(self, engine: Engine) -> Connection:
        """A connection for one writer at a time."""

    def reading(self, engine: Engine) -> Connection:
        """A connection whose transactions see one moment."""

    def lock_creation(self, connection: Connection) -> None:
        """Keep all others from creating the tables."""

    def lock(self, connection: Connection) -> None:
        """Keep all others from writing until the transaction ends."""

    def is_busy(self, error: DBAPIError) -> bool:
        """Whether somebody else held the lock for too long."""

    def check_storage(self, connection: Connection) -> None:
        """Raise when the database finds damage in its own files."""


def missing() -> LedgerError:
    """The error for a database that is gone or empty: an empty one would be a fresh budget."""
    return LedgerError(
        "ledger_missing",
        "The ledger's database is missing or holds no ledger. No answer is given. Put it back, or "
        "a backup of it and acknowledge the loss; only 'sfumato init' creates a ledger.",
    )


class SqlStore:
    """A book in a database."""

    def __init__(self, engine: Engine, dialect: Dialect, *, create: bool = False) -> None:
        self._engine = engine
        self._dialect = dialect
        self._known: Known | None = None
        try:
            if create:
                self._create()
            self._check_version()
        except BaseException:
            self.close()
            raise

    def _create(self) -> None:
        """Create the tables and the first entry, unless they stand."""
        with self._transaction() as connection:
            with self._patience():
                self._dialect.lock_creation(connection)
            if self._stands(connection):
                return
            metadata.create_all(connection, checkfirst=False)
            for statement in self._dialect.protections:
                connection.exec_driver_sql(statement)
            connection.execute(statements.ADD_TURN, {"id": 1})
            view = SqlView(connection, self._dialect.check_storage)
            view.add_entries([first_entry()])

    def _stands(self, connection: Connection) -> bool:
        return self._engine.dialect.has_table(connection, entries.name)

    def _check_version(self) -> None:
        """Refuse a database without a book, which is never taken for an empty one."""
        with self._dialect.reading(self._engine) as connection, connection.begin():
            if not self._stands(connection):
                raise missing()
            found = SqlView(connection, self._dialect.check_storage).entry(1)
        if found is None or json.loads(found.body).get("format") != FORMAT:
            raise LedgerError(
                "ledger_version",
                f"The ledger was written by another version; this one reads format {FORMAT} only.",
            )

    @contextmanager
    def reading(self) -> Iterator[SqlView]:
        """A view of one moment."""
        with self._dialect.reading(self._engine) as connection, connection.begin():
            yield SqlView(connection, self._dialect.check_storage)

    @contextmanager
    def writing(self) -> Iterator[SqlView]:
        """A view under the write lock; durable when the block ends, undone when it raises."""
        known, self._known = self._known, None
        with self._transaction() as connection:
            with self._patience():
                self._dialect.lock(connection)
            view = SqlView(connection, self._dialect.check_storage, known)
            yield view
        # Only a commit that returned makes what was written known.
        self._known = view.known

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._dialect.writing(self._engine) as connection:
            with self._patience():
                transaction = connection.begin()
            with transaction:
                yield connection

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Tell a lock that another holds, after which nothing is lost, from a failure."""
        try:
            yield
        except DBAPIError as error:
            if not self._dialect.is_busy(error):
                raise
            raise LedgerError(
                "ledger_busy",
                "The ledger is held by another process for too long. Try again later.",
            ) from None
