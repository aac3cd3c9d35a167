"""The engines of a vault's data sets, opened when they are first needed, after the charge."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.engines.statement import everything
from sfumato.errors import QueryError, SourceError
from sfumato.method import Dataset
from sfumato.privacy.units import Rows
from sfumato.schema.names import quoted
from sfumato.vault.consent import consenting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sqlglot import exp

    from sfumato.privacy.units import Unit
    from sfumato.vault.table import Table

HERE = "here"
"""The address of everything that DuckDB reads inside this process."""


@dataclass(frozen=True)
class Home:
    """Where a data set lives, how to open it, its unit (None for a public one), and its file.

    `consent` names the column that tells who agreed, where only those are to be seen.
    """

    address: str
    open_table: Callable[[], Table]
    unit: Unit | None
    file: Path | None = None
    consent: str | None = None


def address(source: str) -> str:
    """The database that a source belongs to; two tables of one database can be joined there."""
    scheme = source.partition("://")[0]
    if scheme in {"postgresql", "postgres", "spark"}:
        return source.partition("#")[0]
    return HERE


class Places:
    """Opens data sets and brings those of one question together in one engine."""

    def __init__(self, homes: Mapping[str, Home]) -> None:
        self._homes = homes
        self._lock = threading.Lock()
        self._opened: dict[str, Table] = {}
        self._seen: dict[tuple[str, str], exp.Table] = {}
        self._stack = ExitStack()

    def check(self, private: Sequence[str], public: Sequence[str]) -> None:
        """Refuse, before anything is charged, what is gone or would have to travel."""
        for name in (*private, *public):
            file = self._homes[name].file
            if file is not None and not file.exists():
                raise SourceError(
                    "source_missing",
                    f"The file of the data set {quoted(name)} is gone. Put it back where the "
                    "vault's configuration says.",
                )
        apart = {self._homes[name].address for name in private}
        if len(apart) > 1:
            raise QueryError(
                "engines_differ",
                f"Cannot join {', '.join(map(quoted, private))}: they lie in different databases. "
                "Ask about each apart, or copy them into one database.",
            )

    def together(self, private: Sequence[str], public: Sequence[str]) -> dict[str, Dataset]:
        """All tables of one question in the engine of the first; some are lent to it."""
        with self._lock:
            host = private[0]
            return {name: self._in(host, name) for name in (*private, *public)}

    def close(self) -> None:
        """Let go of every engine."""
        with self._lock:
            self._stack.close()
            self._opened.clear()
            self._seen.clear()

    def _open(self, name: str) -> Table:
        if name not in self._opened:
            table = self._homes[name].open_table()
            self._stack.callback(table.close)
            self._opened[name] = table
        return self._opened[name]

    def _in(self, host: str, name: str) -> Dataset:
        hosting, own = self._open(host), self._open(name)
        if (host, name) not in self._seen:
            self._seen[host, name] = self._see(host, name)
        unit = self._homes[name].unit or Rows()
        return Dataset(name, hosting.engine, self._seen[host, name], own.schema, unit)

    def _see(self, host: str, name: str) -> exp.Table:
        """A data set as the engine of another sees it, without people who did not agree."""
        hosting, own = self._open(host).engine, self._open(name).engine
        home = self._homes[name]
        # One database shows all its tables to any connection; what lies elsewhere is copied.
        away = name != host and (home.address == HERE or home.address != self._homes[host].address)
        seen = own.table
        if home.consent is not None:
            agreed = consenting(seen, home.unit or Rows(), home.consent)
            seen = self._stack.enter_context((own if away else hosting).view(agreed))
        if away:
            seen = self._stack.enter_context(hosting.lend(own.run(everything(seen))))
        return seen
