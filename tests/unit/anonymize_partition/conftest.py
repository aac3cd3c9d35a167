"""Small tables as frequencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.counting.axes import Listed
from sfumato.counting.frequencies import Frequencies
from sfumato.counting.grouping import group

if TYPE_CHECKING:
    from collections.abc import Sequence


class Counted(Protocol):
    """Counts rows of values."""

    def __call__(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> Frequencies: ...


@pytest.fixture
def counted() -> Counted:
    def count(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Frequencies:
        axes, codes = [], []
        for name, column in zip(names, zip(*rows, strict=True), strict=True):
            coded = pa.array(column).dictionary_encode(null_encoding="encode")
            order = pc.sort_indices(coded.dictionary)
            axes.append(Listed(name, coded.dictionary.take(order), declared=False))
            codes.append(np.argsort(order.to_numpy())[coded.indices.to_numpy()])
        ones = np.ones(len(rows), dtype=np.int64)
        groups = group(codes, [axis.size for axis in axes], ones)
        first = groups.representatives
        return Frequencies(tuple(axes), tuple(code[first] for code in codes), groups.counts)

    return count
