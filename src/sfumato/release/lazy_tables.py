"""The tables of a release, held in memory or made when they are asked for.

Decision 0246.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from sfumato.data.files.writers import Batches
    from sfumato.release.engine_writer import EngineRows
    from sfumato.report.distributions import ColumnComparison


class TablesOnDemand(Mapping[str, pa.Table]):
    """Tables by name; to ask for one may bring it here, to ask anything else does not."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """How many rows each table has."""

    @abstractmethod
    def first(self, rows: int) -> dict[str, pa.Table]:
        """The first rows of each table."""

    @abstractmethod
    def streamed(self, name: str) -> AbstractContextManager[Batches]:
        """The rows of a table, batch by batch."""

    def beside(self) -> Sequence[ColumnComparison]:
        """Columns of the original beside the released ones, for its holder."""
        return ()

    def by_engine(self, name: str) -> AbstractContextManager[EngineRows] | None:  # noqa: ARG002
        """The rows of a table for their engine to write; None where no engine has them."""
        return None


class HeldTables(TablesOnDemand):
    """Tables in memory."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = tables

    def __getitem__(self, name: str) -> pa.Table:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def sizes(self) -> dict[str, int]:
        """How many rows each table has."""
        return {name: table.num_rows for name, table in self._tables.items()}

    def first(self, rows: int) -> dict[str, pa.Table]:
        """The first rows of each table."""
        return {name: table.slice(0, rows) for name, table in self._tables.items()}

    @contextmanager
    def streamed(self, name: str) -> Iterator[Batches]:
        """The rows of a table, batch by batch."""
        yield self._tables[name].to_reader()


def on_demand(tables: Mapping[str, pa.Table]) -> TablesOnDemand:
    """Tables of either sort, seen as one."""
    return tables if isinstance(tables, TablesOnDemand) else HeldTables(tables)
