"""One more data set in a vault: everything is checked first, then it is changed in one step.

The step is the writing of `vault.toml`. What the ledger lacks after it, because a process died
between the two, is opened and bound by whoever opens the vault next.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import tomlkit

from sfumato.engines.sources import identify
from sfumato.errors import SfumatoError
from sfumato.vault.accounts import check_accounts, open_accounts, open_ledger
from sfumato.vault.config import NAME, PrivateSet, save
from sfumato.vault.kept import SECRET
from sfumato.vault.secret import keep
from sfumato.vault.sources import Sources, look, rows_of, secret_of
from sfumato.vault.table import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from tomlkit.items import Array, Table

    from sfumato.privacy.filters import Budget
    from sfumato.schema.schema import Schema
    from sfumato.vault.config import Config, PublicSet
    from sfumato.vault.table import Table as Rows

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
        self._sources = Sources(config, self._ledger, self._secret, warn)

    def __enter__(self) -> Addition:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

    def identity(self, source: str, table: Rows, population: str | None) -> tuple[str, ...]:
        """Refuse a source that is known by another name; return what to record of it."""
        new = look(source, table, self._secret)
        found = self._sources.check(new, population, rows_of(table))
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
        document = tomlkit.parse((folder / NAME).read_text(encoding="utf-8"))
        for table, added in (("populations", amounts), ("datasets", {self._name: entry})):
            if added:
                tables = document.setdefault(table, tomlkit.table(is_super_table=True))
                for one, values in added.items():
                    tables[one] = values
        for name, identity in self._renewed.items():
            document["datasets"][name]["identity"] = _lines(identity)
        if keyless:
            keep(key, self._secret)
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
