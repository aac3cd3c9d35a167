"""A side database: tables beside a vault's ledger, for its jobs, console, rehearsals and streams.

It is a file in the vault's folder, or tables in the ledger's PostgreSQL. Budgets, charges and
answers are in the ledger alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Integer, Text
from sqlalchemy.exc import IntegrityError

from sfumato.errors import LedgerError, SfumatoError
from sfumato.text import without_passwords
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine, MetaData

    from sfumato.privacy.ledger.sql.store import Dialect
    from sfumato.vault.config import Config

Int64 = BigInteger().with_variant(Integer(), "sqlite")
# Compared byte by byte: a collation could take two principals for one.
Name = Text().with_variant(Text(collation="C"), "postgresql")


def side_engine(config: Config, file: str) -> tuple[Engine, Dialect]:
    """Open the database beside a vault's ledger: a file in its folder, or its PostgreSQL."""
    if config.in_postgres:
        from sfumato.privacy.ledger.sql.postgres import PostgresDialect, postgres_engine

        return postgres_engine(config.database), PostgresDialect()
    from sfumato.privacy.ledger.sql.sqlite import SqliteDialect, sqlite_engine

    return sqlite_engine(config.folder / file, create=True), SqliteDialect()


class SideDatabase:
    """Tables for any number of threads, processes and hosts. Every failure of it is a refusal.

    Parameters
    ----------
    config
        The vault's configuration, which says where the ledger is.
    file
        The name of the file in the vault's folder, unless the ledger is in PostgreSQL.
    tables
        The tables, created unless they exist.
    subject
        Their content, for error texts: "jobs".
    """

    def __init__(self, config: Config, file: str, tables: MetaData, subject: str) -> None:
        self._subject = subject
        self._tell_operator = partial(note_failure, config.folder, f"store of {subject}")
        self._engine, self._dialect = side_engine(config, file)
        with self.writing() as connection:
            # Two servers that start together must not both create the tables.
            self._dialect.lock_creation(connection)
            tables.create_all(connection)

    @property
    def dialect_name(self) -> str:
        """The database's name in SQLAlchemy: "sqlite" or "postgresql"."""
        return self._engine.dialect.name

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A writing transaction; `lock` serializes those about one subject."""
        with (
            self._guarded(),
            self._dialect.writing(self._engine) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one moment."""
        with (
            self._guarded(),
            self._dialect.reading(self._engine) as connection,
            connection.begin(),
        ):
            yield connection

    @staticmethod
    def lock(connection: Connection, subject: str) -> None:
        """Wait until nobody else writes about a subject, so that counting before adding is exact.

        SQLite has one writer at a time. In PostgreSQL writers run side by side: each would count
        before the others have added, and all would pass a limit together.
        """
        if connection.dialect.name == "postgresql":
            number = int.from_bytes(sha256(subject.encode()).digest()[:7])
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({number})")

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def failure(self, cause: str) -> LedgerError:
        """The error for a store that failed; only the operator's log has the cause."""
        cause = without_passwords(cause)
        self._tell_operator(cause)
        return LedgerError(
            "store_unavailable",
            f"The store of {self._subject} does not answer; what was kept in it stays.",
            hint="Try again later; its operator finds the cause in the vault's failures.log.",
            detail=cause,
        )

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn a driver's error into ours, except `IntegrityError`: another writer was first."""
        try:
            yield
        except (SfumatoError, IntegrityError):
            raise
        except Exception as error:  # noqa: BLE001 - the closed door is the same for all
            failure = self.failure(f"{type(error).__name__}: {getattr(error, 'orig', error)}")
        else:
            return
        # Outside the handler: the driver's error, which may quote rows, is not even the context.
        raise failure
