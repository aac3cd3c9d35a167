"""Releases are read back as they were meant: anonymize, measure, inspect, for every label."""

from __future__ import annotations

import json
from datetime import date
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.anonymize.labels import members_of, set_of
from sfumato.anonymize.measure import bound, measure
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.schema.schema_file import load
from sfumato.errors import CriterionError, SchemaError, SourceError
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Table

WORDS = ["a, b", "{x}", "{a, b}", '"q"', "*", "[1, 2]", "", "=1+1", "'=1", "plain", "signs"]
ILLS = ["flu", "*", "{cold, flu}", "", "-", "'-", None]
SCHEMA = """\
table = "people"
unit = "row"
[columns.name]
role = "identifier"
kind = "text"
[columns.word]
role = "quasi"
kind = "text"
hierarchy = { file = "words.csv" }
[columns.code]
role = "quasi"
kind = "text"
hierarchy = { mask = "right" }
[columns.n]
role = "quasi"
kind = "integer"
hierarchy = { widths = [5, 50] }
[columns.r]
role = "quasi"
kind = "real"
hierarchy = { widths = [0.5, 2.0] }
[columns.day]
role = "quasi"
kind = "date"
hierarchy = { dates = ["month", "year"] }
[columns.flag]
role = "quasi"
kind = "boolean"
hierarchy = { tree = [true, false] }
[columns.ill]
role = "sensitive"
kind = "text"
[columns.salary]
role = "sensitive"
kind = "integer"
bounds = [0, 9]
[columns.other]
role = "other"
kind = "text"
"""
QUASI = ("word", "code", "n", "r", "day", "flag")
SUPPRESSING = ["optimal", "incognito", "samarati", "sweeney", "datafly"]
BY_CLASS = [
    "mondrian", "mondrian-relaxed", "k-optimize", "meyerson-williams", "aggarwal-suppress",
    "aggarwal-generalize",
]  # fmt: skip
ROWS = 40


def cells() -> dict[str, list[Any]]:
    """A few combinations of nasty values, again and again, and some rows that stand alone."""
    random = Random(7)
    choices: dict[str, list[Any]] = {
        "word": [*WORDS, None],
        "code": ["A1", "B2", "A", "-1", "{a", None],
        "n": [-7, -1, 0, 3, 12, None],
        "r": [-0.25, 0.0, 1.75, None],
        "day": [date(2020, 2, 29), date(2020, 3, 1), date(1999, 12, 31), None],
        "flag": [True, False, None],
    }
    kinds = [{name: random.choice(known) for name, known in choices.items()} for _ in range(9)]
    rows = [random.choice(kinds) for _ in range(ROWS - 2)]
    rows += [{name: known[-2] for name, known in choices.items()}, dict.fromkeys(choices)]
    found: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in choices}
    found["name"] = [f"person {place}" for place in range(ROWS)]
    found["ill"] = [*(random.choice(ILLS) for _ in range(ROWS - 1)), "flu"]
    found["salary"] = [random.choice([0, 5, 9, None]) for _ in range(ROWS)]
    found["other"] = [random.choice(["x", "*", None]) for _ in range(ROWS)]
    return found


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    (tmp_path / "people.toml").write_text(SCHEMA)
    lines = [f"{_cell(word)};{'signs' if place < 6 else 'words'};all" for place, word in
             enumerate(WORDS)]  # fmt: skip
    (tmp_path / "words.csv").write_text("\n".join(lines) + "\n")
    return load(tmp_path / "people.toml")


def _cell(word: str) -> str:
    doubled = word.replace('"', '""')
    return f'"{doubled}"'


@pytest.fixture
def original() -> pa.Table:
    return pa.table(cells())


@pytest.fixture
def people(schema: Schema, original: pa.Table) -> Iterator[Table]:
    table = read(original, schema)
    yield table
    table.close()


def _by_turns(suppressed: str, end: str) -> Iterator[Any]:
    """Half of the algorithms one way and the others the other way, all of them in `slow`."""
    for place, algorithm in enumerate(SUPPRESSING):
        fast = (place % 2 == 0) == (suppressed == "drop")
        yield pytest.param(algorithm, suppressed, end, marks=[] if fast else [pytest.mark.slow])


