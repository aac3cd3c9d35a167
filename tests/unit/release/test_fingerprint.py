"""A fingerprint follows the data, not its order or engine settings, and tells outsiders nothing."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from sfumato.data.engines.sources import open_duckdb
from sfumato.release.fingerprint import contents, fingerprint

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


def marked(table: pa.Table) -> str | None:
    engine = open_duckdb(table)
    found = contents(engine, engine.table, engine.columns(engine.table), secret=b"secret")
    engine.close()
    return found


def test_a_copy_in_another_order_under_other_types_has_the_same_contents() -> None:
    numbers = TABLE.append_column("share", pa.array([0.5, None, 1e300]))
    copy = numbers.select(["share", "age", "name"]).take([1, 2, 0])
    small = copy.set_column(1, "age", copy["age"].cast(pa.int16()))
    assert marked(numbers) == marked(copy) == marked(small)
    assert marked(numbers) == marked(copy.rename_columns(["SHARE", "AGE", "Name"]))


def test_other_rows_have_other_contents() -> None:
    numbers = TABLE.append_column("share", pa.array([0.5, None, 2.0]))
    changed = [
        numbers,
        numbers.slice(1),
        numbers.drop_columns("name"),
        numbers.set_column(2, "share", pa.array([0.5, 0.0, 2.0])),
        numbers.set_column(2, "share", pa.array([0.5, None, 2.00001])),
    ]
    assert len({marked(table) for table in changed}) == len(changed)
    assert marked(numbers.slice(0, 0)) is None


def test_a_table_may_be_wide() -> None:
    wide = pa.table({f"c{place}": [place, 1] for place in range(400)})
    assert marked(wide) == marked(wide.take([1, 0]))
    assert of(wide) != of(wide.set_column(399, "c399", pa.array([0, 0])))
