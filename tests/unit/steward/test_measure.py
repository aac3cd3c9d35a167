"""Released files are measured and asked, whoever made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp

import sfumato as sf
from sfumato.anonymize.search import SEARCHES
from sfumato.errors import SchemaError, SourceError
from sfumato.steward.anonymize import anonymize
from sfumato.steward.measure import bound, measure

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.schema.schema import Schema
    from sfumato.steward.table import Table


@pytest.mark.parametrize("algorithm", ["optimal", "mondrian", "aggarwal-generalize"])
@pytest.mark.parametrize("suppressed", ["drop", "star"])
@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_measuring_a_release_against_its_original_gives_the_costs_of_its_maker(
    people: Table, schema: Schema, tmp_path: Path, algorithm: str, suppressed: str, end: str
) -> None:
    out = tmp_path / f"out.{end}"
    takes = SEARCHES[algorithm].takes
    given = {"suppress": "0.1", "suppressed": suppressed}
    options: dict[str, Any] = {name: one for name, one in given.items() if name in takes}
    decided = anonymize(people, [sf.KAnonymity(3)], algorithm=algorithm, **options)
    decided.write(out)
    original = people.engine.run(_everything(people))
    found = measure(out, schema, original=original)
    assert found.reference == "original"
    assert found.k >= 3
    assert found.classes == decided.figures["classes"]
    scale = found.k / 3
    for name, value in decided.figures["cost"].items():
        factor = scale if name in {"average_class_size", "c_avg"} else 1
        assert value is not None
        assert found.cost[name] == pytest.approx(value / factor, rel=1e-12), name


def _everything(people: Table) -> exp.Query:
    return exp.select(exp.Star()).from_(people.engine.table)


def test_a_raw_table_is_measured_as_it_is(people: Table, schema: Schema) -> None:
    raw = people.engine.run(_everything(people))
    found = measure(raw, schema)
    assert (found.rows, found.k, found.reference) == (24, 1, "release")
    assert found.cost["loss"] == 0
    assert found.cost["entropy"] is None
    assert measure(raw, schema, population=raw).json()["population"]["k_map"] == 1


def test_values_without_a_place_are_only_in_the_detail(people: Table, schema: Schema) -> None:
    raw = people.engine.run(_everything(people))
    strange = raw.set_column(3, "disease", [["plague"] * 24])
    with pytest.raises(SchemaError) as refusal:
        measure(strange, schema)
    assert "plague" in (refusal.value.detail or "")
    assert "plague" not in refusal.value.message


def test_questions_on_a_generalized_table(people: Table, schema: Schema, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    anonymize(people, [sf.KAnonymity(3)], suppress="0.1").write(out)
    everyone = bound(out, "SELECT COUNT(*) FROM people", schema)
    assert (everyone.lower, everyone.upper) == (23, 23)
    found = bound(out, "SELECT COUNT(*) FROM people WHERE age = 25", schema)
    assert found.lower == 0
    assert found.upper is not None
    assert found.upper >= 2
    assert bound(out, "SELECT MAX(visits) FROM people", schema).upper == 4


def test_questions_on_an_anatomy(people: Table, schema: Schema, tmp_path: Path) -> None:
    out = tmp_path / "buckets"
    decided = anonymize(people, [sf.FolkDiversity(4, "disease")], algorithm="anatomy")
    decided.write(out)
    every = bound(out, "SELECT COUNT(*) FROM people WHERE disease = 'flu'", schema)
    assert (every.lower, every.upper) == (6, 6)
    some = bound(out, "SELECT COUNT(*) FROM people WHERE disease = 'flu' AND age = 91", schema)
    assert (some.lower, some.upper, some.estimate) == (0, 1, 0.25)
    (out / "sensitive.csv").unlink()
    with pytest.raises(SourceError) as refusal:
        bound(out, "SELECT COUNT(*) FROM people", schema)
    assert refusal.value.code == "release_incomplete"
