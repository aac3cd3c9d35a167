"""PostgreSQL: one writer by a row lock; unsafe settings are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import create_engine, event, make_url

from sfumato.errors import LedgerError
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.commit import OutsideHead
from sfumato.privacy.ledger.failure import closed_on_failure, do_nothing
from sfumato.privacy.ledger.sql.store import SqlStore
from sfumato.privacy.ledger.sql.tables import LOCK_TURN, RECORD_INDEX, is_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.exc import DBAPIError

RECORD_INDEX.dialect_options["postgresql"]["where"] = is_record("body")
_CREATION_LOCK = 0x5F0A70  # any number that other programs are unlikely to lock
_LOCK_TIMEOUT = "30s"
# The SQLSTATE of a lock timeout.
_LOCK_NOT_AVAILABLE = "55P03"
# A retried sync may report success for pages that a failed one has dropped: data_sync_retry is off.
_REQUIRED = {"fsync": ("on",), "full_page_writes": ("on",), "data_sync_retry": ("off",)}
_SYNCHRONOUS = ("on", "remote_apply")


def open_postgres(
    url: str, *, head: Path, tell_operator: Callable[[str], None] = do_nothing
) -> Ledger:
    """Open a ledger in a PostgreSQL database, with its outside head in a local file."""
    with closed_on_failure(tell_operator):
        return Ledger(postgres_store(url), head=OutsideHead(head), tell_operator=tell_operator)


def create_postgres(url: str, *, head: Path) -> Ledger:
    """Create a ledger in a PostgreSQL database that holds none."""
    with closed_on_failure():
        return Ledger.create(postgres_store(url, create=True), head=OutsideHead(head))


def postgres_store(url: str, *, create: bool = False) -> SqlStore:
    """The storage in a PostgreSQL database."""
    return SqlStore(postgres_engine(url), PostgresDialect(), create=create)


def postgres_engine(url: str) -> Engine:
    """An engine for a PostgreSQL database; settings that may lose a commit are refused."""
    address = make_url(url).set(drivername="postgresql+psycopg")
    engine = create_engine(address, isolation_level="READ COMMITTED")

    @event.listens_for(engine, "connect")
    def prepare(connection: DBAPIConnection, _: object) -> None:
        _prepare(connection)

    return engine


def _prepare(connection: DBAPIConnection) -> None:
    """Configure a connection, and refuse a server that may lose a commit."""
    cursor = connection.cursor()
    try:
        cursor.execute(
            "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes',"
            " 'data_sync_retry', 'synchronous_commit', 'synchronous_standby_names')"
        )
        settings: dict[str, str] = dict(cursor.fetchall())
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", (_LOCK_TIMEOUT,))
    finally:
        cursor.close()
    # Ends the implicit transaction, so that the pool gets an idle connection.
    connection.commit()
    check_settings(settings)


def check_settings(settings: dict[str, str]) -> None:
    """Refuse settings under which an acknowledged commit may be lost."""
    # Without standbys, remote_write and local wait for the local disk, which is enough. With them,
    # a standby may hold the commit in memory only, or not at all: a failover would lose it.
    alone = not settings.get("synchronous_standby_names")
    synchronous = (*_SYNCHRONOUS, *(("remote_write", "local") if alone else ()))
    for name, allowed in {**_REQUIRED, "synchronous_commit": synchronous}.items():
        if settings.get(name) not in allowed:
            raise LedgerError(
                "ledger_unusable",
                f"PostgreSQL runs with {name}={settings.get(name)}, under which a charge may be "
                "forgotten.",
                hint=f"Set it to {' or '.join(allowed)}.",
            )


class PostgresDialect:
    """One writer by a row lock under READ COMMITTED; readers see one moment by REPEATABLE READ."""

    protections = (
        """CREATE FUNCTION sfumato_entries_keep() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'entries are only ever added'; END $$""",
        """CREATE TRIGGER sfumato_entries_keep BEFORE UPDATE OR DELETE OR TRUNCATE
        ON sfumato_entries FOR EACH STATEMENT EXECUTE FUNCTION sfumato_entries_keep()""",
    )

    def writing(self, engine: Engine) -> Connection:
        """A connection whose statements, once it has the row lock, see all that was committed."""
        return engine.connect()

    def reading(self, engine: Engine) -> Connection:
        """A connection whose transactions see one moment."""
        return engine.connect().execution_options(isolation_level="REPEATABLE READ")

    def lock_creation(self, connection: Connection) -> None:
        """Wait until nobody else creates the tables."""
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")

    def lock(self, connection: Connection) -> None:
        """Wait for the one row that every writer locks."""
        connection.execute(LOCK_TURN)

    def is_busy(self, error: DBAPIError) -> bool:
        """Whether another session held the lock for too long."""
        return getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE

    def check_storage(self, connection: Connection) -> None:
        """PostgreSQL checks its pages as it reads them, where its checksums are on."""
