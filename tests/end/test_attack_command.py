"""`sfumato attack` and `table.attack`: the same findings through both doors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.attack.finding import Finding, Findings
from sfumato.attack.registry import ATTACKS
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
hierarchy = { tree = "*" }
[columns.ill]
role = "sensitive"
kind = "text"
values = ["flu", "gout", "none"]
"""
CONTRACT = ("attack", "success", "interval", "baseline", "risk", "victims", "examples")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ills = ("flu", "none", "gout", "none")
    rows = [
        f"person {number},{number % 50},{('north', 'south')[number % 2]},{ills[number % 7 % 4]}"
        for number in range(100)
    ]
    (tmp_path / "people.csv").write_text("\n".join(["name,age,town,ill", *rows]) + "\n")
    listed = [row.rpartition(",")[0] for row in rows]
    (tmp_path / "voters.csv").write_text("\n".join(["name,age,town", *listed]) + "\n")
    (tmp_path / "people.toml").write_text(SCHEMA)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert run([*words, "--schema", "people.toml", "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_one_attack_tells_what_the_contract_names(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("attack", "link", "people.csv", "--known", "voters.csv", "--original", "people.csv")
    raw = told(capsys, *words)
    assert list(raw)[:4] == ["attack", "success", "interval", "baseline"]
    assert {*CONTRACT} <= raw.keys()
    assert raw["success"] == 0.5  # two people of each age, always in the same town
    told(capsys, "anonymize", "people.csv", "--k", "5", "-o", "safe.csv")
    safe = told(capsys, "attack", "link", "safe.csv", "--original", "people.csv")
    assert 0 < safe["success"] <= 0.2
    assert safe["cost"]["rows"] == 200


def test_all_attacks_tell_what_they_found_or_why_they_did_not_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told(capsys, "anonymize", "people.csv", "--k", "5", "--l", "2", "-o", "safe.csv")
    found = told(capsys, "attack", "all", "safe.csv", "--original", "people.csv")
    ran = [one["attack"] for one in found["findings"]]
    silent = {one["attack"]: one["reason"] for one in found["not_run"]}
    assert {*ran} | silent.keys() == ATTACKS.keys()
    assert {"link", "homogeneity", "skewness", "minimality", "predict"} <= {*ran}
    assert "--other" in silent["composition"]
    assert "--population-size" in silent["uniqueness"]
    assert "not an anatomy" in silent["definetti"]


@pytest.fixture
def vault(capsys: pytest.CaptureFixture[str]) -> None:
    add = ["people", "people.csv", "--schema", "people.toml", "--epsilon", "9", "--delta", "1e-5"]
    assert run(["init", "vault"]) == run(["add", *add, "--vault", "vault"]) == 0
    capsys.readouterr()


PAID = ("people", "--vault", "vault", "--columns", "age,town,ill", "--epsilon", "1")


@pytest.mark.usefixtures("vault")
def test_a_synthetic_table_has_nobodys_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["synthesize", *PAID, "--delta", "1e-6", "-o", "twin.csv"]) == 0
    capsys.readouterr()
    tables = ("--original", "people.csv", "--control", "people.csv")
    found = told(capsys, "attack", "all", "twin.csv", *tables)
    ran = {one["attack"]: one for one in found["findings"]}
    silent = {one["attack"]: one["reason"] for one in found["not_run"]}
    assert ran.keys() | silent.keys() == ATTACKS.keys()
    assert {"link", "copies", "inference"} <= ran.keys()
    assert ran["link"]["victims"] == 0
    for name in ("homogeneity", "background", "skewness", "uniqueness"):
        assert "the table is synthetic" in silent[name]
    error = told(capsys, "attack", "link", "twin.csv", "--known", "voters.csv", code=2)["error"]
    assert "the table is synthetic" in error["message"]
    fuzzy = ("link-fuzzy", "twin.csv", "--known", "voters.csv", "--original", "people.csv")
    assert (
        "rows of the table are synthetic"
        in told(capsys, "attack", *fuzzy, code=2)["error"]["message"]
    )


@pytest.mark.usefixtures("vault")
def test_published_counts_have_no_rows_to_attack(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["publish", "marginals", *PAID, "--option", "way=2", "-o", "counts"]) == 0
    capsys.readouterr()
    found = told(capsys, "attack", "all", "counts", "--original", "people.csv")
    assert found["findings"] == []
    silent = {one["attack"]: one["reason"] for one in found["not_run"]}
    assert silent.keys() == ATTACKS.keys()
    assert "counts, not rows" in silent["link"]
    assert "--epsilon 1" in silent["differencing"]
    assert len(told(capsys, "attack", "all", "counts")["not_run"]) == len(ATTACKS)
    error = told(capsys, "attack", "copies", "counts", code=2)["error"]
    assert error["code"] == "attack_cannot_run"


def test_people_read_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", "all", "people.csv", "--schema", "people.toml"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "homogeneity: People whose sensitive value is certain:" in words
    assert "link did not run: it needs a list of people." in words
    assert "For the owner" in words


def test_an_anatomy_is_attacked_by_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("anonymize", "people.csv", "--l", "2", "--algorithm", "anatomy", "-o", "buckets")
    told(capsys, *words)
    found = told(capsys, "attack", "all", "buckets", "--original", "people.csv")
    ran = {one["attack"]: one for one in found["findings"]}
    assert {"link", "homogeneity", "definetti"} <= ran.keys()
    assert ran["homogeneity"]["victims"] == 0


def test_a_release_is_joined_with_a_public_table(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "anonymize", "people.csv", "--k", "5", "-o", "safe.csv")
    words = ("attack", "join", "safe.csv", "--other", "voters.csv", "--original", "people.csv")
    found = told(capsys, *words)
    assert found["success"] <= 0.2
    assert found["figures"]["recall"] == pytest.approx(1)
    assert found["figures"]["false"] > found["figures"]["true"] == pytest.approx(100)
    on = told(capsys, *words, "--on", "town", "--other-original", "voters.csv")["figures"]
    assert on["original"] == on["count"] == 2 * 50 * 50
    low, high = on["count_bounds"]
    assert low <= on["count"] <= high
    assert run([*words, "--schema", "people.toml"]) == 0
    assert "pairs of rows are joined" in " ".join(capsys.readouterr().out.split())


def test_without_a_schema_roles_are_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", "link", "people.csv", "--known", "voters.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attack"] == "link"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("lnk", "people.csv"), "choice_unknown", "did you mean 'link'?"),
        (("link", "people.csv"), "attack_cannot_run", "--known FILE"),
        (("predict", "people.csv", "--sensitive", "il"), "column_unknown", "'ill'"),
        (
            ("homogeneity", "people.csv", "--sure", "1.5"),
            "parameter_out_of_range",
            "at most 1, not 1.5",
        ),
        (
            ("background", "people.csv", "--exclude", "-1"),
            "parameter_out_of_range",
            "at least 0, not -1",
        ),
        (("link", "people.csv", "--known", "other.csv"), "comparison_impossible", "'name'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: tuple[str, ...], code: str, message: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "other.csv").write_text("a,b\n1,2\n")
    if words[0] == "predict":
        words = (*words, "--original", "people.csv")
    error = told(capsys, "attack", *words, code=2)["error"]
    assert error["code"] == code
    assert message in error["message"]


def test_python_has_the_same_door() -> None:
    with sf.read("people.csv", schema="people.toml") as people:
        found = people.attack("link", known="voters.csv", original=people)
        assert isinstance(found, Finding)
        assert found.success.value == 0.5
        assert repr(found).startswith("<Finding: link, 50.0 % right")
        every = people.attack(original=people, sure=0.9)
        assert isinstance(every, Findings)
        assert every["predict"].success.value > every["predict"].baseline.value
        with pytest.raises(sf.SfumatoError, match="exclude= must be at least 0"):
            people.attack("background", exclude=-1)
        with pytest.raises(sf.SfumatoError, match="known="):
            people.attack("link")


def test_a_page_for_the_owner_tells_all_but_who(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["attack", "link", "people.csv", "--known", "voters.csv", "--original", "people.csv"]
    told(capsys, *asked, "--report", "found.html")
    page = Path("found.html")
    assert page.stat().st_mode & 0o777 == 0o600
    text = page.read_text()
    assert "Attacks tried" in text
    assert "sfumato attack link people.csv --known voters.csv" in text
    assert "person 1" not in text
    assert (
        told(capsys, *asked, "--report", "found.html", code=2)["error"]["code"] == "output_exists"
    )
    again = told(capsys, *asked, "--report", "voters.csv", "--overwrite", code=2)
    assert again["error"]["code"] == "file_in_use"
    assert Path("voters.csv").read_text().startswith("name,age,town")


PATIENTS = (
    "age,zip,disease\n34,53715,flu\n36,53715,gout\n39,53715,flu\n51,53703,cancer\n51,53703,flu\n"
)
SAFE = "age,zip,disease\n30-39,5371*,flu\n30-39,5371*,gout\n30-39,5371*,flu\n50-59,5370*,cancer\n"
CLINIC = """\
table = "patients"
[columns]
age = {role = "quasi", kind = "integer", bounds = [0, 99], hierarchy = {widths = [10, 50]}}
zip = {role = "quasi", kind = "text", values = ["53703", "53715"], hierarchy = {mask = "right"}}
disease = {role = "sensitive", kind = "text"}
"""


@pytest.mark.parametrize("declared", few_fast([True, False], 1))
@pytest.mark.parametrize("sidecar", [True, False])
def test_python_and_the_command_find_the_same(
    declared: bool, sidecar: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels of a release are no values, though nothing was declared of it when it was read."""
    Path("patients.csv").write_text(PATIENTS + "58,53703,gout\n")
    Path("patients.toml").write_text(CLINIC)
    Path("safe.csv").write_text(SAFE + "50-59,5370*,flu\n50-59,5370*,gout\n")
    if sidecar:
        with sf.read("patients.csv", "patients.toml") as people:
            people.anonymize(k=3).save("safe.csv", overwrite=True)
    schema = ["--schema", "patients.toml"] if declared else []
    for name in ("link", "join"):
        more = ["--other", "patients.csv"] if name == "join" else []
        words = ["attack", name, "safe.csv", "--original", "patients.csv", *more, *schema]
        assert run([*words, "--json"]) == 0
        by_command = json.loads(capsys.readouterr().out)
        tables: dict[str, Any] = {"other": "patients.csv"} if more else {}
        originals: list[Any] = ["patients.csv" if sidecar else sf.read("patients.csv")]
        if declared:
            originals = [sf.read("patients.csv", "patients.toml")]
            again = sf.read("safe.csv").attack(
                name, original="patients.csv", schema="patients.toml", **tables
            )
            assert _figures(again.json()) == _figures(by_command)
        for original in originals:
            found = sf.read("safe.csv").attack(name, original=original, **tables)
            assert _figures(found.json()) == _figures(by_command)
        if name == "link" and declared:
            assert by_command["success"] == pytest.approx(1 / 3)


def _figures(found: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in found.items() if name != "cost"}


def test_a_side_car_that_cannot_be_read_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("attack", "link", "people.csv", "--original", "people.csv")
    assert not any("side-car" in one for one in told(capsys, *words)["remarks"])
    Path("people.csv.json").write_text('{"x":')
    assert "people.csv.json' cannot be read as a side-car" in told(capsys, *words)["remarks"][-1]
    found = sf.compare(["people.csv"], "people.csv", "people.toml")
    assert "cannot be read as a side-car" in found["people"].remarks[0]


def test_help_lists_every_attack(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", "--help"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    for name, attack in ATTACKS.items():
        assert f"{name} {attack.summary}" in page
