"""What stands above the aggregate runs in one engine that stays open, in many threads at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.engines.sources import open_duckdb
from sfumato.query.answer.question import finished
from sfumato.query.plan import Function, Measure
from sfumato.testing.questions import declared, plan

if TYPE_CHECKING:
    from sfumato.engines.base import Engine


def test_many_answers_are_finished_in_one_engine() -> None:
    opened: list[Engine] = []

    def open_table(table: pa.Table) -> Engine:
        opened.append(open_duckdb(table))
        return opened[-1]

    asked = plan([declared("city", ("A", "B"))], [Measure("n", Function.COUNT)])

    def answer(number: int) -> list[int]:
        noisy = pa.table({"city": ["B", "A"], "n": [number, number + 1], "sf_sd_0": [0.5, 1.5]})
        shown, errors = finished(asked, noisy, open_table)
        return [*shown["n"].to_pylist(), *errors["sf_sd_0"].to_pylist()]

    try:
        found = [answer(0)]
        with ThreadPoolExecutor(4) as threads:
            found += threads.map(answer, range(1, 12))
    finally:
        for engine in opened:
            engine.close()
    assert found == [[number, number + 1, 0.5, 1.5] for number in range(12)]
    assert len(opened) == 1
