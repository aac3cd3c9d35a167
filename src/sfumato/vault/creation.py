"""How a vault begins and grows: everything is checked first, then it is changed in one step.

The step is the writing of `vault.toml`, so that a folder is a vault or is not, and a data set is in
it or is not. What a killed `init` left is known by its ledger, which holds nothing but the first
entry: it has promised nobody anything, and the next `init` goes on with it. What the ledger lacks
of an added data set is opened and bound by whoever opens the vault next.
Decisions 0099, 0171, 0182.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import tomlkit

from sfumato.data.engines.sources import identify
from sfumato.errors import LedgerError, OutputError, SfumatoError, option
from sfumato.privacy.ledger.commit import recorded_head
from sfumato.release.files_in_use import ANSWERS, SECRET, VAULT
from sfumato.release.fingerprint_key import write_secret
from sfumato.release.open_table import read
from sfumato.vault.accounts import check_accounts, create_ledger, open_accounts, open_ledger
from sfumato.vault.config import PrivateSet, locked, save
from sfumato.vault.sources import KnownSources, look, rows_of, secret_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tomlkit.items import Array, Table

    from sfumato.data.schema.schema import Schema
    from sfumato.privacy.accounting.filters import Budget
    from sfumato.release.open_table import Table as Rows
    from sfumato.vault.config import Config, PublicSet

_TAKEN = -1


@contextmanager
def begun(config: Config) -> Iterator[None]:
    """Make all of a vault but its configuration, which is to be written at the end."""
    _check_all(config)
    existed = config.head.exists()
    with _made(config.folder), locked(config.folder):
        _check_all(config)
        _create_unused(config, existed=existed)
        (config.folder / ANSWERS).mkdir(mode=0o700, exist_ok=True)
        yield


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder, and those above it; after a refusal those that are empty go again."""
    absent = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error.strerror) from None
    try:
        yield
    except SfumatoError:
        with suppress(OSError):  # what is not empty is somebody's, or an `init` to be repeated
            for one in absent:
                one.rmdir()
        raise


def _check_all(config: Config) -> None:
    """Refuse what cannot become a vault, before anything is made for it."""
    folder, head = config.folder, config.head
    if (folder / VAULT).exists():
        raise OutputError(
            "vault_exists", f"'{folder}' already holds a vault. Choose another folder."
        )
    given = folder / config.database
    database = given.parent.resolve() / given.name
    if not _is_address(config):
        from sfumato.privacy.ledger.sql.sqlite import check_outside

        check_outside(database, head)
    place = folder
    while not os.path.lexists(place):
        place = place.parent
    apart = () if _is_address(config) or database.parent == folder else (database.parent,)
    for one in (place, head.parent, *apart):
        if not one.is_dir():
            raise _unwritable(one, "it is not a folder")
        if not os.access(one, os.W_OK | os.X_OK):
            raise _unwritable(one, "nothing may be written there")
    entries = 0 if _is_address(config) or not database.exists() else _entries(database)
    if entries not in (0, 1):
        raise OutputError(
            "vault_unconfigured",
            f"'{database}' is in use, but '{folder}' has no {VAULT}. If it is a vault's ledger, "
            f"put its {VAULT} back; else choose another folder.",
        )
    if head.exists() and not (entries or _is_address(config) or database.exists()):
        raise _foreign(head)


def _create_unused(config: Config, *, existed: bool) -> None:
    """Create the ledger and its head, or find those of an `init` that was interrupted."""
    if existed and recorded_head(config.head) is None and config.head.read_bytes().strip(b"\0"):
        raise _foreign(config.head)
    try:
        create_ledger(config)
    except LedgerError as error:
        if error.code == "ledger_failed":
            raise _uncreated(error) from None
        if error.code != "ledger_exists":
            raise
    else:
        return
    if existed:
        raise _foreign(config.head)
    config.head.unlink()
    raise OutputError(
        "ledger_taken",
        "The database already holds the ledger of a vault. Name another one with "
        f"{option('ledger')}, or put that vault's folder back.",
    )


