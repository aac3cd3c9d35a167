"""Columns as coordinates: a space in which every declared range is from -1 to 1.

In the engine a coordinate is a whole number from -GRID to GRID, never NULL (`encodings`); `encode`
gives the same for a table in memory, divided by GRID, so that a model is asked about what it was
made of. Decision `learn-features`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.column import Column, Kind, from_text
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.methods.learn.encodings import (
    GRID,
    Continuous,
    OneHot,
    Stepped,
    Switch,
    encoding,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from sfumato.arrays import FloatArray
    from sfumato.methods.learn.encodings import FeatureEncoding

__all__ = ["GRID", "Continuous", "FeatureSpace", "OneHot", "Stepped", "Switch"]


@dataclass(frozen=True)
class FeatureSpace:
    """Some columns as coordinates, from what is declared of them alone."""

    columns: tuple[Column, ...]

    @cached_property
    def encodings(self) -> tuple[FeatureEncoding, ...]:
        """How each column becomes coordinates."""
        return tuple(map(encoding, self.columns))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each coordinate is called: "age", or "city=Rome"."""
        return tuple(name for one in self.encodings for name in one.names)

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return len(self.names)

    @cached_property
    def halves(self) -> FloatArray:
        """What a coordinate of 1 is away from one of 0, for each, in units of its column."""
        return np.array([one.half for one in self.encodings for _ in one.names])

    @cached_property
    def middles(self) -> FloatArray:
        """What a coordinate of 0 is, for each, in units of its column."""
        return np.array([one.middle for one in self.encodings for _ in one.names])

    @cached_property
    def blocks(self) -> tuple[range, ...]:
        """The places of each column's coordinates; at most one of a block is not 0."""
        ends = list(accumulate(len(one.names) for one in self.encodings))
        return tuple(map(range, [0, *ends[:-1]], ends))

    def expressions(self) -> list[exp.Expr]:
        """The SQL of each coordinate: a BIGINT from -GRID to GRID, never NULL."""
        return [tree for one in self.encodings for tree in one.expressions()]

    def encode(self, table: pa.Table) -> FloatArray:
        """The coordinates of a table in memory, from -1 to 1; columns are found by name."""
        absent = [one.name for one in self.columns if one.name not in table.column_names]
        if absent:
            raise ParameterError(
                "column_unknown",
                f"The table has no column {quoted(absent[0])}, of which the model was made. "
                "Give a table with all of its features.",
            )
        parts = [
            one.encode(_whole(table.column(column.name)))
            for column, one in zip(self.columns, self.encodings, strict=True)
        ]
        whole = np.concatenate(parts, axis=1) if parts else np.zeros((table.num_rows, 0))
        return np.asarray(whole / GRID, dtype=np.float64)

    def facts(self) -> dict[str, Any]:
        """What a model must know of its features, in JSON form."""
        return {"columns": [_declared_facts(column) for column in self.columns]}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> FeatureSpace:
        """The space that `facts` tells of."""
        return cls(tuple(map(_declared_column, facts["columns"])))


def _whole(values: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without a dictionary."""
    plain = values.combine_chunks()
    if isinstance(plain, pa.ChunkedArray):
        plain = pa.concat_arrays(plain.chunks) if plain.num_chunks else pa.array([], plain.type)
    return plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain


def _declared_facts(column: Column) -> dict[str, Any]:
    """What is declared of a column, in JSON form."""
    facts: dict[str, Any] = {"name": column.name, "kind": str(column.kind)}
    match column.public_domain:
        case Values(values=values):
            facts["values"] = [word(value) for value in values]
        case Bounds(low=low, high=high, step=step):
            facts["bounds"] = [word(low), word(high)]
            if step is not None:
                facts["step"] = word(step)
    return facts


def _declared_column(facts: Mapping[str, Any]) -> Column:
    """The column of which these are the facts."""
    kind = Kind(facts["kind"])
    domain: Values | Bounds | None = None
    if "values" in facts:
        domain = Values(tuple(from_text(one, kind) for one in facts["values"]))
    elif "bounds" in facts:
        low, high = (from_text(one, kind) for one in facts["bounds"])
        step = from_text(facts["step"], Kind.REAL) if "step" in facts else None
        if step is not None and kind is not Kind.REAL:
            step = int(step)  # type: ignore[arg-type]
        domain = Bounds(low, high, step)  # type: ignore[arg-type]
    return Column(facts["name"], kind, domain=domain)
