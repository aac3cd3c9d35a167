"""A program gets the same blocks from every engine, and so its answer is the same."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.methods.programs.chambers import OpenChamber

import sfumato as sf
from sfumato.methods.method import Dataset
from sfumato.methods.programs import request
from sfumato.testing.entropy import SeededEntropy
from sfumato.vault.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Unit

COLUMNS = (
    sf.Column("who", sf.Kind.INTEGER, nullable=False, domain=sf.Bounds(0, 99)),
    sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 110)),
    sf.Column("cost", sf.Kind.REAL, domain=sf.Bounds(-50, 50)),
    sf.Column("town", sf.Kind.TEXT),
    sf.Column("day", sf.Kind.DATE),
)
NUMBERS = range(120)
ROWS = pa.table(
    {
        "who": pa.array([n // 2 for n in NUMBERS], pa.int64()),
        "age": pa.array([None if n % 11 == 0 else n % 70 for n in NUMBERS], pa.int64()),
        "cost": pa.array([(-0.0, 0.0, 0.1, None, -3.25)[n % 5] for n in NUMBERS], pa.float64()),
        "town": pa.array([("Zürich", "b", "", None)[n % 4] for n in NUMBERS]),
        "day": pa.array([dt.date(2020, 1, 1 + n % 28) for n in NUMBERS]),
    }
)
PROGRAM = """
import zlib
def f(rows):
    # Of every cell, and of the order where no real is in them, which engines write differently.
    cells = [str([one + 0.0 if isinstance(one, float) else one for one in row.values()])
             for row in rows.to_pylist()]
    if "cost" in rows.column_names:
        cells.sort()
    return [zlib.crc32(str(cells).encode()) % 1000, len(cells)]
"""


def blocks_and_answer(
    engine: Engine, unit: Unit, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[list[float] | None], list[float]]:
    schema = sf.Schema("people", COLUMNS, unit=unit)
    private = sf.protect(sf.read(ROWS, schema=schema), epsilon=9)
    room = OpenChamber()
    monkeypatch.setattr(request, "chamber", lambda _choice: room)
    monkeypatch.setattr(request, "_wait_until", lambda _moment: None)
    asked: Any = private.prepare(
        FAMILIES["run"],
        program=PROGRAM,
        function="f",
        output=[(0, 1000), (0, 60)],
        epsilon=4,
        blocks=6,
        repeats=2,
        columns=columns,
    )
    data = Dataset("people", engine, engine.table, schema, unit)
    release = asked.run({"people": data}, SeededEntropy(20))
    return room.outputs, release.tables["values"]["value"].to_pylist()


UNITS: dict[str, tuple[Unit, list[str]]] = {
    "row": (sf.Rows(), ["who", "age", "town", "day"]),
    "who": (sf.Entity("who", max_rows=1), ["age", "town", "day"]),
    "reals": (sf.Entity("who", max_rows=2), ["age", "cost", "town", "day"]),
}


@pytest.mark.parametrize("by", UNITS)
def test_same_blocks_and_same_answer(
    open_quick_engine: Callable[[pa.Table], Engine],
    duckdb_engine: Callable[[pa.Table], Engine],
    by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _check_same(open_quick_engine, duckdb_engine, by, monkeypatch)


def test_same_blocks_and_same_answer_on_spark(
    spark_engine: Callable[[pa.Table], Engine],
    duckdb_engine: Callable[[pa.Table], Engine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _check_same(spark_engine, duckdb_engine, "who", monkeypatch)


def _check_same(
    one: Callable[[pa.Table], Engine],
    other: Callable[[pa.Table], Engine],
    by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unit, columns = UNITS[by]
    expected = blocks_and_answer(other(ROWS), unit, columns, monkeypatch)
    assert None not in expected[0]
    # Rows come in another order, and every one of them twice dealt.
    turned = ROWS.take(list(reversed(NUMBERS)))
    assert blocks_and_answer(one(turned), unit, columns, monkeypatch) == expected
    kept = 60 if by == "who" else len(ROWS)
    assert sum(held[1] for held in expected[0] if held is not None) == 2 * kept
