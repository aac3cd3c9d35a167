"""What a person reads after anonymizing: what became of each column, and what would lose less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sfumato as sf

if TYPE_CHECKING:
    from tests.end.anonymize.conftest import Shell


def test_every_column_is_told_in_words_by_every_door(shell: Shell) -> None:
    words = ("--k", 4, "--suppress", "5%", "-o", "out.csv")
    said = shell("anonymize", "people.csv", "--schema", "people.toml", *words)
    answer = shell.found(shell.anonymize(*words, "--overwrite"))
    assert answer["columns"] == {
        "name": "removed (identifier)",
        "age": "ranges of 10 years",
        "zip": "unchanged",
        "disease": "unchanged, sensitive, not protected",
        "visits": "unchanged, not protected",
    }
    for name, told in answer["columns"].items():
        assert any(line.split() == [name, *told.split()] for line in said.stdout.splitlines())
    travels = json.loads(Path("out.csv.json").read_text())
    assert travels["guarantee"]["parameters"]["columns"] == answer["columns"]
    assert sf.Release.load("out.csv").columns_in_words == answer["columns"]
    assert Path("out.csv.holder.json").exists()


def test_suppress_takes_a_percentage(shell: Shell) -> None:
    asked = ("--k", 4, "--no-attacks", "--suppress")  # what attacks took differs
    percent = shell.found(shell.anonymize(*asked, "5%", "-o", "a.csv"))
    decimal = shell.found(shell.anonymize(*asked, "0.05", "-o", "b.csv"))
    assert percent == decimal
    assert percent["suppressed"] == 1
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    told = json.loads(Path("a.csv.json").read_text())
    assert told["provenance"]["parameters"]["suppress"] == "0.05"
    _, message = shell.refused(shell.anonymize("--k", 4, "--suppress", "200%", "-o", "c.csv"), 2)
    assert message == "suppress must be at least 0 and below 1, but '200%' was given."


def test_what_would_lose_less_is_told_to_the_holder_alone(shell: Shell) -> None:
    said = shell("anonymize", "people.csv", "--schema", "people.toml", "--k", 4, "-o", "o.csv")
    assert "Options that would lose less:\n" in said.stdout
    assert "suppressing 5 % of rows would lose" in said.stdout
    assert "--suppress 5%" in said.stdout
    assert "--suppress" not in Path("o.csv.json").read_text()
    answer = shell.found(shell.anonymize("--k", 4, "-o", "o.csv", "--overwrite"))
    assert answer["advice"][0]["words"] in said.stdout
    quiet = shell.found(shell.anonymize("--k", 4, "-o", "o.csv", "--overwrite", "--no-advice"))
    assert quiet["advice"] == []


@pytest.mark.parametrize("algorithm", ["mondrian", "k-optimize", "permute", "aggarwal-suppress"])
def test_every_algorithm_has_words_for_every_column(shell: Shell, algorithm: str) -> None:
    words = ("--k", 2, "--algorithm", algorithm, "-o", "out.csv", "--no-advice")
    done = shell.anonymize(*words)
    answer = json.loads(done.stdout)
    assert set(answer["columns"]) == {"name", "age", "zip", "disease", "visits"}
    assert all(answer["columns"].values())


def test_an_anatomy_says_that_it_is_a_folder_of_two_tables(shell: Shell) -> None:
    said = shell("anonymize", "people.csv", "--schema", "people.toml", "--l", 2, "--algorithm",
                 "anatomy", "-o", "x.csv")  # fmt: skip
    assert "Wrote the folder x.csv with two tables." in said.stdout
    assert Path("x.csv").is_dir()
    assert "group" in said.stdout


def test_who_made_it_and_when_are_told(shell: Shell) -> None:
    shell.found(
        shell.anonymize(
            "--k",
            4,
            "--by",
            "A. Keeper",
            "-o",
            "out.csv",
            "--report",
            "mine.html",
            "--public-report",
            "public.html",
        )
    )
    told = json.loads(Path("out.csv.json").read_text())["provenance"]
    assert told["by"] == "A. Keeper"
    assert len(told["made"]) == len("2026-11-16")
    for page in ("mine.html", "public.html"):
        assert "A. Keeper" in Path(page).read_text()
        assert told["made"] in Path(page).read_text()


def test_one_table_in_a_folder_is_measured_and_asked(home: Path, shell: Shell) -> None:
    people = sf.read(str(home / "people.csv"), schema=str(home / "people.toml"))
    people.anonymize(sf.KAnonymity(4), suppress="5%", suppressed="star").save(home / "folder")
    people.close()
    measured = shell.found(shell("measure", "folder", "--schema", "people.toml", "--json"))
    assert measured["k"] >= 4
    sql = "SELECT COUNT(*) FROM people"
    asked = shell.found(shell("worlds", "folder", sql, "--schema", "people.toml", "--json"))
    assert asked == {"lower": 30, "upper": 30, "estimate": 30}


def test_a_time_that_is_not_written_and_a_number_written_otherwise_are_not_called_unchanged(
    shell: Shell,
) -> None:
    Path("seen.csv").write_text("sex,seen,dose\n" + "f,2024-05-01 12:30,1.50\n" * 4)
    Path("seen.toml").write_text(
        'table = "seen"\nunit = "row"\n'
        '[columns.sex]\nrole = "quasi"\nkind = "text"\nhierarchy = { tree = "*" }\n'
        '[columns.seen]\nrole = "other"\nkind = "date"\nformat = "%Y-%m-%d %H:%M"\n'
        '[columns.dose]\nrole = "other"\nkind = "real"\n'
    )
    said = shell("anonymize", "seen.csv", "--schema", "seen.toml", "--k", 2, "-o", "out.csv")
    assert "only the day, without the time, not protected" in said.stdout
    assert "unchanged as numbers, not protected" in said.stdout
    assert Path("out.csv").read_text().splitlines()[1] == "f,2024-05-01,1.5"
