"""Fourier coefficients: waves of one ordered column, parities of several columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import InternalError, ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import CellsMethod, Domain, blank_cells
from sfumato.methods.publish.marginals import cells_table, read_column_sets, table_name
from sfumato.methods.publish.measurement import (
    ColumnNorms,
    SingleNoise,
    least_noise,
    noise_error,
    noise_name,
    one_axis,
)
from sfumato.methods.publish.postprocess import caveat, check, with_missing
from sfumato.privacy.estimation.chebyshev_fit import nearest_vertex
from sfumato.privacy.mechanisms.base import widened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.method import Method
    from sfumato.methods.publish.marginals import Set
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


def prepare(
    request: Request, *, coefficients: object = None, way: object = None, of: object = None
) -> Method[Counter]:
    """Make the method for one column (`coefficients`: how many) or several (`way` or `of`)."""
    single = len(request.axes) == 1
    inapplicable = {"way": way, "of": of} if single else {"coefficients": coefficients}
    for name, value in inapplicable.items():
        if value is not None:
            raise ParameterError(
                "option_not_applicable",
                f"The option {name} of a Fourier publication is for "
                f"{'several columns' if single else 'one column'}, not for {len(request.axes)}. "
                "Leave it out.",
            )
    if single:
        return prepare_series(request, coefficients=coefficients)
    return prepare_parities(request, way=way, of=of)


# Cosines and sines are rounded to whole multiples of 1 / SCALE.
SCALE = 1 << 24

# The default: the mean and nine waves.
DEFAULT_COEFFICIENTS = 10

# The most entries of the matrix of cosines and sines, which is computed row by row.
MAX_MATRIX_ENTRIES = 1 << 28


def prepare_series(request: Request, *, coefficients: object = None) -> Series:
    """Measure the lowest frequencies of one column with the noise of least variance."""
    domain = Domain((one_axis(request, "fourier"),))
    check(request.postprocess)
    most = domain.shape[0] // 2 + 1
    coefficient_count = (
        min(DEFAULT_COEFFICIENTS, most)
        if coefficients is None
        else options.whole(coefficients, "coefficients", least=1, most=most)
    )
    options.whole(
        coefficient_count * domain.shape[0],
        "coefficients times points",
        least=1,
        most=MAX_MATRIX_ENTRIES,
    )
    waves = Waves(domain.shape[0], coefficient_count)
    columns = waves.columns
    least = least_noise(request, columns)
    return Series(domain, waves, least, columns.missing_weight(least), request.postprocess)


@dataclass(frozen=True)
class Waves:
    """Whole-number cosines and sines of the first frequencies 0, 1, ..., over equidistant points.

    Rows come in the order cosine 0, cosine 1, sine 1, cosine 2, ...; the highest possible
    frequency of an even number of points, like 0, has no sine.
    """

    points: int
    coefficients: int

    @cached_property
    def frequencies(self) -> list[int]:
        """The frequency of each row."""
        row_frequencies = [0]
        for frequency in range(1, self.coefficients):
            row_frequencies += [frequency] * (1 if 2 * frequency == self.points else 2)
        return row_frequencies

    @cached_property
    def gains(self) -> FloatArray:
        """The weight of each row in the inverse: 2 where a negative frequency joins, else 1."""
        alone = [frequency in (0, self.points / 2) for frequency in self.frequencies]
        return np.where(alone, 1.0, 2.0)

    def row(self, index: int) -> FloatArray:
        """One cosine or sine."""
        frequency = self.frequencies[index]
        # Reduced modulo n before it becomes an angle, so that long series lose no digits.
        angles = 2 * np.pi / self.points * (frequency * np.arange(self.points) % self.points)
        is_sine = index > 0 and self.frequencies[index - 1] == frequency
        return np.asarray(np.sin(angles) if is_sine else np.cos(angles))

    def whole_row(self, index: int) -> IntArray:
        """One cosine or sine as it is measured, times SCALE."""
        return np.asarray(np.rint(self.row(index) * SCALE), dtype=np.int64)

    @property
    def columns(self) -> ColumnNorms:
        """The exact norms of the rounded matrix of cosines and sines."""
        l1 = np.zeros(self.points, dtype=np.int64)
        # Squares are below 2^48 each; beyond 2^14 rows their sum could pass 64 bits.
        l2_squared = np.zeros(self.points, dtype=object if self.coefficients >= 1 << 13 else int)
        for index in range(len(self.frequencies)):
            entries = self.whole_row(index)
            l1 += np.abs(entries)
            l2_squared += entries**2
        return ColumnNorms(l1=int(l1.max()), l2_squared=int(l2_squared.max()), signed=True)

    def measured(self, counts: IntArray) -> NDArray[Any]:
        """Return the exact product of the matrix and counts along the last axis."""
        counts = widened(counts, SCALE)
        rows = [counts @ self.whole_row(index) for index in range(len(self.frequencies))]
        return np.stack(rows, axis=-1)

    def inverse(self, noisy: FloatArray) -> FloatArray:
        """Return the series that has these coefficients and no others."""
        series = np.zeros((*noisy.shape[:-1], self.points))
        for index, gain in enumerate(self.gains.tolist()):
            series += noisy[..., index, None] * (self.row(index) * (gain / SCALE / self.points))
        return series

    def ranges_gain(self, lengths: IntArray) -> FloatArray:
        """The sum of the squared weights of noises in a range, which depends only on its length.

        Over w points, the squared sums of a cosine and its sine add up to (sin(pi f w / n) /
        sin(pi f / n))^2. The cosine of the highest frequency sums to 0 or 1 in absolute value,
        which the same formula gives.
        """
        squared_weights = lengths.astype(np.float64) ** 2
        for frequency in range(1, self.coefficients):
            gain = 1.0 if 2 * frequency == self.points else 4.0
            turns = np.pi / self.points * (frequency * lengths % (2 * self.points))
            squared_weights += (
                gain * (np.sin(turns) / math.sin(math.pi * frequency / self.points)) ** 2
            )
        return np.asarray(squared_weights / (SCALE * self.points) ** 2)


@dataclass(frozen=True)
class Series(SingleNoise, CellsMethod):
    """Noise on the first Fourier coefficients of a series of counts, the others set to zero.

    *Guarantee*: the price in full, epsilon or rho, for all coefficients together.
    *Sensitivity*: the largest column of the rounded matrix of cosines and sines, in L1 or L2,
    computed exactly; twice that where people are replaced, as columns may be opposite.
    *Error*: the noise part has the same variance in every cell, (4 k - 3) / (n SCALE)^2 times the
    noise's for k coefficients of n points, and a closed form for ranges. The frequencies left out
    cause a bias that depends on the data and is not known in advance.
    *Edges*: rounding changes a coefficient by at most 2^-25 of the rows. Missing values are counted
    apart. Counts may be negative.
    *Reference*: Rastogi & Nath 2010, Algorithm 1, with both parts of each coefficient counted.
    """

    table: ClassVar[str] = "fourier"
    domain: Domain
    waves: Waves
    noise: Noise
    missing_weight: int
    steps: tuple[str, ...] = ()

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number of coefficients, and the chosen noise."""
        return {
            "coefficients": self.waves.coefficients,
            "noise": noise_name(self.noise),
        }

    @property
    def error(self) -> Mapping[str, Any]:
        """The sd of each cell and of missing values."""
        cell = self.ranges_variance(np.zeros((1, 1, 2), dtype=np.int64))
        note = "noise alone; frequencies left out add a bias that depends on the data"
        stated: dict[str, Any] = {"cell": {"sd": math.sqrt(cell[0])}, "note": note}
        if len(self.domain.missing_codes[0]):
            stated["missing"] = {"sd": self.noise.stddev / self.missing_weight}
        return {**stated, "note": f"{note}; {caveat(self.steps)}"} if self.steps else stated

    def smooth(self, counts: IntArray, entropy: Entropy) -> FloatArray:
        """The noisy smooth series of counts along the last axis."""
        noisy = self.noise.steps(self.waves.measured(counts), entropy)
        return self.waves.inverse(noisy.astype(np.float64))

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count with noise: one row for every cell."""
        interior, nulls = self.domain.split(counter)
        smooth = self.smooth(interior, entropy)
        weighted = widened(nulls, self.missing_weight) * self.missing_weight
        missing = self.noise.steps(weighted, entropy) / self.missing_weight
        inner, outer = smooth, missing.astype(np.float64)
        if self.steps:
            inner, outer = with_missing(inner, outer, self.steps)
        return {"fourier": self.domain.table(inner, outer)}

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """Return the exact variance of each estimate, without the bias of smoothing."""
        lengths = np.maximum(boxes[:, 0, 1] - boxes[:, 0, 0] + 1, 0)
        return self.waves.ranges_gain(lengths) * self.noise.variance


# Parities: a column of n values is coded in as many bits as n needs. The parity of a set of bits is
# 1 if an even number of them is set, else -1, and a coefficient is the sum of a parity over all
# rows. A marginal follows from the coefficients of all sets of the bits of its columns. Marginals
# that share columns share coefficients, so none is measured twice. Decision `marginals`.

# The most entries in the matrix of the linear program: seconds of work.
_MAX_MATRIX_ENTRIES = 1 << 20


def prepare_parities(request: Request, *, way: object = None, of: object = None) -> Parities:
    """Measure the coefficients that some marginals need with the noise of least variance."""
    if request.postprocess:
        raise ParameterError(
            "option_not_applicable",
            "Tables from parities are whole numbers of at least 0 that agree with each other "
            "already. Leave post-processing out.",
        )
    sets = read_column_sets(request.axes, way=way, of=of)
    coefficients = _coefficients(request.axes, sets)
    norms = ColumnNorms(l1=len(coefficients), l2_squared=len(coefficients), signed=True)
    return Parities(request.axes, sets, coefficients, least_noise(request, norms))


@dataclass(frozen=True)
class Parities(SingleNoise):
    """Noise on the parity coefficients, then the table of counts nearest to them.

    *Guarantee*: the price in full, epsilon or rho, for all coefficients together; all else is
    computed from them.
    *Sensitivity*: a row adds 1 or -1 to each of the |B| coefficients: |B| in L1 and sqrt(|B|) in
    L2 for every row of a person, twice that if replaced (|B| 2^(-d/2) in the unitary scaling of d
    bits).
    *Error*: a linear program finds counts of at least 0 whose largest distance from the noisy
    coefficients is least. The true table is a candidate, so each coefficient ends within twice the
    largest noise of the truth, and so does each cell of a marginal, which is a mean of
    coefficients. A vertex has at most |B| counts above 0; rounding them moves a cell by at most
    half of those in it.
    *Edges*: codes that stand for no value are empty. A missing value is one more value. Domains too
    large for the program are refused.
    *Reference*: Barak, Chaudhuri, Dwork, Kale, McSherry & Talwar 2007.
    """

    axes: tuple[Axis, ...]
    sets: tuple[Set, ...]
    coefficients: IntArray
    noise: Noise

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The released marginals, and the number of measured coefficients."""
        return {
            "marginals": [table_name(self.axes, column_set) for column_set in self.sets],
            "coefficients": len(self.coefficients),
            "noise": noise_name(self.noise),
        }

    @cached_property
    def error(self) -> Mapping[str, Any]:
        """Bounds that hold for all cells of all tables together with probability 95 %."""
        # Coefficients are independent, so each may exceed the bound with this probability.
        tail_probability = -math.expm1(math.log(0.95) / len(self.coefficients))
        noise = 2 * self.noise.bound(tail_probability)
        cells = math.prod(axis.size for axis in self.axes)
        tables = {}
        for column_set in self.sets:
            size = math.prod(self.axes[column].size for column in column_set)
            rounded = min(len(self.coefficients), cells // size) / 2
            tables[table_name(self.axes, column_set)] = {
                "cells": size,
                "largest95": noise + rounded,
            }
        return {
            "coefficient": noise_error(self.noise),
            "tables": tables,
            "note": "whole counts of at least 0 are biased: their errors have bounds, no sd",
        }

    @cached_property
    def matrix(self) -> IntArray:
        """The parity of every coefficient (row) in every cell (column)."""
        codes = np.zeros([axis.size for axis in self.axes], dtype=np.int64)
        for axis, size in enumerate(codes.shape):
            shape = [-1 if dimension == axis else 1 for dimension in range(codes.ndim)]
            codes = (codes << _bits(size)) | np.arange(size).reshape(shape)
        odd = np.bitwise_count(self.coefficients[:, None] & codes.ravel()) & 1
        return np.where(odd, np.int64(-1), np.int64(1))

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released tables without rows: their names and columns."""
        return {
            table_name(self.axes, column_set): blank_cells(
                [self.axes[column] for column in column_set]
            )
            for column_set in self.sets
        }

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One table for every marginal, all of them sums over one table of whole counts."""
        counts = counter.of([axis.column for axis in self.axes])
        noisy = self.noise.steps(self.matrix @ counts.dense().ravel(), entropy)
        table = self.nearest(noisy.astype(np.float64)).reshape(counts.sizes)
        released = {}
        for column_set in self.sets:
            summed_axes = tuple(axis for axis in range(table.ndim) if axis not in column_set)
            axes = [self.axes[column] for column in column_set]
            released[table_name(self.axes, column_set)] = cells_table(
                axes, table.sum(axis=summed_axes)
            )
        return released

    def nearest(self, noisy: FloatArray) -> IntArray:
        """Whole counts of all cells whose coefficients come nearest to the noisy ones."""
        solution = nearest_vertex(self.matrix.astype(np.float64), noisy)
        if solution is None:
            raise InternalError(
                "internal",
                "The linear program for counts near the noisy coefficients was not solved, though "
                "it has a solution. Report this; the budget was spent.",
            )
        return np.rint(solution).astype(np.int64)


def _bits(size: int) -> int:
    return (size - 1).bit_length()


def _coefficients(axes: Sequence[Axis], sets: Sequence[Set]) -> IntArray:
    """The sets of bits whose parities the marginals need, as numbers; the last column is lowest.

    A marginal needs the subsets of the bits of its columns.
    """
    widths = [_bits(axis.size) for axis in axes]
    shifts = [sum(widths[column + 1 :]) for column in range(len(axes))]
    cells = math.prod(axis.size for axis in axes)
    largest = max(sum(widths[column] for column in column_set) for column_set in sets)
    if cells << largest > _MAX_MATRIX_ENTRIES:
        raise _too_large(cells, 1 << largest)
    bit_sets = np.zeros(1, dtype=np.int64)
    for column_set in sets:
        masks = np.zeros(1, dtype=np.int64)
        for column in column_set:
            column_bits = np.arange(1 << widths[column], dtype=np.int64) << shifts[column]
            masks = (masks[:, None] | column_bits).ravel()
        bit_sets = np.union1d(bit_sets, masks)
    if cells * len(bit_sets) > _MAX_MATRIX_ENTRIES:
        raise _too_large(cells, len(bit_sets))
    return bit_sets


def _too_large(cells: int, coefficients: int) -> ParameterError:
    return ParameterError(
        "problem_too_large",
        f"{cells:,} cells with at least {coefficients:,} parities are too many for the linear "
        f"program, whose matrix has at most {_MAX_MATRIX_ENTRIES:,} numbers. Publish as "
        "'marginals', or take fewer columns or a lower way.",
    )
