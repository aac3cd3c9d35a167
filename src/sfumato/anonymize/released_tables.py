"""The tables of a release that was decided on, made in the engine each time they are asked for.

Decision 0246.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING
from weakref import finalize, ref

from sfumato.anonymize.distributions import distributions
from sfumato.errors import LargeReleaseWarning
from sfumato.release.lazy_tables import TablesOnDemand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from sfumato.anonymize.result import Anonymized
    from sfumato.data.engines.base import Engine
    from sfumato.data.files.writers import Batches
    from sfumato.release.engine_writer import EngineRows
    from sfumato.report.column_pairs import SideBySide

LARGE = 1_000_000
"""From more rows on, whoever brings a release into memory is told of a better way."""
_STAYS = 100_000
"""A table of at most so many rows stays once it was made."""


class DecidedTables(TablesOnDemand):
    """What was decided, as tables: the same rows each time, for as long as the source is the same.

    A table is kept while somebody else holds it, a small one for good.
    """

    def __init__(self, decided: Anonymized) -> None:
        self._decided = decided
        self._made: ref[pa.Table] | None = None
        self._small: pa.Table | None = None
        self._first: pa.Table | None = None
        self._warned = False
        hold_open(decided.table.engine, self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._decided.table_names)

    def __len__(self) -> int:
        return len(self._decided.table_names)

    def __getitem__(self, name: str) -> pa.Table:
        if name != self._decided.table_names[0]:
            return self._decided.further[name]
        made = self._held()
        if made is None:
            self._warn_of_size(self.sizes()[name])
            made = self._decided.made()
            self._made = ref(made)
            self._small = made if made.num_rows <= _STAYS else None
        return made

    def _held(self) -> pa.Table | None:
        """The table, where somebody has it still."""
        if self._small is not None or self._made is None:
            return self._small
        return self._made()

    def _warn_of_size(self, rows: int) -> None:
        if rows > LARGE and not self._warned:
            self._warned = True
            warnings.warn(
                f"This release has {rows:,} rows, and all of them are brought into memory. To have "
                "them written without that, use .save(path).",
                LargeReleaseWarning,
                stacklevel=4,
            )

    def sizes(self) -> dict[str, int]:
        """How many rows each table has, as was decided."""
        further = {name: table.num_rows for name, table in self._decided.further.items()}
        return {self._decided.table_names[0]: self._decided.released, **further}

    def first(self, rows: int) -> dict[str, pa.Table]:
        """The first rows of each table; the engine is asked for no others."""
        if self._first is None or self._first.num_rows < min(rows, self._decided.released):
            held = self._held()
            self._first = self._decided.made(limit=rows) if held is None else held.slice(0, rows)
        tables = {self._decided.table_names[0]: self._first, **self._decided.further}
        return {name: table.slice(0, rows) for name, table in tables.items()}

    @contextmanager
    def streamed(self, name: str) -> Iterator[Batches]:
        """The rows of a table, batch by batch."""
        if name != self._decided.table_names[0]:
            yield self._decided.further[name].to_reader()
            return
        with self._decided.streamed() as rows:
            yield rows

    def beside(self) -> Sequence[SideBySide]:
        """Columns of the original beside the released ones, counted in the engine."""
        return distributions(self._decided)

    def by_engine(self, name: str) -> AbstractContextManager[EngineRows] | None:
        """The rows of a table for their engine to write; None for one that is held here."""
        return self._decided.by_engine() if name == self._decided.table_names[0] else None


@dataclass
class _Use:
    engine: Engine
    users: int = 0
    closed: bool = False


_USES: dict[int, _Use] = {}
_USING = RLock()  # whoever is freed may be freed while this thread has the lock


def hold_open(engine: Engine, user: object) -> None:
    """Keep an engine open for as long as its user is there."""
    with _USING:
        use = _USES.setdefault(id(engine), _Use(engine))
        use.users += 1
    finalize(user, _leave, use)


def close_after_use(engine: Engine) -> None:
    """Close an engine, once none of its users is there any more."""
    with _USING:
        use = _USES.get(id(engine))
        if use is not None:
            use.closed = True
            return
    engine.close()


def _leave(use: _Use) -> None:
    with _USING:
        use.users -= 1
        if use.users:
            return
        del _USES[id(use.engine)]
    if use.closed:
        use.engine.close()
