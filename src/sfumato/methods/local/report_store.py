"""The store of a round's reports: a SQLite file with a multiset of randomized reports.

A report is stored as its content and a count, without time, address, order or ticket. Used tickets
are in a table of their own, sorted by digest. So a thief of the file learns only the randomized
reports as a multiset. An item is accepted only once it is on the disk; a killed process leaves all
of a delivery or nothing. Closing is final: triggers of the database refuse later reports. If the
file is replaced while it is open, it takes nothing, because the new file does not know used tickets
and the end of the round. Decisions `surveys` and `ledger`.

The public sees a copy that is renewed by groups of reports. The exact multiset, read after every
arrival, would reveal the content and time of each report.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from sfumato.errors import InternalError, PolicyError, SourceError
from sfumato.filesystem import sync
from sfumato.platform_support import OpenedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

FORMAT = "2"
RENEWED_EVERY = 20
"""The number of new reports that renews the public copy."""
_PATIENCE_SECONDS = 30.0
_PRAGMAS = (
    # A write-ahead log would keep old pages, and so the order of arrival. This journal is emptied
    # at every commit, and `secure_delete` overwrites deleted rows.
    ("journal_mode", "TRUNCATE"),
    ("synchronous", "FULL"),
    ("secure_delete", "ON"),
    ("temp_store", "MEMORY"),
    ("trusted_schema", "OFF"),
)
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE reports (
    way TEXT NOT NULL, report BLOB NOT NULL, people INTEGER NOT NULL CHECK (people > 0),
    PRIMARY KEY (way, report)
) STRICT, WITHOUT ROWID;
CREATE TABLE published (
    way TEXT NOT NULL, report BLOB NOT NULL, people INTEGER NOT NULL, PRIMARY KEY (way, report)
) STRICT, WITHOUT ROWID;
CREATE TABLE used (ticket BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE rejected (reason TEXT PRIMARY KEY, items INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER closed_to_new BEFORE INSERT ON reports
    WHEN EXISTS (SELECT 1 FROM about WHERE name = 'closed')
    BEGIN SELECT RAISE(ABORT, 'closed'); END;
CREATE TRIGGER closed_to_more BEFORE UPDATE ON reports
    WHEN EXISTS (SELECT 1 FROM about WHERE name = 'closed')
    BEGIN SELECT RAISE(ABORT, 'closed'); END;
CREATE TRIGGER never_fewer BEFORE DELETE ON reports BEGIN SELECT RAISE(ABORT, 'kept'); END;
CREATE TRIGGER final BEFORE DELETE ON about BEGIN SELECT RAISE(ABORT, 'final'); END;
CREATE TRIGGER once BEFORE UPDATE ON about BEGIN SELECT RAISE(ABORT, 'final'); END;
"""


@dataclass(frozen=True)
class Item:
    """A report that passed every check except that its ticket is new."""

    way: str
    report: bytes
    """The bytes of its row."""
    ticket: bytes
    """The digest of its ticket."""


@dataclass(frozen=True)
class StoredReports:
    """The content of a store: people by way and report, rejected items by reason, closing time."""

    reports: Mapping[tuple[str, bytes], int]
    rejected: Mapping[str, int]
    closed: str | None


