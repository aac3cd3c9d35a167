"""Cells into kinds: what is a value, and where the first cell is that is none."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.data.files.cell_conversion import conform, find_fitting_kinds, fitting_kinds
from sfumato.data.schema.column import Kind
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.duckdb import DuckDB

MIDNIGHT = dt.datetime.fromisoformat("2024-02-29")

ACCEPTED: list[tuple[Kind, str, object]] = [
    (Kind.INTEGER, "0", 0),
    (Kind.INTEGER, "-0", 0),
    (Kind.INTEGER, "+5", 5),
    (Kind.INTEGER, "007", 7),
    (Kind.INTEGER, "9223372036854775807", 2**63 - 1),
    (Kind.INTEGER, "-9223372036854775808", -(2**63)),
    (Kind.REAL, "1e5", 1e5),
    (Kind.REAL, "-.5", -0.5),
    (Kind.REAL, "+2.", 2.0),
    (Kind.REAL, "0.1", 0.1),
    (Kind.REAL, "inf", math.inf),
    (Kind.REAL, "-inf", -math.inf),
    (Kind.DATE, "2024-02-29", dt.date(2024, 2, 29)),
    (Kind.DATE, "0001-01-01", dt.date(1, 1, 1)),
    (Kind.DATE, "9999-12-31", dt.date(9999, 12, 31)),
    (Kind.BOOLEAN, "true", True),
    (Kind.BOOLEAN, "FALSE", False),
    (Kind.TEXT, " anything ", " anything "),
]

REFUSED = [
    *(
        (Kind.INTEGER, cell)
        for cell in ["1,000", "1e5", "0x1F", "٣", " 5 ", "1_000", "2.0", "", "-"]
    ),
    *((Kind.INTEGER, cell) for cell in ["9223372036854775808", "-9223372036854775809", "9" * 400]),
    *(
        (Kind.REAL, cell)
        for cell in ["1,5", "1e999", "9" * 400, " 1", "0x1p3", "Infinity", "1e", "."]
    ),
    *((Kind.DATE, cell) for cell in ["0000-00-00", "0000-01-01", "10000-01-01", "2023-02-29"]),
    *((Kind.DATE, cell) for cell in ["24-02-03", "2024-2-3", "2024-02-03T00:00", "2024-02-03Z"]),
    *((Kind.BOOLEAN, cell) for cell in ["1", "yes", "t", " true"]),
]


def converted(cells: list[Any], kind: Kind, data_type: pa.DataType | None = None) -> list[Any]:
    batch = pa.record_batch([pa.array(cells, data_type)], names=["c"])
    values: list[Any] = pa.Table.from_batches(conform([batch], {"c": kind}))["c"].to_pylist()
    return values


@pytest.mark.parametrize(("kind", "cell", "value"), ACCEPTED)
def test_accepted(kind: Kind, cell: str, value: object) -> None:
    assert converted([None, cell], kind) == [None, value]


def test_nan_is_a_real() -> None:
    assert all(math.isnan(value) for value in converted(["nan", "NaN"], Kind.REAL))


@pytest.mark.parametrize(("kind", "cell"), REFUSED)
def test_refused_with_its_place(kind: Kind, cell: str) -> None:
    good = next(text for fitting_kind, text, _ in ACCEPTED if fitting_kind is kind)
    with pytest.raises(SourceError, match=r"^Column 'c', data row 4, is not ") as refusal:
        converted([good, None, good, cell, good, cell], kind)
    assert refusal.value.code == "cell_malformed"


def test_rows_are_counted_over_batches() -> None:
    batches = [
        pa.record_batch({"c": ["1"] * 1000}),
        pa.record_batch({"c": ["1"] * 499 + ["secret"]}),
    ]
    with pytest.raises(SourceError, match=r"data row 1,500,") as refusal:
        list(conform(batches, {"c": Kind.INTEGER}))
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("cells", "data_type", "kind", "values"),
    [
        ([5.0, None], pa.float64(), Kind.INTEGER, [5, None]),
        ([5, None], pa.uint64(), Kind.INTEGER, [5, None]),
        ([5], pa.int64(), Kind.REAL, [5.0]),
        ([5], pa.int32(), Kind.TEXT, ["5"]),
        (
            [MIDNIGHT],
            pa.timestamp("ns"),
            Kind.DATE,
            [dt.date(2024, 2, 29)],
        ),
        (["a", None], pa.dictionary(pa.int8(), pa.string()), Kind.TEXT, ["a", None]),
        (["7"], pa.large_string(), Kind.INTEGER, [7]),
        ([None], pa.null(), Kind.DATE, [None]),
    ],
)
def test_other_types_convert_exactly(
    cells: list[Any], data_type: pa.DataType, kind: Kind, values: list[Any]
) -> None:
    assert converted(cells, kind, data_type) == values


@pytest.mark.parametrize(
    ("cell", "data_type", "kind"),
    [
        (5.5, pa.float64(), Kind.INTEGER),
        (math.nan, pa.float64(), Kind.INTEGER),
        (1e300, pa.float64(), Kind.INTEGER),
        (2**64 - 1, pa.uint64(), Kind.INTEGER),
        (2**53 + 1, pa.int64(), Kind.REAL),
        (MIDNIGHT + dt.timedelta(hours=1), pa.timestamp("us"), Kind.DATE),
    ],
)
def test_other_types_are_never_rounded(cell: object, data_type: pa.DataType, kind: Kind) -> None:
    with pytest.raises(SourceError, match=r"^Column 'c', data row 2,") as refusal:
        converted([None, cell], kind, data_type)
    assert refusal.value.code == "cell_malformed"


def test_kinds_that_make_no_sense_together() -> None:
    with pytest.raises(SourceError, match="holds bool, which cannot be read as date") as refusal:
        converted([True], Kind.DATE)
    assert refusal.value.code == "kind_mismatch"


def test_fitting() -> None:
    batches = [
        pa.record_batch(
            {
                "n": ["1", None],
                "r": ["1", "2.5"],
                "d": ["2024-01-01", None],
                "t": ["1", "x"],
                "e": pa.array([None, None], pa.string()),
            }
        ),
        pa.record_batch(
            {
                "n": ["-3"],
                "r": ["nan"],
                "d": ["2024-01-02"],
                "t": ["true"],
                "e": pa.array([None], pa.string()),
            }
        ),
    ]
    assert find_fitting_kinds(batches, ["n", "r", "d", "t", "e"]) == {
        "n": {Kind.INTEGER, Kind.REAL, Kind.TEXT},
        "r": {Kind.REAL, Kind.TEXT},
        "d": {Kind.DATE, Kind.TEXT},
        "t": {Kind.TEXT},
        "e": set(Kind),
    }


def test_csv_with_kinds(read_csv: Callable[..., list[dict[str, Any]]]) -> None:
    kinds = {"n": Kind.INTEGER, "d": Kind.DATE}
    assert read_csv(b"n,d,t\n1,2024-01-01,1\n,,\n", kinds=kinds) == [
        {"n": 1, "d": dt.date(2024, 1, 1), "t": "1"},
        {"n": None, "d": None, "t": None},
    ]
    with pytest.raises(SourceError, match=r"^Column 'n', data row 2,") as refusal:
        read_csv(b"n,d,t\n1,,\nsecret,,\n", kinds=kinds)
    assert refusal.value.code == "cell_malformed"
    assert refusal.value.__context__ is None


def test_text_first_kinds_later(opened: Callable[..., DuckDB]) -> None:
    engine = opened(pa.table({"n": ["1", "2"], "t": ["1", "x"]}))
    assert fitting_kinds(engine)["n"] == {Kind.INTEGER, Kind.REAL, Kind.TEXT}
    engine.retype({"n": Kind.INTEGER})
    assert engine.columns(engine.table) == {"n": Kind.INTEGER, "t": Kind.TEXT}
    with pytest.raises(SourceError, match=r"^Column 't', data row 2,"):
        engine.retype({"t": Kind.INTEGER})
    assert engine.columns(engine.table) == {"n": Kind.INTEGER, "t": Kind.TEXT}
