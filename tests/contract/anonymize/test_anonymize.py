"""The same release on every engine, row for row as multisets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.demo import town
from sfumato.schema.column import Role
from sfumato.schema.file import load
from sfumato.vault.anonymizing import anonymize
from sfumato.vault.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from sfumato.engines.base import Engine

    Open = Callable[[pa.Table], Engine]

SCHEMA = load(Path(town.__file__).with_name("town.toml"))
PEOPLE = town.table(400)


def opened(engine: Engine) -> Table:
    return Table(engine, SCHEMA, ("declared",) * len(SCHEMA.columns))


def rows(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


@pytest.mark.parametrize("algorithm", ["optimal", "mondrian"])
def test_engines_agree(
    open_engine: Open, duckdb_engine: Open, algorithm: str, tmp_path: Path
) -> None:
    limit = {} if algorithm == "mondrian" else {"suppress": "0.1", "suppressed": "star"}

    def decide(engine: Engine) -> sf.Release:
        asked = (sf.KAnonymity(3), sf.DistinctDiversity(2, "disease"))
        return opened(engine).anonymize(*asked, algorithm=algorithm, **limit)

    here, there = decide(open_engine(PEOPLE)), decide(duckdb_engine(PEOPLE))
    assert rows(here.table) == rows(there.table)
    assert here.table.schema == there.table.schema
    assert here.guarantee == there.guarantee
    assert here.error == there.error
    assert here.provenance.fingerprint == there.provenance.fingerprint
    here.save(tmp_path / "out.csv")
    assert rows(sf.Release.load(tmp_path / "out.csv").table) == rows(there.table)


def test_files_of_every_engine_hold_the_same_rows(
    open_engine: Open, duckdb_engine: Open, tmp_path: Path
) -> None:
    tables = {}
    for name, opener in (("here", open_engine), ("there", duckdb_engine)):
        decided = anonymize(opened(opener(PEOPLE)), [sf.KAnonymity(5)], suppress="0.05")
        decided.write(tmp_path / f"{name}.csv")
        tables[name] = (tmp_path / f"{name}.csv").read_text().splitlines()
    assert sorted(tables["here"]) == sorted(tables["there"])


def test_anatomy_keeps_every_row_and_every_value(open_engine: Open) -> None:
    people = opened(open_engine(PEOPLE))
    release = people.anonymize(sf.FolkDiversity(2, "disease"), algorithm="anatomy")
    quasi, sensitive = release.tables["quasi"], release.tables["sensitive"]
    names = [column.name for column in SCHEMA.by_role(Role.QUASI)]
    assert rows(quasi.select(names)) == rows(PEOPLE.select(names))
    values: Counter[object] = Counter()
    for row in sensitive.to_pylist():
        values[row["disease"]] += row["count"]
    assert values == Counter(PEOPLE["disease"].to_pylist())
    sizes = Counter(quasi["group"].to_pylist())
    assert min(sizes.values()) >= 2
    assert max(sensitive["count"].to_pylist()) == 1