class ReportStore:
    """The file of one round's reports; several processes may use it at once."""

    def __init__(self, path: Path, round_id: str) -> None:
        self._path = path
        self._lock = Lock()
        fresh = not path.exists()
        with self._closed_on_failure():
            self._base = sqlite3.connect(
                path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._opened = OpenedFile(path, path.lstat())
            try:
                self._prepare(round_id, fresh=fresh)
            except BaseException:
                self._base.close()
                raise

    def _prepare(self, round_id: str, *, fresh: bool) -> None:
        if fresh:
            self._path.chmod(0o600)
        for name, value in _PRAGMAS:
            self._base.execute(f"PRAGMA {name}={value}")
        with self._writing():
            if not self._base.execute("SELECT 1 FROM sqlite_schema").fetchone():
                for statement in _statements(_TABLES):
                    self._base.execute(statement)
                facts = [("format", FORMAT), ("round", round_id)]
                self._base.executemany("INSERT INTO about VALUES (?, ?)", facts)
        # A new file's name must survive a crash before any item is accepted.
        sync(self._path.parent)
        if (self._about("format"), self._about("round")) != (FORMAT, round_id):
            raise SourceError(
                "round_differs",
                f"'{self._path.name}' holds the reports of another round, or was made by another "
                "version. Move it away, or name the round's file as it was.",
            )

    def add(self, items: Iterable[tuple[int, Item]], rejected: Mapping[str, int]) -> list[int]:
        """Store the items with new tickets, in one transaction.

        Parameters
        ----------
        items : iterable of (int, Item)
            The index and the item; read lazily, while the transaction is open.
        rejected : mapping
            Numbers of rejected items by reason; read after the last item.

        Returns
        -------
        list of int
            The indices of replayed items.

        Raises
        ------
        PolicyError
            If the round is closed.
        InternalError
            If the disk or the database fails, or the file was replaced; nothing is stored then.
        """
        with self._lock, self._closed_on_failure(), self._writing():
            self._check_open()
            self._base.execute(
                "CREATE TEMP TABLE IF NOT EXISTS came (place INTEGER PRIMARY KEY, way, report, "
                "ticket)"
            )
            self._base.execute("DELETE FROM came")
            self._base.executemany(
                "INSERT INTO came VALUES (?, ?, ?, ?)",
                ((index, item.way, item.report, item.ticket) for index, item in items),
            )
            # The first of several items with one ticket counts.
            replayed = self._base.execute(
                "SELECT place FROM came WHERE ticket IN (SELECT ticket FROM used) OR place NOT IN "
                "(SELECT MIN(place) FROM came GROUP BY ticket) ORDER BY place"
            ).fetchall()
            self._base.executemany("DELETE FROM came WHERE place = ?", replayed)
            self._base.execute("INSERT INTO used SELECT ticket FROM came")
            self._base.execute(
                "INSERT INTO reports SELECT way, report, COUNT(*) FROM came GROUP BY way, report "
                "ON CONFLICT DO UPDATE SET people = people + excluded.people"
            )
            reasons = dict(rejected)
            if replayed:
                reasons["replayed"] = reasons.get("replayed", 0) + len(replayed)
            self._base.executemany(
                "INSERT INTO rejected VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET items = items + excluded.items",
                sorted(reasons.items()),
            )
            self._base.execute("DELETE FROM came")
            self._publish(RENEWED_EVERY)
        return [index for (index,) in replayed]

    def _publish(self, least: int) -> None:
        """Renew the public copy if at least so many reports are new."""
        hidden = "(SELECT TOTAL(people) FROM reports) - (SELECT TOTAL(people) FROM published)"
        if self._base.execute(f"SELECT {hidden}").fetchone()[0] >= least:
            self._base.execute("DELETE FROM published")
            self._base.execute("INSERT INTO published SELECT * FROM reports")

    def close_round(self, when: str) -> None:
        """Refuse reports from now on, permanently, and delete the used tickets."""
        with self._lock, self._closed_on_failure():
            with self._writing():
                self._check_open()
                self._base.execute("INSERT INTO about VALUES ('closed', ?)", (when,))
                self._base.execute("DELETE FROM used")
                self._publish(1)
            # The position of a row on its page reveals the order of arrival: rewrite all pages.
            self._base.execute("VACUUM")

    def read(self) -> StoredReports:
        """All reports, for the collector alone."""
        return self._held("reports")

    def published(self) -> StoredReports:
        """The public copy: all reports except the last few, or all of a closed round."""
        return self._held("published")

    def _held(self, table: str) -> StoredReports:
        with self._lock, self._closed_on_failure():
            self._base.execute("BEGIN")
            try:
                self._check_in_place()
                reports = self._base.execute(f"SELECT way, report, people FROM {table}").fetchall()
                rejected = self._base.execute("SELECT reason, items FROM rejected").fetchall()
                closed = self._about("closed")
            finally:
                self._base.execute("COMMIT")
        counted = {(way, report): people for way, report, people in reports}
        return StoredReports(counted, dict(rejected), closed)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._base.close()

    def _check_open(self) -> None:
        if self._about("closed") is not None:
            raise round_closed()

    def _check_in_place(self) -> None:
        if not self._opened.in_place():
            raise InternalError(
                "store_unavailable",
                f"The store of reports '{self._path.name}' was replaced or removed while it was "
                "open; nothing of this delivery was stored. Put it back, restart the collector, "
                "then send the delivery again.",
            )

    def _about(self, name: str) -> str | None:
        row = self._base.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            self._check_in_place()
            yield
        except BaseException:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        """Raise failures as an error with a fixed text: SQLite's text may quote reports."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise InternalError(
                "store_unavailable",
                f"The store of reports '{self._path.name}' failed; nothing of this delivery was "
                "stored. Check its disk, then send the delivery again.",
                detail=str(error),
            ) from None


def round_closed() -> PolicyError:
    """The error for reports to a closed round."""
    return PolicyError(
        "round_not_open", "The round is closed for good and takes no report. Declare a new round."
    )


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements: `executescript` would commit the open transaction."""
    statement = ""
    for line in script.strip().splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
