"""`sfumato compare`, `--explore` and `sf.compare`: releases of all kinds beside each other."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.attack.comparison.result import Comparison
from sfumato.cli.main import run

SCHEMA = """\
table = "people"
[columns.name]
role = "identifier"
kind = "text"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
hierarchy = { widths = [10, 50] }
[columns.town]
role = "quasi"
kind = "text"
values = ["north", "south"]
hierarchy = { tree = ["north", "south"] }
[columns.ill]
role = "sensitive"
kind = "text"
values = ["flu", "gout", "none"]
"""
CONTRACT = ("path", "guarantee", "k", "epsilon", "risk", "utility")
PEOPLE = ("--original", "people.csv", "--schema", "people.toml")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One release of each kind, made once."""
    folder = tmp_path_factory.mktemp("releases")
    ills = ("flu", "none", "gout", "none")
    rows = [
        f"person {number},{number % 83},{('north', 'south')[number % 2]},{ills[number % 7 % 4]}"
        for number in range(400)
    ]
    (folder / "people.csv").write_text("\n".join(["name,age,town,ill", *rows]) + "\n")
    others = [row.replace("person", "other").replace("flu", "gout") for row in rows[:100]]
    (folder / "others.csv").write_text("\n".join(["name,age,town,ill", *others]) + "\n")
    (folder / "people.toml").write_text(SCHEMA)
    with sf.read(folder / "people.csv", folder / "people.toml") as people:
        people.anonymize(k=5).save(folder / "k5.csv")
        people.anonymize(l=2, algorithm="anatomy").save(folder / "two")
        private = sf.protect(people, epsilon=10)
        columns = ["age", "town", "ill"]
        private.synthesize(epsilon=1, method="independent", columns=columns).save(
            folder / "twin.csv"
        )
        private.publish("marginals", columns=columns, epsilon=6).save(folder / "counts")
        private.publish("tree", columns=["age"], epsilon=1).save(folder / "ages.csv")
    return folder


