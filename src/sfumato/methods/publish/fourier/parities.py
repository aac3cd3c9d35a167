"""Marginals by parities: a few Fourier coefficients of a table of bits, and whole counts from them.

A column of n values is coded in as many bits as n needs. The parity of a set of bits is 1 or -1 by
whether an even or odd number of them is set, and a coefficient is the sum of a parity over all
rows. A marginal is known from the coefficients of all sets of its own columns' bits, and marginals
that share columns share coefficients: none is measured twice.

Decision `marginals`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InternalError, ParameterError
from sfumato.methods.publish.domain import blank_cells
from sfumato.methods.publish.marginals import cells_table
from sfumato.methods.publish.marginals.column_sets import read_column_sets, table_name
from sfumato.methods.publish.measurement import (
    ColumnNorms,
    SingleNoise,
    least_noise,
    noise_error,
    noise_name,
)
from sfumato.privacy.estimation.chebyshev_fit import nearest_vertex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.marginals.column_sets import Set
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

# The most numbers in the matrix of the linear program: seconds of work.
_MAX_MATRIX_ENTRIES = 1 << 20


def prepare_parities(request: Request, *, way: object = None, of: object = None) -> Parities:
    """Find the coefficients that the marginals need and the noise of least variance for them."""
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
    """Noise on the parity coefficients, then the table of counts that comes nearest to them.

    *Guarantee*: the price in full, epsilon or rho, for all coefficients together; all else is
    computed from them.
    *Sensitivity*: a row adds 1 or -1 to each of the |B| coefficients: |B| in L1 and sqrt(|B|) in
    L2 for every row of a person, twice that if replaced (|B| 2^(-d/2) in the unitary scaling of d
    bits).
    *Error*: a linear program finds counts of at least 0 with the least largest distance from the
    noisy coefficients; the truth is one candidate, so no coefficient ends further from it than
    twice the largest noise, and no cell of a marginal does, being a mean of coefficients. A vertex
    has at most |B| counts above 0, and rounding them moves a cell by at most half of those in it.
    *Edges*: codes that stand for no value are known to be empty. A missing value is one more
    value. Domains too large for the program are refused.
    *Reference*: Barak, Chaudhuri, Dwork, Kale, McSherry & Talwar 2007.
    """

    axes: tuple[Axis, ...]
    sets: tuple[Set, ...]
    coefficients: IntArray
    noise: Noise

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """What is released, and how many coefficients are measured for it."""
        return {
            "marginals": [table_name(self.axes, column_set) for column_set in self.sets],
            "coefficients": len(self.coefficients),
            "noise": noise_name(self.noise),
        }

    @cached_property
    def error(self) -> Mapping[str, Any]:
        """Bounds that hold for all cells of all tables together with 95 %."""
        # Coefficients are independent, so each may pass the bound with this chance.
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
        """The parity of every coefficient, by row, in every cell, by column."""
        codes = np.zeros([axis.size for axis in self.axes], dtype=np.int64)
        for axis, size in enumerate(codes.shape):
            shape = [-1 if dimension == axis else 1 for dimension in range(codes.ndim)]
            codes = (codes << _bits(size)) | np.arange(size).reshape(shape)
        odd = np.bitwise_count(self.coefficients[:, None] & codes.ravel()) & 1
        return np.where(odd, np.int64(-1), np.int64(1))

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row."""
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
                "linear_program_failed",
                "The linear program for counts near the noisy coefficients was not solved, though "
                "it has a solution. Report this; the budget was spent.",
            )
        return np.rint(solution).astype(np.int64)


def _bits(size: int) -> int:
    return (size - 1).bit_length()


def _coefficients(axes: Sequence[Axis], sets: Sequence[Set]) -> IntArray:
    """The sets of bits, as numbers, whose parities the marginals need; the last column is lowest.

    No set is needed but those within the bits of one marginal's columns.
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
