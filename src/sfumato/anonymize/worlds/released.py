"""A released table, read for one question."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.covers import read
from sfumato.anonymize.leaves import universe
from sfumato.anonymize.worlds.bounds import Choice
from sfumato.anonymize.worlds.selection import Known, Selection
from sfumato.errors import QueryError, SchemaError
from sfumato.schema.column import Column, Role
from sfumato.schema.domain import Bounds
from sfumato.schema.hierarchy.base import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.worlds.predicate import Formula
    from sfumato.anonymize.worlds.selection import Selected
    from sfumato.frequencies import Frequencies
    from sfumato.schema.domain import Scalar
    from sfumato.schema.schema import Schema

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Released:
    """The columns that a question names, row by row as far as they differ, and how many of each."""

    columns: Mapping[str, Known]
    measure: str | None
    counts: Ints

    @classmethod
    def of(
        cls,
        table: Frequencies,
        schema: Schema,
        names: Sequence[str],
        measure: str | None,
        suppressed: bool = True,
    ) -> Released:
        """Read the labels of the columns; rows that are blank everywhere may be anything.

        That is, if there can be `suppressed` ones.
        """
        for name in names:
            if name not in table.columns:
                raise QueryError(
                    "column_not_released",
                    f"The question names column {name!r}, which the release has not; it has "
                    f"{', '.join(map(repr, table.columns))}.",
                )
        starred = _starred(table) & suppressed
        columns = {name: _known(schema.column(name), table, starred) for name in names}
        for name, known in columns.items():
            if name != measure and known.vague.any():
                raise _endless(name)
        return cls(columns, measure, table.counts)

    def select(self, formula: Formula) -> tuple[Selection, Selected]:
        """Which rows a predicate selects."""
        selection = Selection(formula, self.columns, self.measure, len(self.counts))
        return selection, selection.select()

    def choice(self, selected: Selected) -> Choice:
        """Each row by itself may be taken or not, or must be."""
        return Choice(
            np.arange(len(self.counts)),
            self.counts,
            selected.low,
            selected.high,
            selected.middle,
            selected.chance,
            np.where(selected.certain, self.counts, 0),
            np.where(selected.possible, self.counts, 0),
        )


def _starred(table: Frequencies) -> NDArray[np.bool_]:
    """Which combinations are blank in every column: suppressed rows."""
    starred = np.ones(len(table), dtype=bool)
    for axis, codes in zip(table.axes, table.codes, strict=True):
        present, numbers = np.unique(codes, return_inverse=True)
        blank = [value is None or value == ROOT for value in axis.decode(present).to_pylist()]
        starred &= np.array(blank, dtype=bool)[numbers]
    return starred


def _known(column: Column, table: Frequencies, starred: NDArray[np.bool_]) -> Known:
    """One column: its labels, the root standing for the cells of suppressed rows."""
    place = table.columns.index(column.name)
    present, numbers = np.unique(table.codes[place], return_inverse=True)
    texts = table.axes[place].decode(present).to_pylist()
    labels = np.where(starred, len(texts), numbers)
    used = np.unique(labels)
    texts = [[*texts, ROOT][label] for label in used.tolist()]
    # Values that were never generalized are their own labels: nothing need be declared of them.
    plain = column.role is not Role.QUASI and ROOT not in texts
    declared = Column(column.name, column.kind) if plain else column
    taxonomy = universe(declared, [*texts, *([] if plain else _outermost(column))])
    vague = np.array([text == ROOT and not _bounded(column) for text in texts], dtype=bool)
    if not taxonomy.leaves:
        raise _endless(column.name)
    covers, numbers = read(column, taxonomy, texts), _numbers(taxonomy.leaves)
    return Known(covers, np.searchsorted(used, labels), numbers, vague)


def _endless(name: str) -> SchemaError:
    """A star of which nobody said what it can stand for bounds nothing."""
    return SchemaError(
        "domain_missing",
        f"Column {name!r} has cells that say nothing, and its schema does not declare what they "
        "can be, so no bound holds. Declare values = [...] or bounds = [low, high] for it.",
    )


def _outermost(column: Column) -> Sequence[Scalar]:
    """The ends of bounds, which are leaves even where their grid is too fine to write out."""
    return (column.domain.low, column.domain.high) if isinstance(column.domain, Bounds) else ()


def _bounded(column: Column) -> bool:
    """Whether the schema says which numbers there can be."""
    return column.domain is not None or (
        column.hierarchy is not None and column.hierarchy.declared is not None
    )


def _numbers(leaves: Sequence[Scalar | None]) -> Floats:
    """The leaves as numbers; what is none is never summed."""
    return np.array([float(leaf) if isinstance(leaf, int | Decimal) else 0.0 for leaf in leaves])