@pytest.fixture(autouse=True)
def home(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert run([*words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_kind_of_release_is_compared(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    releases = ("people.csv", "k5.csv", "two", "twin.csv", "counts", "ages.csv")
    found = told(capsys, "compare", *releases, *PEOPLE, "--report", "page.html")
    by_name = {one["name"]: one for one in found["candidates"]}
    assert list(by_name) == ["people", "k5", "two", "twin", "counts", "ages"]
    for one in by_name.values():
        assert {*CONTRACT} <= {*one}
        assert 0 <= one["utility"]["kept"] <= 1
        for risk in one["risk"].values():
            assert {"success", "interval", "baseline"} <= {*risk}
            assert risk["examples"] == []  # people are on no page, and in no file
    kinds = {name: one["kind"] for name, one in by_name.items()}
    assert kinds == {
        "people": "rows",
        "k5": "rows",
        "two": "two tables",
        "twin": "synthetic rows",
        "counts": "counts with noise",
        "ages": "counts with noise",
    }
    assert by_name["people"]["utility"]["kept"] == 1
    assert (by_name["people"]["k"], by_name["people"]["guarantee"]) == (2, None)
    assert by_name["k5"]["k"] >= 5
    assert "5-anonymity" in by_name["k5"]["guarantee"]
    assert by_name["k5"]["utility"]["loss"] > 0
    assert by_name["two"]["l"] >= 2
    assert (by_name["twin"]["k"], by_name["twin"]["epsilon"]) == (None, 1)
    assert by_name["counts"]["privacy"]["attack"] == "promise"
    # A table of one column tells less than one of all pairs.
    assert by_name["ages"]["utility"]["kept"] < by_name["counts"]["utility"]["kept"]
    page = made / "page.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    for name in by_name:
        assert f">{name}<" in text
    assert "person 1" not in text


def test_the_owner_says_that_rows_are_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bought.csv").write_text(Path("twin.csv").read_text())
    Path("k5 copy.csv").write_text(Path("k5.csv").read_text())
    words = ("compare", "bought.csv", "k5 copy.csv", *PEOPLE)
    kinds = [one["kind"] for one in told(capsys, *words)["candidates"]]
    assert kinds == ["rows", "rows"]
    one, other = told(capsys, *words, "--synthetic", "bought.csv")["candidates"]
    assert (one["kind"], other["kind"], one["k"]) == ("synthetic rows", "rows", None)
    assert "the table is synthetic" in one["not_run"]["homogeneity"]
    found = sf.compare(["bought.csv"], "people.csv", "people.toml", synthetic="bought")
    assert found["bought"].kind == "synthetic rows"
    error = told(capsys, *words, "--synthetic", "twin.csv", code=2)["error"]
    assert error["code"] == "parameter_out_of_range"
    assert "none of the candidates" in error["message"]


def test_membership_is_told_of_counts_and_counts_where_others_are_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    releases = ("people.csv", "counts", "ages.csv")
    found = told(capsys, "compare", *releases, *PEOPLE, "--control", "others.csv")
    people, counts, ages = found["candidates"]
    assert counts["privacy"]["attack"] == "membership"
    assert counts["risk"]["membership"]["bound"] == pytest.approx(0.99753, abs=1e-5)
    assert "membership" in people["risk"]
    assert ages["privacy"]["attack"] == "membership"


def test_candidates_are_joined_with_a_known_list(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", "people.csv", "k5.csv", "counts", *PEOPLE, "--known", "people.csv")
    found = told(capsys, *words, "--report", "joined.html")
    raw, safe, counts = (one["risk"].get("join") for one in found["candidates"])
    assert raw["figures"]["true"] == safe["figures"]["true"] == 400  # each person with themself
    assert safe["figures"]["false"] > raw["figures"]["false"]
    low, high = safe["figures"]["count_bounds"]
    assert low <= safe["figures"]["count"] <= high
    assert counts is None
    assert "no rows" in found["candidates"][2]["not_run"]["join"]
    assert all(one["privacy"]["attack"] != "join" for one in found["candidates"])
    assert "How good a join with the list is" in Path("joined.html").read_text()
    alone = told(capsys, "compare", "k5.csv", *PEOPLE)["candidates"][0]
    assert "join" not in {**alone["risk"], **alone["not_run"]}


def test_what_is_found_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "k5.csv", "twin.csv", *PEOPLE]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "k5: the best attack (" in words
    assert "; utility " in words
    assert "For the owner" in words


def test_python_compares_releases_in_memory_the_same(made: Path) -> None:
    with sf.read("people.csv", "people.toml") as people:
        safe = people.anonymize(k=5)
        found = sf.compare({"safe": safe, "raw": people}, original=people)
        listed = sf.compare([safe, "k5.csv"], original=people)
    assert isinstance(found, Comparison)
    assert [one.name for one in found] == ["safe", "raw"]
    assert found["safe"].k is not None
    assert found["safe"].k >= 5
    assert [one.name for one in listed] == ["candidate 1", "k5"]
    first, second = listed.candidates
    assert first.utility == second.utility
    assert first.exposure == second.exposure
    found.save_report(made / "python.html")
    with pytest.raises(sf.SfumatoError, match="overwrite=True"):
        found.save_report(made / "python.html")
    with pytest.raises(sf.SfumatoError):
        found.save_report(made / "people.csv", overwrite=True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("none.csv", *PEOPLE), "source_missing"),
        (("k5.csv", *PEOPLE, "--report", "k5.csv", "--overwrite"), "file_in_use"),
        (("k5.csv", *PEOPLE, "--report", "people.csv"), "output_exists"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    words: tuple[str, ...], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, "compare", *words, code=2)["error"]["code"] == code


def test_two_candidates_of_one_name_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "compare", "k5.csv", "k5.csv", *PEOPLE)
    assert [one["name"] for one in found["candidates"]] == ["k5", "k5 (2)"]


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(sf.SfumatoError, match="at least one") as refused:
        sf.compare([], original="people.csv", schema="people.toml")
    assert refused.value.code == "comparison_impossible"
    with pytest.raises(sf.SfumatoError, match="must be declared"):
        sf.compare(["k5.csv"], original="people.csv")


def test_exploring_writes_a_ladder_and_a_page(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("anonymize", "people.csv", "--schema", "people.toml", "--explore", "-o", "ladder")
    found = told(capsys, *words, "--k", "4")
    names = ["k50", "k20", "k10", "k5", "k4", "k3", "k2"]
    assert [one["name"] for one in found["candidates"]] == names
    for one in found["candidates"]:
        assert one["k"] >= int(one["name"][1:])
    assert {f"{name}.csv.json" for name in names} <= {
        one.name for one in (made / "ladder").iterdir()
    }
    assert "candidates for a release" in (made / "ladder" / "compare.html").read_text().lower()
    assert told(capsys, *words, code=2)["error"]["code"] == "output_exists"
    assert (
        told(capsys, *words, "--report", "x.html", code=2)["error"]["code"]
        == "option_not_applicable"
    )


def test_exploring_an_anatomy_goes_by_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("anonymize", "people.csv", "--schema", "people.toml", "--algorithm", "anatomy")
    found = told(capsys, *words, "--l", "2", "--explore", "-o", "parted")
    assert [one["name"] for one in found["candidates"]] == ["l2"]  # half of all have none
    assert any("l = 3" in one for one in found["explored"])


def test_exploring_a_synthesis_pays_for_all_or_for_none(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sf.init("clinic") as vault:
        vault.add("people", "people.csv", "people.toml", epsilon=2)
    asked = ("synthesize", "people", "--columns", "age,town,ill", "--method", "independent")
    words = (*asked, "--explore", "--vault", "clinic", "-o", "twins")
    refused = told(capsys, *words, "--epsilon", "1.9", "--yes", code=3)["error"]
    assert refused["code"] == "budget_exhausted"
    assert "epsilon 3.5625" in refused["message"]
    assert spent() == 0
    assert not (made / "twins").exists()
    assert told(capsys, *words, "--epsilon", "1", code=2)["error"]["code"] == "parameter_missing"
    plan = told(capsys, *words, "--epsilon", "1", "--plan")
    assert plan["cost"] == "epsilon 1.875"
    assert spent() == 0
    assert not (made / "twins").exists()
    found = told(capsys, *words, "--epsilon", "1", "--yes")
    names = ["epsilon-0.125", "epsilon-0.25", "epsilon-0.5", "epsilon-1"]
    assert [one["name"] for one in found["candidates"]] == names
    assert [one["epsilon"] for one in found["candidates"]] == [0.125, 0.25, 0.5, 1]
    assert spent() == pytest.approx(1.875)
    assert (made / "twins" / "compare.html").is_file()
    told(capsys, *words, "--epsilon", "1", "--yes", "--overwrite")
    assert spent() == pytest.approx(1.875)  # what is in store is given again


def spent() -> float:
    with sf.open("clinic") as vault:
        return 2 - vault.private("people").remaining["epsilon"]
