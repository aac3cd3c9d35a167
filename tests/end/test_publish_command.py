"""`sfumato publish` as its users meet it: files written, money spent once, plain refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv as arrow_csv
import pytest

import sfumato as sf
from sfumato.cli.main import run

SCHEMA = """\
table = "visits"
unit = "row"
[columns.age]
kind = "integer"
bounds = [0, 63]
[columns.city]
kind = "text"
values = ["north", "south"]
nullable = false
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault with one data set, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{place % 64},{'north' if place % 2 else 'south'}" for place in range(2000)]
    Path("visits.csv").write_text("\n".join(["age,city", *rows]) + "\n")
    Path("visits.toml").write_text(SCHEMA)
    assert run(["init", "clinic"]) == 0
    added = "add visits visits.csv --schema visits.toml --epsilon 4 --vault clinic"
    assert run(added.split()) == 0
    return tmp_path / "clinic"


def told(capsys: pytest.CaptureFixture[str], words: str, *, code: int = 0) -> dict[str, object]:
    """Run a command with --json and give the one object that it prints."""
    capsys.readouterr()
    assert run([*words.split(), "--vault", "clinic", "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("clinic")
def test_a_histogram_is_written_beside_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    words = "publish histogram visits --columns age,city --epsilon 1 -o out.csv --report out.html"
    found = told(capsys, words)
    assert found["tables"] == {"histogram": 130}
    assert found["written"] == ["out.csv", "out.csv.json", "out.html"]
    assert found["cost"] == {"epsilon": 1.0, "charged": True}
    assert arrow_csv.read_csv("out.csv").num_rows == 130
    assert sf.Release.load("out.csv").guarantee.parameters["epsilon"] == "1"
    assert "differential" in Path("out.html").read_text().lower()
    # What was paid for is written again for free, but only where nothing lies.
    assert told(capsys, words, code=2)["error"]["code"] == "output_exists"  # type: ignore[index]
    again = told(capsys, words.replace("out.", "again."))
    assert again["cost"] == {"epsilon": 1.0, "charged": False}
    assert again["remaining"] == found["remaining"]


@pytest.mark.usefixtures("clinic")
def test_a_tree_is_planned_for_the_ranges_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ranges.csv").write_text("age_low,age_high\n0,31\n16,47\n")
    words = "publish tree visits --columns age --epsilon 1 --workload ranges.csv"
    planned = told(capsys, f"{words} --explain")
    found = told(capsys, f"{words} -o tree.parquet")
    assert found["error"] == planned["error"]
    assert found["remaining"] == {"epsilon": 3.0, "delta": 0.0}


@pytest.mark.usefixtures("clinic")
def test_people_are_told_what_they_got(capsys: pytest.CaptureFixture[str]) -> None:
    words = "publish quantiles visits --columns age --epsilon 1 --option ranks=0.5 -o q.csv"
    capsys.readouterr()
    assert run([*words.split(), "--vault", "clinic"]) == 0
    out = capsys.readouterr().out
    assert "Hides whether any one row is present" in out
    assert "Cost: epsilon 1. Budget: epsilon 3 of 4 left." in out
    assert "Wrote q.csv and q.csv.json." in out


@pytest.mark.usefixtures("clinic")
def test_a_model_of_several_tables_is_told_of_as_one_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "learn kmeans visits --features age --epsilon 1 -o m.json"
    capsys.readouterr()
    assert run([*words.split(), "--vault", "clinic"]) == 0
    out = capsys.readouterr().out
    assert "folder" not in out
    assert out.splitlines()[-1].startswith("Wrote m.json.")
    assert set(json.loads(Path("m.json").read_text())["tables"]) == {"centres", "sizes"}


@pytest.mark.usefixtures("clinic")
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_several_tables_go_into_a_folder_in_the_format_that_was_named(
    capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    words = "publish marginals visits --columns age,city --option way=1 --epsilon 1"
    capsys.readouterr()
    assert run([*words.split(), "-o", f"x.y{ending}", "--vault", "clinic"]) == 0
    out = capsys.readouterr().out
    assert f"Wrote 2 tables into the folder x.y: age{ending}, city{ending}, release.json." in out
    assert {one.name for one in Path("x.y").iterdir()} == {
        f"age{ending}",
        f"city{ending}",
        "release.json",
    }
    assert list(sf.Release.load("x.y").tables) == ["age", "city"]


@pytest.mark.usefixtures("clinic")
def test_figures_in_files_are_short(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "publish wavelet visits --columns age --epsilon 1 -o x.csv")
    _, *lines = Path("x.csv").read_text().splitlines()
    assert max(len(line.rpartition(",")[2].partition(".")[2]) for line in lines) <= 5
    assert not any(line.endswith(("-0", ".0")) for line in lines)


@pytest.mark.usefixtures("clinic")
@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("publish histogram visits --columns age --epsilon 1", "parameter_missing"),
        ("publish histogrm visits --columns age -o x.csv", "choice_unknown"),
        ("publish histogram visitors --columns age -o x.csv", "dataset_unknown"),
        ("publish histogram visits --columns agee -o x.csv", "column_unknown"),
        ("publish histogram visits --columns age --option fan -o x.csv", "parameter_type_wrong"),
        ("publish histogram visits --columns age --option fan=2 -o x.csv", "option_unknown"),
        ("publish histogram visits --columns age --epsilon 0 -o x.csv", "parameter_out_of_range"),
        ("publish histogram visits --columns age -o no/such/x.csv", "output_unwritable"),
        ("publish histogram visits --columns age -o x.doc", "format_unknown"),
        ("publish histogram visits --columns age -o no/such/folder", "output_unwritable"),
        ("publish histogram visits --columns age -o visits.csv", "output_exists"),
        ("publish histogram visits --columns age --workload no.csv -o x.csv", "source_missing"),
    ],
)
def test_mistakes_are_told_and_cost_nothing(
    capsys: pytest.CaptureFixture[str], words: str, refused: str
) -> None:
    error = told(capsys, words, code=2)["error"]
    assert isinstance(error, dict)
    assert error["code"] == refused
    assert not Path("x.csv").exists()
    with sf.open("clinic") as vault:
        assert vault.private("visits").remaining["epsilon"] == 4


@pytest.mark.usefixtures("clinic")
def test_without_money_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    words = "publish histogram visits --columns age --epsilon 5 -o x.csv"
    error = told(capsys, words, code=3)["error"]
    assert isinstance(error, dict)
    assert error["code"] == "budget_exhausted"
    assert not Path("x.csv").exists()


@pytest.mark.usefixtures("clinic")
def test_what_is_paid_for_is_not_lost_when_its_place_is_taken_meanwhile(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the charge a refusal is no longer the caller's mistake, and the next try is free."""
    from sfumato.vault.private import Private

    publish = Private.answer

    def overtaken(self: Private, *given: Any, **options: Any) -> Any:
        Path("x.csv").write_text("theirs")
        return publish(self, *given, **options)

    words = "publish histogram visits --columns age --epsilon 1 -o x.csv"
    with monkeypatch.context() as patched:
        patched.setattr(Private, "answer", overtaken)
        error = told(capsys, words, code=1)["error"]
    assert isinstance(error, dict)
    assert error["code"] == "output_exists"
    assert "it is free" in error["message"]
    assert Path("x.csv").read_text() == "theirs"
    found = told(capsys, words.replace("x.csv", "y.csv"))
    assert found["cost"] == {"epsilon": 1.0, "charged": False}


@pytest.mark.usefixtures("clinic")
def test_ranges_are_watched(capsys: pytest.CaptureFixture[str]) -> None:
    # 31 or 32 rows of each age: 2000, 31 and 500 of them, against a threshold of 250.
    Path("ranges.csv").write_text("age_low,age_high\n0,63\n7,7\n0,15\n")
    words = "watch visits --columns age --workload ranges.csv --threshold 250 --epsilon 2"
    found = told(capsys, f"{words} --at-most 2")
    # Noise of scales 1 and 2: 218 off with probability below exp(-54).
    assert found["rows"] == [[0, 63, True], [7, 7, False], [0, 15, True]]
    assert found["cost"] == {"epsilon": 2.0, "charged": True}
    with sf.open("clinic") as vault:
        private: Any = vault.private("visits")
        queries = [[[0, 63]], [[7, 7]], [[0, 15]]]
        again = private.above(columns="age", workload=queries, threshold=250, at_most=2, epsilon=2)
        assert again.table["above"].to_pylist() == [True, False, True]
        assert not again.charged
    assert run([*words.split(), "--at-most", "2", "--vault", "clinic"]) == 0
    shown = capsys.readouterr().out
    assert "asked before: free" in shown
    assert "Expected error, verdicts" in shown
    written = told(capsys, f"{words} --at-most 2 -o hits.csv")
    assert written["tables"] == {"above": 3}
    assert written["written"] == ["hits.csv", "hits.csv.json"]
    error = told(capsys, f"{words} --at-most 9", code=2)["error"]
    assert isinstance(error, dict)
    refused = told(capsys, words.replace("ranges.csv", "missing.csv"), code=2)["error"]
    assert isinstance(refused, dict)
    kept = told(capsys, f"{words} -o ranges.csv --overwrite", code=2)["error"]
    assert isinstance(kept, dict)
    assert kept["code"] == "file_in_use"
