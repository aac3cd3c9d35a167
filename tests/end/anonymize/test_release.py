"""Anonymizing, measuring and asking as their users meet them: real processes and files."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end.anonymize.conftest import Shell

JSON_KEYS = [
    "algorithm", "criteria", "k", "rows", "released", "suppressed", "classes", "levels", "cost",
    "minimal", "optimal", "bound", "factor", "lattice", "checked", "people", "suppressed_people",
    "ended",
    "unprotected", "warnings", "columns", "risk", "advice", "attacks",
]  # fmt: skip
COSTS = [
    "loss", "loss_geometric", "discernability", "average_class_size", "c_avg", "precision",
    "entropy", "suppressed",
]  # fmt: skip


def test_the_whole_way_from_table_to_answers(home: Path, shell: Shell) -> None:
    options = ("--k", 4, "--suppress", "0.05", "-o", "out.csv", "--report", "page.html")
    answer = shell.found(
        shell.process("anonymize", "people.csv", "--schema", "people.toml", *options, "--json")
    )
    assert list(answer) == JSON_KEYS
    assert list(answer["cost"]) == COSTS
    assert (answer["k"], answer["rows"], answer["suppressed"]) == (4, 30, 1)
    assert answer["optimal"] is True
    assert set(answer["levels"]) == {"age", "zip"}
    rows = shell.records("out.csv")
    assert list(rows[0]) == ["age", "zip", "disease", "visits"]
    classes = Counter((row["age"], row["zip"]) for row in rows)
    assert (len(rows), len(classes)) == (29, answer["classes"])
    assert min(classes.values()) >= 4
    assert [tuple(row.values()) for row in rows] == sorted(tuple(row.values()) for row in rows)
    assert "not protected by any criterion: disease, visits" in (home / "page.html").read_text()
    assert (answer["unprotected"], answer["warnings"]) == (["disease", "visits"], [])
    assert (home / "out.csv.json").exists()
    assert (home / "out.csv.holder.json").stat().st_mode & 0o777 == 0o600
    measured = shell.found(
        shell.process(
            "measure",
            "out.csv",
            "--schema",
            "people.toml",
            "--original",
            "people.csv",
            "--json",
        )
    )
    assert measured["reference"] == "original"
    assert measured["k"] == min(classes.values())
    assert measured["cost"]["loss"] == pytest.approx(answer["cost"]["loss"])
    assert set(measured["sensitive"]["disease"]) == {
        "distinct", "entropy", "recursive_c", "folk", "t_equal", "t_ordered", "t_hierarchy",
        "delta_disclosure", "beta",
    }  # fmt: skip
    sql = "SELECT COUNT(*) FROM people WHERE disease = 'gout'"
    asked = shell.found(
        shell.process("worlds", "out.csv", sql, "--schema", "people.toml", "--json")
    )
    assert asked == {"lower": 9, "upper": 9, "estimate": 9}


def test_people_read_a_summary(shell: Shell) -> None:
    done = shell(
        "anonymize", "people.csv", "--schema", "people.toml", "--k", 2, "--suppress", "0.1",
        "-o", "o.csv")  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.startswith("Every class of released rows satisfies 2-anonymity.\n")
    assert "Released unchanged, without protection: disease, visits." in done.stdout
    measured = shell("measure", "o.csv", "--schema", "people.toml")
    assert "cost discernability" in measured.stdout


def test_several_sensitive_columns_follow_one_flag_or_several(shell: Shell) -> None:
    l_two = ("--l", 2, "--diversity", "entropy", "--suppress", "0.1", "-o", "out.csv")
    alone = (*l_two, "--no-attacks", "--sensitive")  # what attacks took differs
    once = shell.found(shell.anonymize(*alone, "disease", "visits"))
    twice = shell.found(shell.anonymize(*alone, "disease", "--sensitive", "visits", "--overwrite"))
    assert once == twice
    assert once["criteria"] == [
        "entropy 2-diversity of disease",
        "entropy 2-diversity of visits",
    ]


def test_suppressed_rows_can_be_starred(shell: Shell) -> None:
    shell.found(
        shell.anonymize("--k", 4, "--suppress", "0.05", "--suppressed", "star", "-o", "out.csv")
    )
    rows = shell.records("out.csv")
    assert len(rows) == 30
    blank = [row for row in rows if row["disease"] == "*"]
    assert blank == [{"age": "*", "zip": "*", "disease": "*", "visits": ""}]


def test_a_population_to_hide_in(home: Path, shell: Shell) -> None:
    people = (
        "age,zip\n" + "".join(f"{20 + n % 10},5370{n % 2}\n" for n in range(200)) + "93,99999\n"
    )
    (home / "voters.csv").write_text(people)
    answer = shell.found(
        shell.anonymize("--k", 5, "--population", "voters.csv", "--suppress", "0.1", "-o", "o.csv")
    )
    assert (answer["criteria"], answer["k"]) == (["5-map"], 5)
    assert answer["levels"] == {"age": 0, "zip": 0}
    present = shell.found(
        shell.anonymize(
            "--presence",
            "0,0.2",
            "--population",
            "voters.csv",
            "--suppress",
            "0.1",
            "-o",
            "p.csv",
        )
    )
    assert present["criteria"] == ["(0, 0.2)-presence"]


def test_anatomy_is_a_directory(home: Path, shell: Shell) -> None:
    answer = shell.found(shell.anonymize("--l", 2, "--algorithm", "anatomy", "-o", "buckets"))
    assert answer["criteria"] == ["folk 2-diversity of disease"]
    names = sorted(path.name for path in (home / "buckets").iterdir())
    assert names == ["quasi.csv", "release.json", "sensitive.csv"]
    sql = "SELECT COUNT(*) FROM people WHERE disease = 'flu' AND age < 25"
    asked = shell.found(shell("worlds", "buckets", sql, "--schema", "people.toml", "--json"))
    assert 0 <= asked["lower"] <= 5 <= asked["upper"]


@pytest.mark.parametrize("algorithm", ["mondrian", "permute", "perturb"])
def test_rows_are_all_there_with_other_algorithms(home: Path, shell: Shell, algorithm: str) -> None:
    if algorithm == "perturb":
        text = shell.schema.replace(
            'role = "other"\nkind', 'role = "sensitive"\nbounds = [0, 9]\nkind'
        )
        (home / "people.toml").write_text(text)
    k = () if algorithm == "perturb" else ("--k", 3)
    done = shell.anonymize(*k, "--algorithm", algorithm, "-o", "o.csv")
    assert done.returncode == 0
    assert json.loads(done.stdout)["released"] == 30
    # Nothing is generalized by noise: the hermit is a class alone.
    assert ("everyone has the same disease (1 row)" in done.stderr) == (algorithm == "perturb")
    assert Counter(row["disease"] for row in shell.records("o.csv")) == {
        "flu": 11, "cold": 10, "gout": 9,
    }  # fmt: skip


def test_what_travels_and_what_stays(home: Path, shell: Shell) -> None:
    answer = shell.found(
        shell.anonymize(
            "--k", 4, "--t", "0.9", "--suppress", "0.05", "-o", "out.csv",
            "--report", "mine.html", "--public-report", "page.html",
        )
    )  # fmt: skip
    assert (answer["rows"], answer["suppressed"]) == (30, 1)
    travels = (home / "out.csv.json").read_text() + (home / "page.html").read_text()
    kept = json.loads((home / "out.csv.holder.json").read_text())
    assert kept["figures"]["suppressed"] == 1
    assert kept["reference"]["disease"] == [["cold", 10], ["flu", 11], ["gout", 9]]
    assert kept["fingerprint"] not in travels
    # What was done with suppressed rows is public; how many there were is not.
    assert travels.count("suppressed rows") == 1
    assert "<td>suppressed rows</td><td>left out</td>" in travels
    assert "This page may travel with the release" in (home / "page.html").read_text()
    assert "Only the holder may see this page" in (home / "mine.html").read_text()
    assert kept["fingerprint"] not in (home / "mine.html").read_text().replace("<wbr>", "")


def test_releases_are_measured_and_inspected(shell: Shell) -> None:
    for algorithm, out in (("optimal", "out.csv"), ("mondrian", "m.parquet"), ("anatomy", "b")):
        asked = ("--l", 2) if algorithm == "anatomy" else ("--k", 3)
        shell.found(shell.anonymize(*asked, "--algorithm", algorithm, "-o", out))
        measured = shell.found(shell("measure", out, "--schema", "people.toml", "--json"))
        assert measured["rows"] == 30
        assert measured["sensitive"]["disease"]["distinct"] >= 1
        for schema in (("--schema", "people.toml"), ()):
            seen = shell.found(shell("inspect", out, *schema, "--json"))
            assert seen["rows"] == 30


def test_classes_that_hide_nothing_are_warned_about(home: Path, shell: Shell) -> None:
    lines = ["name,age,zip,disease,visits"]
    lines += [f"p{n},{20 + n % 2 * 30},53700,{('flu', 'cold')[n % 2]},{n}" for n in range(8)]
    (home / "people.csv").write_text("\n".join(lines) + "\n")
    done = shell.anonymize("--k", 4, "-o", "out.csv", "--public-report", "page.html")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["unprotected"] == ["disease", "visits"]
    assert answer["warnings"] == [done.stderr.removeprefix("sfumato: ").rstrip("\n")]
    assert "In 2 of 2 classes everyone has the same disease (8 rows)" in done.stderr
    assert "everyone has" not in (home / "page.html").read_text()


def test_measuring_says_whether_people_or_rows_are_counted(shell: Shell, home: Path) -> None:
    unit = 'unit = { column = "name", max_rows = 3 }'
    schema = shell.schema.replace('unit = "row"', unit).replace(
        "[columns.name]\n", "[columns.name]\nnullable = false\n"
    )
    (home / "people.toml").write_text(schema)
    lines = (home / "people.csv").read_text().splitlines()
    (home / "people.csv").write_text("\n".join([*lines, *lines[1:]]) + "\n")
    answer = shell.found(shell.anonymize("--k", 2, "--suppress", "0.1", "-o", "out.csv"))
    assert (answer["rows"], answer["people"], answer["suppressed_people"]) == (60, 30, 1)
    raw = shell.found(shell("measure", "people.csv", "--schema", "people.toml", "--json"))
    assert (raw["counted"], raw["k"]) == ("people", 1)
    released = shell.found(shell("measure", "out.csv", "--schema", "people.toml", "--json"))
    assert released["counted"] == "rows"
    told = shell("measure", "out.csv", "--schema", "people.toml").stdout
    assert "figures count rows" in " ".join(told.split())
    people = shell("measure", "people.csv", "--schema", "people.toml").stdout
    assert "figures count people" in " ".join(people.split())
