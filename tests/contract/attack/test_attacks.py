"""The same findings on every engine: attacks count where tables lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.attack.case import Case, HeldRelease, HeldTable
from sfumato.attack.options import AttackOptions
from sfumato.attack.registry import run_all
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import load
from sfumato.demo import town
from sfumato.release.open_table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from sfumato.data.engines.base import Engine

    Open = Callable[[pa.Table], Engine]

TOWN = load(Path(town.__file__).with_name("town.toml"))
# A hundred years of days take long to be grown into a hierarchy, and tell nothing of engines.
SCHEMA = Schema("town", tuple(one for one in TOWN.columns if one.name != "birth_date"))
PEOPLE = town.table(300).drop_columns(["birth_date"])


def test_engines_agree(open_engine: Open, duckdb_engine: Open) -> None:
    whole = Table(duckdb_engine(PEOPLE), SCHEMA, ("declared",) * len(SCHEMA.columns))
    released = whole.anonymize(k=3, algorithm="mondrian").table

    def held(opened: Open, table: pa.Table) -> HeldTable:
        engine = opened(table)
        columns = tuple(one for one in SCHEMA.columns if one.name in table.column_names)
        return HeldTable(engine, engine.table, columns)

    def found(opened: Open) -> dict[str, Any]:
        people, release = held(opened, PEOPLE), HeldRelease(held(opened, released))
        options = AttackOptions(population_size=5000, l=2)
        case = Case(SCHEMA, release, people, people, release, people, options)
        told = run_all(case).json()
        for one in told["findings"]:
            del one["cost"]
        return told

    here, there = found(open_engine), found(duckdb_engine)
    assert here == there
    ran = {one["attack"] for one in here["findings"]}
    assert {"link", "link-fuzzy", "uniqueness", "homogeneity", "minimality", "predict"} <= ran
