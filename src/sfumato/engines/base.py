"""What every engine can do: run a query where the data lives. An engine knows no privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa
    from sqlglot import exp

    from sfumato.schema.column import Kind


@dataclass(frozen=True)
class Traits:
    """What an engine can do beyond running a query; what it cannot, it refuses by these names."""

    creates_tables: bool
    reports_progress: bool
    cancels_at_once: bool
    hashed: Callable[[str, Sequence[exp.Expr]], exp.Expr]
    """A quick hash of a text and some values, of any kind or NULL: a BIGINT, not negative.

    It need not be the same on two engines, nor in two versions of one; it must be spread evenly.
    """


@dataclass(frozen=True)
class TableTarget:
    """A new table inside the engine; an existing one of that name is refused."""

    name: str


class Engine(Protocol):
    """A connection to one place where tables live.

    Queries are trees in the neutral dialect: NULL sorts before all values, `Div` divides as
    reals, `IntDiv` as integers. Integer sums must be cast to BIGINT by whoever builds the tree.
    """

    dialect: ClassVar[str]
    traits: ClassVar[Traits]

    @property
    def table(self) -> exp.Table:
        """The table the engine was opened on."""
        ...

    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """Name the columns of a table, in order, and what they hold."""
        ...

    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and bring its whole result here."""
        ...

    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and bring its result here batch by batch."""
        ...

    def lend(self, table: pa.Table) -> AbstractContextManager[exp.Table]:
        """Let queries see a small table of ours, under a name of its own, for a while."""
        ...

    def view(self, query: exp.Query) -> AbstractContextManager[exp.Table]:
        """Let queries see a query's result as it is at their time, under a name, for a while."""
        ...

    def write(
        self, query: exp.Query, target: Path | TableTarget, *, overwrite: bool = False
    ) -> None:
        """Write a query's result to a file or a new table, whole or not at all."""
        ...

    def progress(self) -> float | None:
        """Say how much of the running query is done, from 0 to 1; None when that is unknown."""
        ...

    def cancel(self, thread: int) -> None:
        """Stop the query that a thread of this process, by its identity, is running, if any.

        A query that begins or ends at that moment may escape; it does no harm to ask again.
        """
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...
