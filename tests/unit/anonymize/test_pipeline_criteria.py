"""Criteria are given as objects or by number, and both say the same."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, get_args

import pytest

import sfumato as sf
from sfumato.anonymize.cost import COSTS
from sfumato.anonymize.perturbative_release import PERTURBATIVE
from sfumato.anonymize.pipeline import Algorithm, CostName
from sfumato.anonymize.search import SEARCHES
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.release.open_table import Table


def promised(release: sf.Release) -> Any:
    return release.guarantee.parameters["criteria"], release.table.to_pylist()


@pytest.mark.parametrize(
    ("numbers", "criteria"),
    [
        ({"k": 3}, [sf.KAnonymity(3)]),
        (
            {"k": 2, "l": 2, "sensitive": "disease"},
            [sf.KAnonymity(2), sf.DistinctDiversity(2, "disease")],
        ),
        (
            {"l": 2, "diversity": "recursive", "c": Decimal(3), "sensitive": ["disease"]},
            [sf.RecursiveDiversity(2, "disease", c=3)],
        ),
        (
            {"k": 2, "t": 0.5, "distance": "hierarchy", "sensitive": "disease"},
            [sf.KAnonymity(2), sf.TCloseness(0.5, "disease", distance="hierarchy")],
        ),
        ({"beta": 9, "sensitive": "disease"}, [sf.BetaLikeness(9, "disease")]),
    ],
)
def test_numbers_are_criteria(people: Table, numbers: Any, criteria: list[Any]) -> None:
    by_number = people.anonymize(**numbers, suppress="0.1")
    assert promised(by_number) == promised(people.anonymize(*criteria, suppress=0.1))


def test_numbers_and_objects_go_together(people: Table) -> None:
    release = people.anonymize(sf.DistinctDiversity(2, "disease"), k=3)
    both = people.anonymize(sf.DistinctDiversity(2, "disease"), sf.KAnonymity(3))
    assert promised(release) == promised(both)


def test_a_population_is_given_open_or_as_it_lies(people: Table) -> None:
    open_one = people.anonymize(k=2, population=people)
    assert open_one.guarantee.parameters["criteria"] == ["2-map"]
    assert promised(open_one) == promised(people.anonymize(k=2, population=people.source))
    presence = people.anonymize(presence=(0, 1), population=people)
    assert promised(presence) == promised(people.anonymize(presence="0,1", population=people))


def test_refusals_name_keywords(people: Table) -> None:
    with pytest.raises(ParameterError) as refusal:
        people.anonymize(k=2, diversity="entropy")
    assert refusal.value.message == "diversity= has no effect without l=. Give both, or neither."


def test_completion_knows_all_algorithms_and_costs() -> None:
    assert set(get_args(Algorithm)) == {*SEARCHES, *PERTURBATIVE}
    assert set(get_args(CostName)) == set(COSTS)


def test_a_release_is_measured_and_asked(people: Table, tmp_path: Path) -> None:
    people.anonymize(k=3, suppress="0.1").save(tmp_path / "out.csv")
    (tmp_path / "questions.sql").write_text("SELECT COUNT(*) FROM people WHERE age < 30\n")
    with sf.read(tmp_path / "out.csv", people.schema) as released:
        alone = released.measure()
        assert alone.k >= 3
        against = released.measure(original=people, workload=tmp_path / "questions.sql")
        assert against.reference == "original"
        assert against.workload is not None
        assert against == released.measure(
            original=people.source, workload=["SELECT COUNT(*) FROM people WHERE age < 30"]
        )
        bounds = released.worlds("SELECT COUNT(*) FROM people WHERE age < 30")
        assert bounds.lower is not None
        assert bounds.upper is not None
        assert bounds.lower <= 22 <= bounds.upper + 3


def test_a_schema_goes_to_a_file_and_back(people: Table, tmp_path: Path) -> None:
    people.save_schema(str(tmp_path / "noted.toml"))
    people.schema.save(tmp_path / "plain.toml")
    assert sf.Schema.load(tmp_path / "noted.toml") == people.schema
    assert sf.Schema.load(str(tmp_path / "plain.toml")) == people.schema
    assert "# declared in the schema" in (tmp_path / "noted.toml").read_text()
    with pytest.raises(sf.SfumatoError) as refusal:
        people.schema.save(tmp_path / "plain.toml")
    assert refusal.value.code == "output_exists"


def test_hierarchies_are_made_in_python_as_in_a_schema_file(people: Table, tmp_path: Path) -> None:
    tree = sf.Tree.of({"lung": ["flu", "cold"], "other": ["gout", "none"]})
    assert tree == people.schema.column("disease").hierarchy
    assert sf.Widths([10, 50]) == people.schema.column("age").hierarchy  # type: ignore[arg-type]
    assert sf.Mask("right") == people.schema.column("zip").hierarchy  # type: ignore[arg-type]
    (tmp_path / "d.csv").write_text("flu,lung,*\ncold,lung,*\ngout,other,*\nnone,other,*\n")
    assert sf.Tree.read(tmp_path / "d.csv").ancestors == tree.ancestors
    columns = [sf.Column("day", "date", "quasi", hierarchy=sf.Calendar(["month", "year"]))]  # type: ignore[arg-type]
    columns += [sf.Column("cost", "real", domain=sf.Bounds(0, 99.5))]  # type: ignore[arg-type]
    schema = sf.Schema("made", columns)  # type: ignore[arg-type]
    schema.save(tmp_path / "made.toml")
    assert sf.Schema.load(tmp_path / "made.toml") == schema
