"""A small database beside a vault's ledger: a file in its folder, or tables in its PostgreSQL."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy.exc import IntegrityError

from sfumato.errors import LedgerError, SfumatoError
from sfumato.text import without_passwords
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine, MetaData

    from sfumato.privacy.ledger.sql.store import Dialect
    from sfumato.vault.config import Config


class BesideLedger:
    """Tables for any number of threads, processes and hosts; failures go to the operator's log."""

    def __init__(self, config: Config, file: str, tables: MetaData) -> None:
        self._tell = partial(note_failure, config.folder, file)
        self._engine: Engine
        self._dialect: Dialect
        if config.database.startswith(("postgresql://", "postgres://")):
            from sfumato.privacy.ledger.sql.postgres import PostgresDialect, postgres_engine

            self._engine, self._dialect = postgres_engine(config.database), PostgresDialect()
        else:
            from sfumato.privacy.ledger.sql.sqlite import SqliteDialect, sqlite_engine

            path = config.folder / file
            self._engine, self._dialect = sqlite_engine(path, create=True), SqliteDialect()
        with self.writing() as connection:
            self._dialect.lock_creation(connection)
            tables.create_all(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes; `lock` lets those about one subject follow each other."""
        opened = self._dialect.writing
        with self._guarded(), opened(self._engine) as connection, connection.begin():
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

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one moment."""
        opened = self._dialect.reading
        with self._guarded(), opened(self._engine) as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (SfumatoError, IntegrityError):
            raise
        except Exception as error:  # noqa: BLE001 - one closed door for all
            cause = without_passwords(f"{type(error).__name__}: {getattr(error, 'orig', error)}")
        else:
            return
        self._tell(cause)
        raise LedgerError(
            "console_unavailable",
            "What the console keeps beside the ledger cannot be reached. Try again later; its "
            "operator finds the cause in the vault's failures.log.",
            detail=cause,
        )
