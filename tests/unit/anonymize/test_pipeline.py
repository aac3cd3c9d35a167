"""Tables are anonymized as asked, and what leaves is what was promised."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlglot import exp

import sfumato as sf
from sfumato.anonymize.pipeline import anonymize
from sfumato.anonymize.search import SEARCHES as MEMBERS
from sfumato.data.schema.schema import Schema
from sfumato.errors import CriterionError, OutputError, ParameterError, SchemaError
from sfumato.release.open_table import read
from sfumato.release.sidecar import holder_file, sidecar_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.release.open_table import Table

SEARCHES = [
    "optimal", "incognito", "samarati", "sweeney", "datafly", "mondrian", "mondrian-relaxed",
    "k-optimize", "aggarwal-suppress", "aggarwal-generalize",
]  # fmt: skip


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def classes(table: pa.Table, *quasi: str) -> Counter[tuple[object, ...]]:
    return Counter(rows(table.select(list(quasi))))


def kept_of(release: sf.Release) -> Mapping[str, Any]:
    """The figures that stay with the holder."""
    assert release.holder is not None
    figures: Mapping[str, Any] = release.holder["figures"]
    return figures


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_every_search_releases_classes_of_k_and_nothing_that_identifies(
    people: Table, algorithm: str
) -> None:
    limit: Any = {"suppress": "0.1"} if "suppress" in MEMBERS[algorithm].takes else {}
    release = people.anonymize(sf.KAnonymity(3), algorithm=algorithm, **limit)
    table = release.table
    assert table.column_names == ["age", "zip", "disease", "visits", "salary"]
    assert min(classes(table, "age", "zip").values()) >= 3
    facts, kept = release.guarantee.parameters, kept_of(release)
    assert facts["classes"] == len(classes(table, "age", "zip"))
    assert facts["released"] == table.num_rows == kept["rows"] - kept["suppressed"]
    assert kept["suppressed"] <= 2
    assert facts["unprotected"] == ["disease", "visits", "salary"]
    originals = Counter(rows(people.engine.run(_sensitive(people))))
    assert not Counter(rows(table.select(["disease", "salary"]))) - originals


def _sensitive(people: Table) -> exp.Query:
    columns = [exp.column(name, quoted=True) for name in ("disease", "salary")]
    return exp.select(*columns).from_(people.engine.table)


def test_rows_are_sorted_by_all_released_columns(people: Table) -> None:
    released = rows(people.anonymize(sf.KAnonymity(3), suppress="0.1").table)
    assert released == sorted(released)


def test_starred_rows_say_nothing_at_all(people: Table, tmp_path: Path) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], suppress="0.1", suppressed="star")
    gone = decided.figures["suppressed"]
    assert gone == 1
    table = decided.release().table
    assert table.num_rows == 24
    assert [row for row in rows(table) if row[0] is None] == [(None,) * 5] * gone
    decided.write(tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines.count("*,*,*,,") == gone
    assert sf.Release.load(tmp_path / "out.csv").table.num_rows == 24


def test_a_written_release_is_the_one_in_memory(people: Table, tmp_path: Path) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], suppress="0.1")
    for name in ("out.csv", "out.csv.gz", "out.parquet"):
        decided.write(tmp_path / name)
        loaded = sf.Release.load(tmp_path / name)
        made = decided.release()
        assert rows(loaded.table) == rows(made.table)
        assert loaded.guarantee == made.guarantee
        assert loaded.provenance == made.provenance
        assert (loaded.error, loaded.holder) == (made.error, made.holder)
    names = {path.name for path in tmp_path.iterdir()} - {"people.toml"}
    assert names == {
        f"out.{end}{more}"
        for end in ("csv", "csv.gz", "parquet")
        for more in ("", ".json", ".holder.json")
    }


def test_a_target_is_refused_before_anything_is_written(people: Table, tmp_path: Path) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], suppress="0.1")
    (tmp_path / "out.csv.json").write_text("precious")
    with pytest.raises(OutputError) as refusal:
        decided.write(tmp_path / "out.csv")
    assert refusal.value.code == "output_exists"
    with pytest.raises(OutputError) as refusal:
        decided.write(tmp_path / "out.doc")
    assert refusal.value.code == "format_unknown"
    assert {path.name for path in tmp_path.iterdir()} == {"people.toml", "out.csv.json"}


def test_a_failure_while_writing_leaves_nothing(
    people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], suppress="0.1")

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.release.writer.describe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decided.write(tmp_path / "out.csv", report=tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["people.toml"]


def test_criteria_hold_and_their_reference_is_stored(people: Table) -> None:
    closeness = sf.TCloseness("0.3", "disease", distance="hierarchy")
    release = people.anonymize(sf.KAnonymity(2), closeness, suppress="0.2")
    assert release.holder is not None
    assert release.holder["reference"] == {
        "disease": [["cold", 6], ["flu", 6], ["gout", 6], ["none", 6]]
    }
    assert release.guarantee.parameters["criteria"] == ["2-anonymity", str(closeness)]


def test_costs_before_are_those_of_the_table_itself(people: Table) -> None:
    error = people.anonymize(sf.KAnonymity(1)).error
    assert error is not None
    before = error["before"]
    assert {name: error[name] for name in before if name != "classes"} == {
        name: value for name, value in before.items() if name != "classes"
    }
    assert before["classes"] == 13


def test_more_rows_asked_for_than_there_are(people: Table) -> None:
    with pytest.raises(CriterionError) as refusal:
        people.anonymize(sf.KAnonymity(25), suppress="0.5")
    assert refusal.value.code == "criterion_not_reachable"
    assert "only 24 rows" in refusal.value.message


def test_a_quasi_identifier_without_hierarchy_is_told_what_to_write(schema: Schema) -> None:
    bare = [replace(c, hierarchy=None) if c.name == "age" else c for c in schema.columns]
    people = read(_people(), Schema(schema.table, tuple(bare)))
    with pytest.raises(SchemaError) as refusal:
        people.anonymize(sf.KAnonymity(3))
    assert refusal.value.code == "hierarchy_missing"
    assert (
        "Add to [columns.age] in its schema: hierarchy = { widths = [5, 10, 20] }"
        in refusal.value.message
    )
    people.close()


def _people() -> pa.Table:
    return pa.table(
        {
            "name": ["Ann", "Bob"],
            "age": [30, 31],
            "zip": ["1", "2"],
            "disease": ["plague", "flu"],
            "visits": [1, 1],
            "salary": [1, 2],
        }
    )


def test_values_that_a_hierarchy_lacks_are_in_the_detail_and_the_column_in_the_message(
    schema: Schema,
) -> None:
    people = read(_people(), schema)
    with pytest.raises(SchemaError) as refusal:
        people.anonymize(sf.KAnonymity(2), sf.TCloseness(1, "disease", distance="hierarchy"))
    people.close()
    assert refusal.value.code == "value_outside_domain"
    assert "'disease'" in refusal.value.message
    assert "plague" not in refusal.value.message
    assert refusal.value.detail is not None
    assert "plague" in refusal.value.detail


def test_anatomy_tells_values_apart_from_people(people: Table, tmp_path: Path) -> None:
    decided = anonymize(people, [sf.FolkDiversity(4, "disease")], algorithm="anatomy")
    assert decided.figures["criteria"] == ["folk 4-diversity of disease"]
    assert decided.figures["k"] is None
    decided.write(tmp_path / "buckets")
    names = sorted(path.name for path in (tmp_path / "buckets").iterdir())
    assert names == ["quasi.csv", "release.json", "sensitive.csv"]
    loaded = sf.Release.load(tmp_path / "buckets")
    quasi, sensitive = loaded.tables["quasi"], loaded.tables["sensitive"]
    assert quasi.column_names == ["age", "zip", "visits", "group"]
    assert sensitive.column_names == ["group", "disease", "count"]
    assert classes(quasi, "group") == Counter({(group,): 4 for group in range(1, 7)})
    assert set(sensitive["count"].to_pylist()) == {1}
    assert any("salary" in note for note in loaded.guarantee.parameters["notes"])
    with pytest.raises(OutputError) as refusal:
        decided.write(tmp_path / "buckets")
    assert refusal.value.code == "output_exists"
    decided.write(tmp_path / "buckets", overwrite=True)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_anatomy_replaces_only_releases(people: Table, tmp_path: Path) -> None:
    decided = anonymize(people, [sf.FolkDiversity(4, "disease")], algorithm="anatomy")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(OutputError) as refusal:
        decided.write(tmp_path / "mine", overwrite=True)
    assert refusal.value.code == "output_not_a_release"
    for told in ("{}", '{"name": "a package"}', "[" * 100_000):
        (tmp_path / "mine" / "release.json").write_text(told)
        with pytest.raises(OutputError) as refusal:
            decided.write(tmp_path / "mine", overwrite=True)
        assert refusal.value.code == "output_not_a_release"
    (tmp_path / "mine" / "release.json").unlink()
    (tmp_path / "mine" / "thesis.tex").rename(tmp_path / "thesis.tex")
    decided.write(tmp_path / "mine", overwrite=True)
    (tmp_path / "thesis.tex").rename(tmp_path / "mine" / "thesis.tex")
    with pytest.raises(OutputError) as refusal:
        decided.write(tmp_path / "mine", overwrite=True)
    assert refusal.value.code == "output_not_a_release"
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "precious"
    with pytest.raises(OutputError) as refusal:
        decided.write(tmp_path / "people.toml", overwrite=True)
    assert refusal.value.code == "output_unwritable"


def test_no_page_goes_into_the_folder_that_is_the_release(people: Table, tmp_path: Path) -> None:
    decided = anonymize(people, [sf.FolkDiversity(4, "disease")], algorithm="anatomy")
    for _ in range(2):
        for page in ("out/page.html", "out"):
            with pytest.raises(OutputError) as refusal:
                decided.write(tmp_path / "out", report=tmp_path / page, overwrite=True)
            assert refusal.value.code == "outputs_same"
        decided.write(tmp_path / "out", overwrite=True)


@pytest.mark.parametrize(
    "criteria",
    [
        [],
        [sf.KAnonymity(2)],
        [sf.KAnonymity(2), sf.FolkDiversity(2, "disease")],
        [sf.FolkDiversity(2, "disease"), sf.FolkDiversity(2, "salary")],
        [sf.RecursiveDiversity(2, "disease", c=2)],
    ],
    ids=["nothing", "k", "k and l", "two columns", "recursive"],
)
def test_anatomy_takes_one_l_and_nothing_else(people: Table, criteria: list[object]) -> None:
    with pytest.raises(ParameterError) as refusal:
        people.anonymize(*criteria, algorithm="anatomy")  # type: ignore[arg-type]
    assert refusal.value.code == "criterion_not_supported"


def test_permute_keeps_quasi_identifiers_and_the_multiset_of_values(people: Table) -> None:
    release = people.anonymize(sf.KAnonymity(4), algorithm="permute")
    assert release.table.column_names == ["age", "zip", "disease", "visits", "salary"]
    assert release.table.num_rows == 24
    assert Counter(release.table["age"].to_pylist())[91] == 1
    assert Counter(release.table["disease"].to_pylist()) == dict.fromkeys(
        ("flu", "cold", "gout", "none"), 6
    )


def test_perturb_blurs_within_bounds_and_promises_nothing(people: Table) -> None:
    release = people.anonymize(algorithm="perturb")
    salaries = release.table["salary"].to_pylist()
    assert all(0 <= one <= 20_000 and one % 1000 == 0 for one in salaries)
    assert Counter(release.table["age"].to_pylist())[91] == 1
    assert release.guarantee.statement.startswith("No guarantee")
    assert release.provenance.parameters == {"stddev": {"salary": "1000"}}
    with pytest.raises(ParameterError) as refusal:
        people.anonymize(sf.KAnonymity(2), algorithm="perturb")
    assert refusal.value.code == "criterion_not_supported"


def test_perturb_warns_its_holder_of_values_off_the_grid(people: Table, schema: Schema) -> None:
    everyone = people.engine.run(exp.select(exp.Star()).from_(people.engine.table))
    strange = everyone.set_column(5, "salary", pa.array([50_000] * 3 + [1500] + [1000] * 20))
    release = read(strange, schema).anonymize(algorithm="perturb")
    assert release.holder is not None
    (told,) = (one for one in release.holder["findings"] if "grid" in one)
    assert told.startswith("Column salary: ")
    assert "3 rows outside the declared bounds to the nearest and 1 row between steps" in told
    assert "outside" not in str(vars(release.public))
    assert "grid" not in str(people.anonymize(algorithm="perturb").holder)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"algorithm": "best"}, "choice_unknown"),
        ({"suppressed": "hide"}, "choice_unknown"),
        ({"cost": "pain"}, "choice_unknown"),
        ({"suppress": 1}, "parameter_out_of_range"),
    ],
)
def test_options_that_are_not_known(people: Table, options: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        people.anonymize(sf.KAnonymity(2), **options)
    assert refusal.value.code == code


def test_suppressed_rows_are_searched_again(people: Table) -> None:
    plain = people.anonymize(sf.KAnonymity(3), suppress="0.5", cost="loss")
    refined = people.anonymize(sf.KAnonymity(3), suppress="0.5", cost="loss", refine=True)
    facts = refined.guarantee.parameters
    assert kept_of(plain)["suppressed"] > kept_of(refined)["suppressed"]
    assert min(classes(refined.table, "age", "zip").values()) >= 3
    assert facts["released"] == refined.table.num_rows
    assert kept_of(refined)["levels"] is None
    assert refined.holder is not None
    assert refined.holder["remarks"][-1].startswith("Suppressed rows were searched again")
    assert facts["notes"] == []
    with pytest.raises(ParameterError) as refusal:
        people.anonymize(sf.KAnonymity(3), algorithm="mondrian", refine=True)
    assert refusal.value.code == "option_not_applicable"


def test_the_report_tells_costs_before_and_after(people: Table, tmp_path: Path) -> None:
    release = people.anonymize(sf.KAnonymity(3), sf.TCloseness("0.5", "disease"), suppress="0.1")
    release.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    for words in (
        "Every class of released rows satisfies 3-anonymity",
        "All costs; smaller is better",
        "discernability",
        "not protected by any criterion: visits, salary",
        "In the original, the rows form 13 classes of rows that look alike",
        "Distribution of disease in the original",
    ):
        assert words in page.replace("<wbr>", "")
    release.save(tmp_path / "out.parquet")
    sf.Release.load(tmp_path / "out.parquet").report(tmp_path / "again.html")
    # Whoever has the release alone cannot set it beside the original; all else is the same.
    before, _, after = page.partition("<h3>Before and after</h3>")
    rest = after[after.index("<h3>") :]
    assert (tmp_path / "again.html").read_text() == before + rest
    with pytest.raises(OutputError):
        release.report(tmp_path / "page.html")


def test_the_holders_side_car_is_beside_and_tells_levels(people: Table, tmp_path: Path) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], suppress="0.1")
    decided.write(tmp_path / "out.parquet", report=tmp_path / "page.html")
    described = json.loads(sidecar_file(tmp_path / "out.parquet").read_text())
    kept = json.loads(holder_file(tmp_path / "out.parquet").read_text())
    assert kept["figures"]["levels"] == decided.figures["levels"]
    assert described["provenance"]["parameters"]["suppress"] == "0.1"
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
