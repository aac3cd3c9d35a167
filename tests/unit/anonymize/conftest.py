"""Small tables as frequencies and as problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.anonymize.problem import Problem
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.hierarchy import Taxonomy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.exact_numbers import Number

    Rows = Sequence[Sequence[str | None]]
    Ways = Mapping[str, Sequence[Sequence[str]]]


class MakeProblem(Protocol):
    """Makes a problem of rows of texts, sensitive columns behind the quasi-identifiers."""

    def __call__(
        self,
        rows: Rows,
        ways: Ways,
        *criteria: Criterion,
        suppression_limit: Number = 0,
        sensitive: Sequence[str] = (),
        population: Rows | None = None,
    ) -> Problem:
        """Each way is a leaf and its labels up to, not including, the root."""
        ...


def frequencies(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Frequencies:
    axes, codes = [], []
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        coded = pa.array(column).dictionary_encode(null_encoding="encode")
        order = pc.sort_indices(coded.dictionary)
        axes.append(Listed(name, coded.dictionary.take(order), declared=False))
        codes.append(np.argsort(order.to_numpy())[coded.indices.to_numpy()])
    groups = group(codes, [axis.size for axis in axes], np.ones(len(rows), dtype=np.int64))
    return Frequencies(tuple(axes), tuple(c[groups.representatives] for c in codes), groups.counts)


def taxonomy(ways: Sequence[Sequence[str]], *, missing: bool = False) -> Taxonomy:
    leaves, *steps = zip(*ways, strict=True)
    return Taxonomy.build(leaves, steps, missing=missing)


@pytest.fixture
def counted() -> Callable[[Sequence[str], Sequence[Sequence[object]]], Frequencies]:
    return frequencies


@pytest.fixture
def make_problem() -> MakeProblem:
    def make(
        rows: Rows,
        ways: Ways,
        *criteria: Criterion,
        suppression_limit: Number = 0,
        sensitive: Sequence[str] = (),
        population: Rows | None = None,
    ) -> Problem:
        quasi = [name for name in ways if name not in sensitive]
        columns = [*quasi, *sensitive]
        missing = dict(zip(columns, (None in c for c in zip(*rows, strict=True)), strict=True))
        return Problem.build(
            frequencies(columns, rows),
            {name: taxonomy(way, missing=missing[name]) for name, way in ways.items()},
            quasi,
            criteria,
            suppression_limit=suppression_limit,
            population=None if population is None else frequencies(quasi, population),
        )

    return make
