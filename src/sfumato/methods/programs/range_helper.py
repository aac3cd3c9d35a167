"""Ranges of outputs from private quartiles of columns, by a helper function of the program.

The helper sees only quartiles that were paid for, so its result is post-processing and costs
nothing. It runs in the sandbox like any block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.counting.axes import Grid, declared
from sfumato.data.counting.frequencies import count
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, option
from sfumato.methods.programs.aggregate import LOWER, UPPER
from sfumato.methods.programs.blocks import to_stream
from sfumato.methods.programs.language import executable
from sfumato.privacy.mechanisms.quantile import Counted, Quantile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import Dataset
    from sfumato.methods.programs.aggregate import Aggregate
    from sfumato.methods.programs.sandbox.base import BlockLimits, Chamber, Program
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class InputQuartiles:
    """The columns whose quartiles are bought, and the function that makes ranges of them."""

    function: str
    axes: tuple[Grid, ...]

    @classmethod
    def of(cls, function: str, columns: Sequence[Column]) -> InputQuartiles:
        """A helper on those columns that have bounds; refused where there are none."""
        axes = [
            axis
            for column in columns
            if column.public_domain is not None and isinstance(axis := declared(column), Grid)
        ]
        if not axes:
            raise ParameterError(
                "column_unsuitable",
                f"The helper {quoted(function)} needs a column with declared bounds to have "
                f"quartiles of. Name one with {option('columns')}, or take "
                f"{option('ranges', 'loose')}.",
            )
        return cls(function, tuple(axes))

    def to_record(self) -> dict[str, Any]:
        """It as JSON-able data."""
        columns = [
            [axis.column, str(axis.bounds.low), str(axis.bounds.high), str(axis.bounds.grid_step)]
            for axis in self.axes
        ]
        return {"function": self.function, "columns": columns}

    def quartiles(
        self, data: Dataset, unit: Unit, epsilon: Fraction, salt: str, entropy: Entropy
    ) -> pa.Table:
        """The lower and upper quartile of each column, at `epsilon` for all of them together."""
        # Two quartiles of each column: basic composition of pure epsilons.
        epsilon_each = epsilon / (2 * len(self.axes))
        quartiles = []
        for axis in self.axes:
            counted = count(data.engine, data.table, [axis], unit=unit, salt=salt, outside="drop")
            codes = counted.codes[0].astype(np.int64)
            # The last code stands for NULL, which has no rank.
            inside = codes < axis.points
            points, counts = codes[inside], counted.counts[inside]
            rows = Counted(points, counts, np.zeros(len(points), dtype=np.int64), 1)
            chosen = [
                Quantile(epsilon=epsilon_each, rank=rank, size=axis.points, unit=unit).sample(
                    rows, entropy
                )
                for rank in (LOWER, UPPER)
            ]
            # Noise may swap the two.
            quartiles.append(np.sort(np.concatenate(chosen)))
        ends = [
            pa.chunked_array(
                [_reals(axis, pair[end]) for axis, pair in zip(self.axes, quartiles, strict=True)]
            )
            for end in (0, 1)
        ]
        names = pa.array([axis.column for axis in self.axes])
        return pa.table({"column": names, "low": ends[0], "high": ends[1]})

    def ranges(
        self,
        room: Chamber,
        program: Program,
        quartiles: pa.Table,
        aggregate: Aggregate,
        limits: BlockLimits,
    ) -> list[tuple[float, float]] | None:
        """The ranges that the helper computes from quartiles; None if it fails."""
        # A failure depends on the program and on paid quartiles alone, so it reveals nothing new.
        width = 2 * len(aggregate.outputs)
        helping = executable(replace(program, function=self.function), limits)
        [record] = room.run(helping, [to_stream(quartiles)], width, limits, 1)
        if record is None:
            return None
        ends = np.frombuffer(record, dtype="<f8")
        if not np.isfinite(ends).all():
            return None
        return [(low, high) for low, high in ends.reshape(-1, 2).tolist()]


def _reals(axis: Grid, code: int) -> pa.Array:
    """The value of a code as the nearest real; days count from 1970.

    Arrow's strict conversion refuses whole numbers beyond 2^53, so a noisy quartile there would
    fail the run after its charge.
    """
    value = axis.decode(np.array([code]))
    days_or_numbers = value.cast(pa.int32()) if pa.types.is_date(value.type) else value
    return days_or_numbers.cast(pa.float64(), safe=False)
