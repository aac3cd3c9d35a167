"""One sketch wherever reports lie: every engine sums them as we do, and rejects what cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.methods import local
from sfumato.methods.local.report_files import sketch_of
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine

ORACLES: dict[str, dict[str, Any]] = {
    "k-ary": {},
    "oue": {},
    "olh": {},
    "hadamard": {},
    "rappor": {"bits": 40, "cohorts": 2},
    "subset": {},
    "apple-hcms": {"rows": 4, "columns": 16},
}
SIZE = 36  # bits of two words, the second not full


@pytest.mark.parametrize("name", ORACLES)
def test_an_engine_sums_reports_as_we_do(
    name: str, open_engine: Callable[[pa.Table], Engine]
) -> None:
    oracle = local.oracle(name, SIZE, epsilon=1, **ORACLES[name])
    reports = oracle.randomize(np.arange(500) % SIZE, SeededEntropy(1))
    table = reports.to_arrow()
    wrong = [
        dict.fromkeys(table.column_names),
        dict.fromkeys(table.column_names, -1),
        dict.fromkeys(table.column_names, 2**40),
        dict.fromkeys(table.column_names, 2**63 - 1),
    ]
    last = dict.fromkeys(table.column_names, 0) | {table.column_names[-1]: 2**33}
    spoiled = pa.concat_tables([table, pa.Table.from_pylist([*wrong, last], schema=table.schema)])
    found = sketch_of(oracle, open_engine(spoiled))
    ours = oracle.sketch(reports)
    assert (found.n, found.rejected) == (500, 5)
    assert np.array_equal(found.tally, ours.tally)
    assert oracle.estimate(found).equals(oracle.estimate(ours))
