"""A fingerprint follows the data, not its order or engine settings, and tells outsiders nothing."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from sfumato.engines.sources import open_duckdb
from sfumato.fingerprint import fingerprint

TABLE = pa.table({"name": ["Ann", "Bob", None], "age": pa.array([34, 51, None], pa.int64())})


def of(table: pa.Table, secret: bytes = b"secret") -> str:
    engine = open_duckdb(table)
    found = fingerprint(engine, engine.table, table.column_names, secret=secret)
    engine.close()
    return found


def test_order_of_rows_does_not_matter() -> None:
    assert of(TABLE) == of(TABLE.take([2, 0, 1]))


def test_every_change_shows() -> None:
    changed = [
        TABLE.slice(0, 2),
        pa.concat_tables([TABLE, TABLE.slice(0, 1)]),
        TABLE.set_column(1, "age", pa.array([34, 52, None], pa.int64())),
        TABLE.rename_columns(["name", "years"]),
        TABLE.slice(0, 0),
    ]
    prints = {of(TABLE), *(of(table) for table in changed)}
    assert len(prints) == 6


def test_without_the_secret_a_guess_cannot_be_tested() -> None:
    assert of(TABLE, b"one") != of(TABLE, b"two")
    assert of(TABLE) != hashlib.sha256(b"").hexdigest()
    assert len(of(TABLE)) == 64