@pytest.mark.parametrize(
    ("algorithm", "suppressed", "end"),
    [
        *_by_turns("drop", "csv"),
        *_by_turns("star", "parquet"),
        ("optimal", "star", "csv"),
        ("optimal", "drop", "parquet"),
        *few_fast([(algorithm, None, "csv") for algorithm in BY_CLASS], 1),
        ("mondrian", None, "parquet"),
    ],
)
def test_every_label_is_read_back_with_its_meaning(
    people: Table,
    original: pa.Table,
    schema: Schema,
    tmp_path: Path,
    algorithm: str,
    suppressed: str | None,
    end: str,
) -> None:
    options: dict[str, Any] = {}
    if suppressed is not None:
        options = {"suppress": "0.2", "suppressed": suppressed}
    decided = anonymize(people, [sf.KAnonymity(2)], algorithm=algorithm, **options)
    out = tmp_path / f"out.{end}"
    decided.write(out)
    figures = decided.figures
    against = measure(out, schema, original=original)
    assert against.classes == figures["classes"]
    assert against.k >= 2
    for name, value in figures["cost"].items():
        factor = against.k / 2 if name in {"average_class_size", "c_avg"} else 1
        assert value is not None
        assert against.cost[name] == pytest.approx(value / factor, rel=1e-9), name
    alone = measure(out, schema)
    assert (alone.classes, alone.k) == (against.classes, against.k)
    assert alone.sensitive.keys() == {"ill", "salary"}
    found = _inspected(out, schema)
    assert (found.rows, found.full.groups) == (figures["released"], figures["classes"])
    assert _inspected(out, None).rows == figures["released"]
    loaded, made = sf.Release.load(out).table, decided.release().table
    if suppressed != "star" and algorithm in SUPPRESSING:
        assert loaded.equals(made)


def _inspected(out: Path, schema: Schema | None) -> Any:
    table = read(out, schema)
    found = table.inspect()
    table.close()
    return found


