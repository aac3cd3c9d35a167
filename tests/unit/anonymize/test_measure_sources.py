"""Released files are measured and asked, whoever made them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlglot import exp

import sfumato as sf
from sfumato.anonymize.measure import bound, measure
from sfumato.anonymize.pipeline import anonymize
from sfumato.anonymize.search import SEARCHES
from sfumato.errors import ParameterError, SchemaError, SfumatoError, SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Table


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
    assert refusal.value.code == "release_unreadable"


def test_a_workload_tells_how_far_off_answers_are(
    people: Table, schema: Schema, tmp_path: Path
) -> None:
    questions = [
        "SELECT COUNT(*) FROM people",
        "SELECT COUNT(*) FROM people WHERE age <= 25",
        "SELECT AVG(salary) FROM people WHERE age = 0",
    ]
    raw = people.engine.run(_everything(people))
    exact = people.measure(original=raw, workload=questions).json()["workload"]
    assert exact == {"mean": 0.0, "errors": [0.0, 0.0, None]}
    anonymize(people, [sf.KAnonymity(8)]).write(tmp_path / "out.csv")
    with closing(sf.read(tmp_path / "out.csv", schema)) as release:
        coarse = release.measure(original=raw, workload=questions)
    assert coarse.k >= 8
    assert coarse.workload is not None
    assert coarse.workload.errors[0] == 0
    assert coarse.workload.errors[1] == pytest.approx(_error(raw, tmp_path, schema, questions[1]))
    decided = anonymize(people, [sf.FolkDiversity(4, "disease")], algorithm="anatomy")
    decided.write(tmp_path / "buckets")
    flu = ["SELECT COUNT(*) FROM people WHERE disease = 'flu'"]
    buckets = measure(tmp_path / "buckets", schema, original=raw, workload=flu).workload
    assert buckets is not None
    assert buckets.mean == 0
    with pytest.raises(ParameterError) as refusal:
        people.measure(workload=questions)
    assert refusal.value.code == "workload_invalid"


def _error(raw: pa.Table, folder: Path, schema: Schema, question: str) -> float:
    true = sum(age <= 25 for age in raw["age"].to_pylist())
    estimate = bound(folder / "out.csv", question, schema).estimate
    assert estimate is not None
    return float(abs(estimate - true) / true)


def test_linking_with_a_population_is_counted(people: Table, schema: Schema) -> None:
    raw = people.engine.run(_everything(people))
    twice = pa.concat_tables([raw, raw])
    found = measure(raw, schema, population=twice).json()["population"]
    alone = people.inspect().reidentification
    assert found["journalist"] == alone.prosecutor.highest / 2
    assert found["marketer"] == pytest.approx(alone.prosecutor.average / 2)
    drawn = people.inspect(population=twice).reidentification
    assert drawn.prosecutor == alone.prosecutor
    assert drawn.journalist.highest == found["journalist"]
    assert drawn.marketer.average == pytest.approx(found["marketer"])


def test_a_release_is_compared_with_a_population_by_measure_alone(
    people: Table, schema: Schema, tmp_path: Path
) -> None:
    anonymize(people, [sf.KAnonymity(3)], suppress="0.1").write(tmp_path / "out.csv")
    raw = people.engine.run(_everything(people))
    with closing(sf.read(tmp_path / "out.csv", schema)) as release:
        with pytest.raises(ParameterError) as refusal:
            release.inspect(population=raw)
        found = release.measure(population=raw).population
    assert refusal.value.code == "table_is_release"
    assert found is not None
    assert 0 < found["marketer"] <= found["journalist"] <= 1 / 3


def test_a_release_is_no_population(people: Table, schema: Schema, tmp_path: Path) -> None:
    anonymize(people, [sf.KAnonymity(3)], suppress="0.1").write(tmp_path / "out.csv")
    with pytest.raises(ParameterError) as refusal:
        people.inspect(population=tmp_path / "out.csv")
    assert refusal.value.code == "table_is_release"
    with pytest.raises(SfumatoError):
        measure(people.engine.run(_everything(people)), schema, population=tmp_path / "out.csv")


def test_a_file_that_was_changed_since_it_was_released_is_refused(
    people: Table, schema: Schema, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    anonymize(people, [sf.KAnonymity(3)], suppress="0.1").write(out)
    out.write_text(out.read_text().replace("flu", "cold"))
    for ask in (
        lambda: measure(out, schema),
        lambda: bound(out, "SELECT COUNT(*) FROM people", schema),
        lambda: sf.read(out, schema),
    ):
        with pytest.raises(SourceError) as refusal:
            ask()
        assert refusal.value.code == "release_changed"
    (tmp_path / "out.csv.json").unlink()
    assert measure(out, schema).k >= 3