def _entries(database: Path) -> int:
    """How many entries a database holds; a file that is no ledger is taken."""
    if database.stat().st_size == 0:
        return 0
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True)) as opened:
            named = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'sfumato_entries'"
            if not opened.execute(named).fetchone()[0]:
                tables = opened.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0]
                return _TAKEN if tables else 0
            return int(opened.execute("SELECT COUNT(*) FROM sfumato_entries").fetchone()[0])
    except sqlite3.Error:
        return _TAKEN


def _is_address(config: Config) -> bool:
    return "://" in config.database


def _unwritable(place: Path, reason: str | None) -> OutputError:
    return OutputError(
        "output_unwritable", f"Cannot create a vault in '{place}': {reason}. Choose another."
    )


def _uncreated(error: LedgerError) -> LedgerError:
    """There is no vault yet, so nobody but its operator hears what the system said."""
    return LedgerError(
        "ledger_uncreated",
        f"Cannot create the ledger: {' '.join((error.detail or '').split())}. Nothing was made. "
        f"Mend the cause, or name another database with {option('ledger')}.",
    )


def _foreign(head: Path) -> OutputError:
    return OutputError(
        "head_exists",
        f"'{head}' belongs to another ledger, perhaps of a vault that was removed. Name another "
        f"file with {option('head')}, or remove it if that vault is gone for good. If an 'init' "
        "was interrupted, repeat it with the same options.",
    )


_FAILED = {"engine_failed", "table_missing"}
"""How a view fails that reads what its engine may not reach."""


class Addition:
    """A data set on its way into a vault, whose configuration nobody else changes meanwhile."""

    def __init__(self, config: Config, name: str, warn: Callable[[str], None]) -> None:
        self._config = config
        self._name = name
        self._renewed: Mapping[str, tuple[str, ...]] = {}
        self._stack = ExitStack()
        self._ledger = open_ledger(config)
        try:
            self._secret = secret_of(config, self._ledger)
        except BaseException:
            self._ledger.close()
            raise
        self._stack.callback(self._ledger.close)
        self._sources = KnownSources(config, self._ledger, self._secret, warn)

    def __enter__(self) -> Addition:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def opened(self, source: str, schema: Schema) -> Iterator[Rows]:
        """Open a source; of a view that fails because it reaches outside, say that."""
        try:
            with closing(read(source, schema)) as table:
                yield table
        except SfumatoError as error:
            if error.code in _FAILED:
                identify(source)
            raise

    def identity(
        self, source: str, table: Rows, population: str | None, purposes: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Refuse a source that is known by another name; return what to record of it."""
        new = look(source, table, self._secret)
        found = self._sources.check(new, population, rows_of(table), purposes)
        self._renewed = self._sources.renewed(found)
        return new.record

    def make(
        self,
        held: PrivateSet | PublicSet,
        entry: Table,
        *,
        budgets: Mapping[str, Budget],
        amounts: Mapping[str, Table],
    ) -> None:
        """Check the accounts, write the configuration, then bring the ledger up to it."""
        sets = {
            name: replace(one, identity=self._renewed.get(name, one.identity))
            for name, one in self._config.datasets.items()
        }
        new = replace(
            self._config,
            datasets={**sets, self._name: held},
            budgets={**self._config.budgets, **budgets},
        )
        check_accounts(self._ledger, new)
        entry["identity"] = _lines(held.identity)
        self._write(entry, amounts)
        open_accounts(self._ledger, new)

    def _write(self, entry: Table, amounts: Mapping[str, Table]) -> None:
        """Add to the configuration; what its owner wrote beside it stays as it is."""
        folder = self._config.folder
        key, keyless = folder / SECRET, not (folder / SECRET).exists()
        document = tomlkit.parse((folder / VAULT).read_text(encoding="utf-8"))
        for table, added in (("populations", amounts), ("datasets", {self._name: entry})):
            if added:
                tables = document.setdefault(table, tomlkit.table(is_super_table=True))
                for one, values in added.items():
                    tables[one] = values
        for name, identity in self._renewed.items():
            document["datasets"][name]["identity"] = _lines(identity)
        if keyless:
            write_secret(key, self._secret)
        try:
            save(folder, tomlkit.dumps(document))
        except BaseException:
            if keyless:
                key.unlink(missing_ok=True)
            raise


def _lines(identity: tuple[str, ...]) -> Array:
    listed = tomlkit.array()
    listed.extend(identity)
    return listed.multiline(multiline=True)
