"""The same release on every engine, row for row as multisets."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import load
from sfumato.demo import town
from sfumato.release.open_table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine

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
    limit: Any = {} if algorithm == "mondrian" else {"suppress": "0.1", "suppressed": "star"}

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


@pytest.mark.parametrize(
    ("open_engine", "algorithm"),
    [
        # Cuts are hundreds of small queries, which take a server that starts slowly ten seconds.
        *product(("duckdb", "postgres"), ("optimal", "mondrian")),
        ("spark", "optimal"),
        pytest.param("spark", "mondrian", marks=pytest.mark.slow),
    ],
    indirect=["open_engine"],
)
def test_engines_agree_on_what_does_not_fit_in_memory(
    open_engine: Open, duckdb_engine: Open, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_MOST_CELLS", "2500")  # one cut makes parts that fit

    def decide(engine: Engine) -> sf.Release:
        asked = (sf.KAnonymity(100), sf.DistinctDiversity(2, "disease"))
        return opened(engine).anonymize(*asked, algorithm=algorithm)

    here, there = decide(open_engine(PEOPLE)), decide(duckdb_engine(PEOPLE))
    assert here.holder is not None
    assert "more than memory is kept for" in str(here.holder["remarks"])
    assert rows(here.table) == rows(there.table)
    assert here.guarantee == there.guarantee


VISITS = Schema(
    "visits",
    (
        Column("patient", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 15), Widths((2, 4, 8))),
        Column("grade", Kind.TEXT, Role.SENSITIVE, Values(("low", "mid", "high"))),
    ),
    sf.Entity("patient", max_rows=5),
)


@pytest.mark.parametrize("algorithm", ["optimal", "mondrian"])
def test_people_are_counted_on_every_engine(open_engine: Open, algorithm: str) -> None:
    """Each of 60 people has one to five visits; classes of five rows are often of two people."""
    visits = [(n // 3 if n % 7 else n // 5, n * 5 % 16, n % 11 % 3) for n in range(180)]
    patients = [patient for patient, _, _ in visits]
    table = pa.table(
        {
            "patient": patients,
            "age": [age for _, age, _ in visits],
            "grade": [("low", "mid", "high")[grade] for _, _, grade in visits],
        }
    )
    held = Table(open_engine(table), VISITS, ("declared",) * 3)
    limit: dict[str, Any] = {"suppress": "0.2"} if algorithm == "optimal" else {}
    asked = [sf.KAnonymity(9), sf.TCloseness("0.4", "grade", distance="ordered")]
    decided = anonymize(held, asked, algorithm=algorithm, **limit)
    assert decided.figures["people"] == len(set(patients))
    released = decided.release().table
    crowds = _crowds(released["age"].to_pylist(), table)
    assert len(crowds) == decided.figures["classes"] > 1
    assert min(map(len, crowds.values())) >= 9
    kept = set().union(*crowds.values())
    assert decided.figures["suppressed_people"] is not None
    assert (
        len(set(patients) - kept)
        <= decided.figures["suppressed_people"]
        <= 0.2 * len(set(patients))
    )


def _crowds(labels: list[str], table: pa.Table) -> dict[str, set[int]]:
    """The people whose age each released label covers; labels of one release do not overlap."""
    people = list(zip(table["patient"].to_pylist(), table["age"].to_pylist(), strict=True))
    crowds = {}
    for label in set(labels):
        low, _, high = label.strip("[]").replace(", ", "-").partition("-")
        crowds[label] = {who for who, age in people if int(low) <= age <= int(high or low)}
    return crowds


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


ZEROS = Schema(
    "zeros",
    (
        Column("age", Kind.INTEGER, Role.QUASI, hierarchy=Widths((10,))),
        Column("change", Kind.REAL, Role.OTHER),
        Column("further", Kind.REAL, Role.OTHER),
    ),
)


def test_rows_that_differ_by_the_sign_of_a_zero_do_not_lie_as_in_the_original(
    open_engine: Open,
) -> None:
    zeros = [0.0 if place * 7 % 3 else -0.0 for place in range(60)]
    change = [None if place % 11 == 5 else zero for place, zero in enumerate(zeros)]
    columns = {
        "age": [place % 2 * 20 for place in range(60)],
        "change": pa.array(change, pa.float64()),
        "further": pa.array(zeros[::-1], pa.float64()),
    }
    table = pa.table(columns)
    here, turned = (
        anonymize(Table(open_engine(one), ZEROS, ("declared",) * 3), [sf.KAnonymity(5)])
        for one in (table, table.take(pa.array([*range(59, -1, -1)])))
    )
    # As text, for the zeros are equal as numbers.
    assert str(here.release().table.to_pylist()) == str(turned.release().table.to_pylist())
    assert "-0.0" in str(here.release().table.to_pylist())