@pytest.mark.parametrize("end", ["csv", "parquet"])
@pytest.mark.parametrize("algorithm", ["permute", "perturb", "anatomy"])
def test_rearranged_tables_are_read_back_as_they_are(
    schema: Schema, original: pa.Table, tmp_path: Path, algorithm: str, end: str
) -> None:
    plain = original.set_column(original.column_names.index("word"), "word", [["plain"] * ROWS])
    people = read(plain, schema)
    asked: dict[str, list[Any]] = {
        "permute": [sf.KAnonymity(2)],
        "perturb": [],
        "anatomy": [sf.FolkDiversity(2, "ill")],
    }
    assert "{a" in plain["code"].to_pylist()
    with pytest.raises(SchemaError) as refusal:
        anonymize(people, asked[algorithm], algorithm=algorithm)
    assert refusal.value.code == "cell_malformed"
    people.close()
    calm = plain.set_column(plain.column_names.index("code"), "code", [["A1", "B2"] * (ROWS // 2)])
    people = read(calm, schema)
    out = tmp_path / ("out" if algorithm == "anatomy" else f"out.{end}")
    anonymize(people, asked[algorithm], algorithm=algorithm).write(out)
    people.close()
    alone = measure(out, schema)
    assert alone.rows == ROWS
    assert _inspected(out, schema).rows == ROWS
    if algorithm == "perturb":  # noise makes values that the original has not
        with pytest.raises(SourceError) as strange:
            measure(out, schema, original=calm)
        assert strange.value.code == "value_outside_domain"
        return
    against = measure(out, schema, original=calm)
    assert (against.rows, against.cost["loss"]) == (ROWS, 0)
    if algorithm == "anatomy":
        assert alone.sensitive["ill"]["folk"] >= 2
        assert set(alone.sensitive) == {"ill"}
        assert (alone.reference, against.reference) == ("release", "original")


def test_a_column_without_a_hierarchy_is_refused_in_words(
    original: pa.Table, tmp_path: Path
) -> None:
    (tmp_path / "people.toml").write_text(SCHEMA.replace('hierarchy = { mask = "right" }', ""))
    (tmp_path / "words.csv").write_text("plain;all\n")
    people = read(original, tmp_path / "people.toml")
    with pytest.raises(SchemaError) as refusal:
        anonymize(people, [sf.KAnonymity(2)])
    people.close()
    assert refusal.value.code == "hierarchy_missing"


def test_a_star_over_an_undeclared_domain_has_no_price_and_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'table = "t"\n[columns.n]\nrole = "quasi"\nkind = "integer"\n'
        "hierarchy = { widths = [5] }\n"
        '[columns.ill]\nrole = "sensitive"\nkind = "text"\n'
    )
    people = read(pa.table({"n": [1, 90], "ill": ["flu", "cold"]}), tmp_path / "s.toml")
    anonymize(people, [sf.KAnonymity(2)]).write(tmp_path / "out.csv")
    people.close()
    assert (tmp_path / "out.csv").read_text() == "n,ill\n*,cold\n*,flu\n"
    found = measure(tmp_path / "out.csv", tmp_path / "s.toml")
    assert (found.k, found.cost["loss"], found.cost["discernability"]) == (2, None, 4)


def test_values_with_stars_are_not_masked(schema: Schema, original: pa.Table) -> None:
    starred = original.set_column(
        original.column_names.index("code"), "code", [["5*", "A1"] * (ROWS // 2)]
    )
    people = read(starred, schema)
    with pytest.raises(SchemaError) as refusal:
        anonymize(people, [sf.KAnonymity(2)])
    people.close()
    assert refusal.value.code == "cell_malformed"
    assert "'code'" in refusal.value.message
    assert "5*" not in refusal.value.message


def test_missing_rows_are_told_from_suppressed_ones(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'table = "t"\n[columns.n]\nrole = "quasi"\nkind = "integer"\nbounds = [0, 99]\n'
        "hierarchy = { widths = [5] }\n"
        '[columns.ill]\nrole = "sensitive"\nkind = "text"\n'
    )
    rows = {"n": [None, None, None, 7, 7, 90], "ill": [None, "flu", None, "flu", "cold", "gout"]}
    people = read(pa.table(rows), tmp_path / "s.toml")
    for end in ("csv", "parquet"):
        out = tmp_path / f"dropped.{end}"
        anonymize(people, [sf.KAnonymity(2)], suppress="0.2", cost="loss").write(out)
        found = measure(out, tmp_path / "s.toml")
        assert (found.rows, found.classes, found.k, found.cost["suppressed"]) == (5, 2, 2, 0)
        assert found.sensitive["ill"]["distinct"] == 2
        assert _inspected(out, load(tmp_path / "s.toml")).rows == 5
        sql = "SELECT COUNT(*) FROM t WHERE ill = 'flu'"
        assert bound(out, sql, tmp_path / "s.toml").upper == 2
        starred = anonymize(
            people, [sf.KAnonymity(2)], suppress="0.2", suppressed="star", cost="loss"
        )
        with pytest.raises(CriterionError) as refusal:
            starred.write(tmp_path / f"starred.{end}")
        assert refusal.value.code == "criterion_not_reachable"
    with pytest.raises(CriterionError):
        starred.release()
    people.close()
    assert not list(tmp_path.glob("*starred*"))


@pytest.mark.parametrize(
    "members",
    [["a", "b"], ["a", None], ["", "b"], [None, ""], ["a, b", "c"], ["{", "}"], ["a ", "b"]],
    ids=str,
)
def test_sets_are_read_back(members: list[str | None]) -> None:
    read_back = members_of(set_of(members))
    assert read_back is not None
    quoted = {None: None, "": '""', "a, b": '"a, b"', "{": '"{"', "}": '"}"'}
    assert read_back == [quoted.get(member, member) for member in members]
    assert set_of(read_back) == set_of(members)


def test_plain_labels_look_as_they_always_did() -> None:
    assert set_of(["flu", "cold"]) == "{flu, cold}"
    assert members_of("{flu, cold}") == ["flu", "cold"]
    assert members_of("flu") is None
    assert members_of('{a"b, c}') is None


def test_classes_that_share_a_value_are_warned_about_whatever_was_asked(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'table = "t"\n[columns.n]\nrole = "quasi"\nkind = "integer"\nbounds = [0, 99]\n'
        "hierarchy = { widths = [5] }\n"
        '[columns.ill]\nrole = "sensitive"\nkind = "text"\n'
        '[columns.pay]\nrole = "sensitive"\nkind = "integer"\n'
    )
    rows = {
        "n": [1, 1, 1, 7, 7, 20, 20],
        "ill": ["flu", "flu", "flu", "cold", "flu", None, None],
        "pay": [1, 2, 3, 1, 1, 4, 4],
    }
    people = read(pa.table(rows), tmp_path / "s.toml")
    for criteria in ([sf.KAnonymity(2)], [sf.KAnonymity(2), sf.TCloseness("0.99", "ill")]):
        decided = anonymize(people, criteria)
        written = decided.write(tmp_path / "out.csv", report=tmp_path / "mine.html",
                                public_report=tmp_path / "public.html", overwrite=True)  # fmt: skip
        assert written.holder is not None
        found = written.holder["findings"]
        assert [text.partition(":")[0] for text in found] == [
            "In 2 of 3 classes everyone has the same ill (5 rows)",
            "In 2 of 3 classes everyone has the same pay (4 rows)",
        ]
        kept = json.loads((tmp_path / "out.csv.holder.json").read_text())
        assert kept["findings"] == found == decided.release().holder["findings"]  # type: ignore[index]
        assert found[0] in (tmp_path / "mine.html").read_text()
        assert "everyone has" not in (tmp_path / "public.html").read_text()
        assert "everyone has" not in (tmp_path / "out.csv.json").read_text()
        unprotected = ["ill", "pay"] if len(criteria) == 1 else ["pay"]
        assert decided.guarantee.parameters["unprotected"] == unprotected
    shuffled = anonymize(people, [sf.KAnonymity(2)], algorithm="permute")
    assert shuffled.release().holder["findings"] == found  # type: ignore[index]
    alone = anonymize(people, [sf.FolkDiversity(1, "ill")], algorithm="anatomy")
    assert alone.release().holder["findings"][0].startswith("In 7 of 7 classes")  # type: ignore[index]
    people.close()
