"""What was measured with noise beside what rows drawn from it hold: of columns and of pairs.

Both were released, so that whoever has them may look; nothing of the original is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.attack.evaluation.measures import cramers_v
from sfumato.data.counting.axes import Grid
from sfumato.data.schema.column import Kind
from sfumato.methods.synth.encode.axes import codes_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis
    from sfumato.methods.synth.synthesis_model import SynthesisModel

    Codes = NDArray[np.int64]

_MOST_PAIR_CELLS = 1 << 20


@dataclass(frozen=True)
class ColumnBeside:
    """The shares of a column's codes: by the noisy tables, and in the rows that were drawn."""

    name: str
    labels: tuple[str, ...]
    """The values, or the lowest of each bin; what is missing comes last."""
    starts: tuple[float, ...]
    """Where bins and points begin, and where the last ends; empty where values have no order."""
    dates: bool
    noisy: FloatArray
    stddev: float
    drawn: FloatArray


@dataclass(frozen=True)
class PairBeside:
    """The counts of two columns: noisy where they were measured together, and drawn."""

    columns: tuple[str, str]
    noisy: FloatArray | None
    drawn: Codes

    @property
    def strength(self) -> float:
        """How strongly the drawn columns hang together, by Cramér's V."""
        return cramers_v(self.drawn)


@dataclass(frozen=True)
class RowsBeside:
    """Rows that were drawn, as codes, beside the model that they were drawn from."""

    model: SynthesisModel
    codes: Sequence[Codes]

    @classmethod
    def of(cls, model: SynthesisModel, rows: pa.Table) -> RowsBeside:
        """Rows of a model's columns."""
        axes = model.encoding.axes
        codes = (codes_in(axis, rows) for axis in axes)
        return cls(model, [one.astype(np.int64) for one in codes])

    def columns(self) -> list[ColumnBeside]:
        """Every column, in the table's order."""
        axes, log = self.model.encoding.axes, self.model.log
        singles = [(place,) for place in range(len(axes))]
        estimate, total = log.estimate(singles), log.total()
        return [
            ColumnBeside(
                name=axis.column,
                labels=_labels(axis),
                starts=_starts(axis),
                dates=isinstance(axis, Grid) and axis.kind is Kind.DATE,
                noisy=estimate.table((place,)) / total,
                stddev=estimate.variance((place,)) ** 0.5 / total,
                drawn=_shares(np.bincount(codes, minlength=axis.size)),
            )
            for place, (axis, codes) in enumerate(zip(axes, self.codes, strict=True))
        ]

    def pairs(self) -> list[PairBeside]:
        """Every pair of columns of few enough cells."""
        shape, log = self.model.fitted.shape, self.model.log
        found = []
        estimate = log.estimate(log.measured)
        for first, second in shape.pairs():
            one, other = shape.of_set((first, second))
            if one * other > _MOST_PAIR_CELLS:
                continue
            keys = self.codes[first] * other + self.codes[second]
            drawn = np.bincount(keys, minlength=one * other).reshape(one, other)
            measured = (first, second) in log.measured
            noisy = estimate.table((first, second)) if measured else None
            names = (shape.names[first], shape.names[second])
            found.append(PairBeside(names, noisy, drawn))
        return found


def _shares(counts: Codes) -> FloatArray:
    return np.asarray(counts / max(int(counts.sum()), 1))


def _numbers(values: pa.Array) -> FloatArray:
    """Numbers, and dates as days since the beginning of 1970."""
    plain = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
    return np.asarray(plain.fill_null(0), dtype=np.float64)


def _labels(axis: Axis) -> tuple[str, ...]:
    decoded = axis.decode(np.arange(axis.size)).to_pylist()
    return tuple("(missing)" if one is None or one != one else str(one) for one in decoded)


def _starts(axis: Axis) -> tuple[float, ...]:
    if not isinstance(axis, Grid):
        return ()
    lowest = _numbers(axis.decode(np.arange(axis.points)))
    step = float(axis.bounds.grid_step or 1)
    last = axis.bounds.high
    end = _numbers(pa.array([last])) if axis.kind is Kind.DATE else [float(last)]  # type: ignore[arg-type]
    return (*lowest.tolist(), float(end[0]) + step)
