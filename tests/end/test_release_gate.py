"""The gate before release: what attackers still get is known before anything leaves."""

from __future__ import annotations

import json
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato.attack.catalogue import ON_CLASSES, ON_ROWS
from sfumato.cli.main import run
from sfumato.errors import ParameterError, PolicyError
from sfumato.publish.catalogue import KINDS
from sfumato.report.parts import FINDINGS_TRAVEL
from sfumato.steward.paid_attacks import read_as_rows
from sfumato.vault.trying import CHOSEN
from sfumato.vault.vault import create_vault, open_vault

if TYPE_CHECKING:
    from collections.abc import Callable

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
FOUND = "People whose released row is found"
ANONYMIZE = ("anonymize", "people.csv", "--schema", "people.toml", "-o", "safe.csv", "--k")
HISTOGRAM = ("publish", "histogram", "people", "--columns", "town,ill", "-o", "safe.csv")
MARGINALS = ("publish", "marginals", "people", "--columns", "town,ill,age")
TWIN = ("synthesize", "people", "-o", "safe.csv")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """People of whom everybody in the north has the flu, and each age occurs twice in a town."""
    monkeypatch.chdir(tmp_path)
    ills = ("gout", "none", "flu")
    rows = [
        f"p{n},{n % 50},{('north', 'south')[n % 2]},{'flu' if n % 2 == 0 else ills[n % 3]}"
        for n in range(200)
    ]
    Path("people.csv").write_text("\n".join(["name,age,town,ill", *rows]) + "\n")
    Path("people.toml").write_text(SCHEMA)
    return tmp_path


@pytest.fixture
def vault(home: Path) -> Path:
    with create_vault(home / "clinic") as made:
        made.add("people", home / "people.csv", home / "people.toml", epsilon=8)
    folder = home / "clinic"
    config = folder / "vault.toml"
    config.write_text(config.read_text() + '[principals.alice.budgets.people]\nepsilon = "1"\n')
    return folder


def files() -> set[str]:
    return {one.name for one in Path().iterdir()} - {"clinic", "clinic.head"}


def spent(folder: Path) -> float:
    with open_vault(folder) as opened:
        [account] = [one for one in opened.accounts() if one["account"] == "people"]
    return 8 - float(account["remaining"]["epsilon"])


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 3) -> str:
    before = files()
    capsys.readouterr()
    assert run([*words]) == code
    assert files() == before
    told = capsys.readouterr()
    assert told.out == ""
    return told.err


def kept() -> dict[str, Any]:
    """What the holder keeps of attacks; what travels has not a word of it."""
    told = Path("safe.csv.json").read_text()
    assert not any(word in told for word in ('"attacks"', '"success"', "required"))
    path = Path("safe.csv.holder.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found: dict[str, Any] = json.loads(path.read_text())["attacks"]
    return found


def names(told: dict[str, Any]) -> list[str]:
    return [one["attack"] for one in told["findings"]]


# anonymize


def test_a_table_is_attacked_before_it_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ANONYMIZE, "4", "--report", "own.html", "--public-report", "all.html"]) == 0
    told_last = capsys.readouterr().out
    assert FOUND in told_last
    assert "Keep safe.csv.holder.json and own.html: they tell of the original.\n" in told_last
    told = kept()
    assert names(told) == [*ON_CLASSES]
    link, homogeneity, _ = told["findings"]
    assert 0 < link["success"] <= 1 / 4
    assert homogeneity["success"] == 0.5  # the north
    assert not any(one["examples"] for one in told["findings"])
    assert FOUND in Path("own.html").read_text()
    assert FOUND not in Path("all.html").read_text()
    release = sf.Release.load("safe.csv")
    assert release.findings["link"].success.value == link["success"]
    assert release.public.findings is None


def test_the_findings_are_those_of_the_attack_command(capsys: pytest.CaptureFixture[str]) -> None:
    for algorithm in ("optimal", "mondrian"):
        assert run([*ANONYMIZE, "4", "--algorithm", algorithm, "--overwrite", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["attacks"]
        given = ["--original", "people.csv", "--schema", "people.toml", "--json"]
        for own in told["findings"]:
            assert run(["attack", own["attack"], "safe.csv", *given]) == 0
            later = json.loads(capsys.readouterr().out)
            same = ("success", "interval", "victims", "tried")
            assert [own[one] for one in same] == [later[one] for one in same]


def test_a_weak_table_is_refused_and_a_strong_one_released(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = refused(capsys, *ANONYMIZE, "4", "--report", "own.html", "--require", "homogeneity<=0")
    assert "'homogeneity<=0' does not hold, since homogeneity of ill is 50.0 % (0.5)." in told
    assert "Nothing was written." in told
    assert run([*ANONYMIZE, "4", "--l", "2", "--require", "homogeneity<=0"]) == 0
    assert kept()["required"] == ["homogeneity<=0"]


def test_every_requirement_must_hold_and_ends_count(capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--require", "link<0.9", "--require", "homogeneity.high<0.5")
    told = refused(capsys, *ANONYMIZE, "4", *both)
    assert "homogeneity.high" in told
    assert "link<" not in told
    assert run([*ANONYMIZE, "4", "--require", "link<90%", "--require", "homogeneity<=50%"]) == 0
    assert "'homogeneity<50%'" in refused(
        capsys, *ANONYMIZE, "4", "--overwrite", "--require", "homogeneity<50%"
    )


def test_an_attack_that_does_not_run_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(capsys, *ANONYMIZE, "4", "--require", "definetti<0.9")
    assert "definetti did not run: the release is no anatomy" in told


@pytest.mark.parametrize(
    ("written", "code", "words"),
    [
        ("lnk<0.05", 2, "did you mean 'link'"),
        ("link.risks<0.05", 2, "did you mean 'risk'"),
        ("link>0.05", 2, "Cannot read the requirement 'link>0.05'"),
        ("link<5", 2, "Cannot read the requirement 'link<5'"),
        ("link", 2, "such as 'link<0.05'"),
        ("composition<0.1", 3, "needs a second release"),
        ("averaging<0.1", 3, "a table that answers questions"),
    ],
)
@pytest.mark.parametrize("door", [(*ANONYMIZE, "4"), HISTOGRAM, TWIN])
def test_what_cannot_be_read_or_shown_is_refused_before_any_work(
    capsys: pytest.CaptureFixture[str], door: tuple[str, ...], written: str, code: int, words: str
) -> None:
    assert words in refused(capsys, *door, "--require", written, code=code)  # nor is there a vault


def test_attacks_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ANONYMIZE, "4", "--no-attacks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attacks"] is None
    assert "attacks" not in json.loads(Path("safe.csv.holder.json").read_text())
    told = refused(capsys, *ANONYMIZE, "4", "--no-attacks", "--require", "link<1%", code=2)
    assert "Drop --no-attacks" in told


def test_findings_travel_only_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ANONYMIZE, "4", "--publish-findings", "--public-report", "all.html"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Keep safe.csv.holder.json: it tells of the original. What attacks")
    assert "travels with the release" in last
    told = json.loads(Path("safe.csv.json").read_text())["guarantee"]["parameters"]
    assert names(told["attacks"]) == [*ON_CLASSES]
    assert any("computed from the original rows" in one for one in told["notes"])
    page = Path("all.html").read_text()
    assert FOUND in page
    assert page.count(FINDINGS_TRAVEL) == 2  # above all, and below
    assert "nothing but what was released" not in page
    assert "exact number of rows of the original" in page
    assert sf.Release.load("safe.csv").public.findings is not None


@pytest.mark.parametrize(
    ("more", "tried"),
    [
        (("--algorithm", "anatomy", "--l", "2", "--sensitive", "ill"), 3),
        (("--k", "4", "--algorithm", "permute"), 3),
        (("--k", "4", "--algorithm", "mondrian-relaxed"), 3),
        (("--k", "3", "--suppress", "10%", "--suppressed", "star"), 3),
        (("--k", "3", "--suppress", "10%", "--refine"), 3),
    ],
    ids=lambda one: one[-1] if isinstance(one, tuple) else "",
)
def test_whatever_form_a_release_has_it_is_attacked(
    capsys: pytest.CaptureFixture[str], more: tuple[str, ...], tried: int
) -> None:
    Path("people.csv").write_text(
        Path("people.csv").read_text().replace("north,flu", "north,gout", 40)
    )
    anonymize = ANONYMIZE[:-3]
    assert run([*anonymize, "-o", "out.csv", *more, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["attacks"]
    assert len(names(told)) == tried, told["not_run"]


def test_of_a_large_table_some_people_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.steward.own_attacks.SAMPLE", 50)
    with sf.read("people.csv", "people.toml") as people:
        found = people.anonymize(k=4, attacks=True).findings
    link, homogeneity, skewness = found.findings
    assert link.success.tried == 50
    assert "Tried on people drawn at random, about 50 of 200." in link.remarks
    assert homogeneity.success.value == 0.5
    assert skewness.success.tried == 200


def test_a_table_whose_combinations_do_not_fit_is_counted_where_it_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sfumato.steward.own_attacks._counted", lambda _decided: None)
    with sf.read("people.csv", "people.toml") as people:
        found = people.anonymize(k=4, attacks=True, require=["link<0.26"]).findings
    assert found["homogeneity"].success.value == 0.5
    assert found["link"].success.value <= 0.25


def test_python_has_the_same_gate() -> None:
    with sf.read("people.csv", "people.toml") as people:
        assert people.anonymize(k=4).findings is None
        release = people.anonymize(k=4, l=2, require="homogeneity<=0")
        assert release.findings["homogeneity"].success.value == 0
        with pytest.raises(PolicyError, match="Not released: 'homogeneity<=0'"):
            people.anonymize(k=4, require=["link<0.9", "homogeneity<=0"])
        open_to_all = people.anonymize(k=4, publish_findings=True)
        assert open_to_all.public.findings is not None


def test_no_attack_and_a_requirement_contradict_each_other_in_python_too() -> None:
    with sf.read("people.csv", "people.toml") as people:
        private = sf.protect(people, epsilon=8)
        for more in ({"require": "link<0.5"}, {"publish_findings": True}):
            off: dict[str, Any] = {"attacks": False, **more}
            doors: list[Callable[..., object]] = [
                partial(people.anonymize, k=4),
                partial(private.synthesize, epsilon=1),
                partial(private.publish, "histogram", columns="ill", epsilon=1),
            ]
            for door in doors:
                with pytest.raises(ParameterError, match="Drop attacks=False, or"):
                    door(**off)
        with pytest.raises(ParameterError, match="each of them a text, but has 1"):
            people.anonymize(k=4, require=[1])  # type: ignore[list-item]
        assert private.remaining["epsilon"] == pytest.approx(8)


@pytest.mark.parametrize(
    "written", ["x" * 100_000, "x" * 100_000 + "<0.5", "link." + "x" * 100_000 + "<0.5",
                "link<=0." + "0" * 100_000 + "1"],
)  # fmt: skip
def test_a_long_condition_is_not_echoed(capsys: pytest.CaptureFixture[str], written: str) -> None:
    assert run([*ANONYMIZE, "4", "--require", written]) in (2, 3)
    assert len(capsys.readouterr().err) < 600


# publish and synthesize


@pytest.mark.parametrize("door", [HISTOGRAM, TWIN], ids=["publish", "synthesize"])
def test_nothing_is_attacked_under_a_budget_unless_its_owner_asks(
    vault: Path, door: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*door, "--epsilon", "1", "--vault", str(vault), "--json"]) == 0
    assert "attacks" not in json.loads(capsys.readouterr().out)
    assert not Path("safe.csv.holder.json").exists()


@pytest.mark.parametrize("door", [HISTOGRAM, TWIN], ids=["publish", "synthesize"])
def test_what_is_strong_is_released_and_says_how_it_was_chosen(
    vault: Path, door: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--epsilon", "0.1", "--vault", str(vault), "--require", "link<=99%")
    pages = ("--report", "all.html", "--owner-report", "own.html")
    assert run([*door, *asked, *pages, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert names(told["attacks"]) == [*ON_ROWS]
    assert names(kept()) == [*ON_ROWS]
    beside = json.loads(Path("safe.csv.json").read_text())
    assert beside["guarantee"]["statement"].endswith(CHOSEN)
    assert beside["error"] is not None
    assert FOUND in Path("own.html").read_text()
    assert "stays with its owner" in Path("own.html").read_text()
    assert stat.S_IMODE(Path("own.html").stat().st_mode) == 0o600
    assert FOUND not in Path("all.html").read_text()
    assert sf.Release.load("safe.csv").findings["link"].success.value <= 0.99


@pytest.mark.parametrize("door", [HISTOGRAM, TWIN], ids=["publish", "synthesize"])
def test_what_is_weak_is_refused_and_stays_paid_for(
    vault: Path, door: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*door, "--epsilon", "4", "--vault", str(vault))
    pages = ("--report", "all.html", "--owner-report", "own.html")
    told = refused(capsys, *asked, *pages, "--require", "inference<0.2")
    assert "'inference<0.2' does not hold" in told
    assert "The charge stays" in told
    assert spent(vault) == 4
    refused(capsys, *asked, "--require", "inference<0.2")
    assert run([*asked]) == 0
    assert spent(vault) == 4
    assert CHOSEN not in Path("safe.csv.json").read_text()


@pytest.mark.parametrize("door", [HISTOGRAM, TWIN], ids=["publish", "synthesize"])
@pytest.mark.parametrize(
    "flag", [("--require", "link<0.5"), ("--owner-report", "o.html"), ("--publish-findings",)]
)
def test_nobody_but_the_owner_is_told(
    vault: Path,
    door: tuple[str, ...],
    flag: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = (*door, "--epsilon", "0.1", "--vault", str(vault), "--principal", "alice", *flag)
    assert "it is for the owner" in refused(capsys, *asked)
    assert spent(vault) == 0


def test_what_could_not_be_written_is_refused_before_the_charge(
    vault: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("safe.csv.holder.json").write_text("{}")
    asked = (*HISTOGRAM, "--epsilon", "0.1", "--vault", str(vault))
    refused(capsys, *asked, "--owner-report", "own.html", code=2)
    Path("safe.csv.holder.json").unlink()
    refused(capsys, *asked, "--owner-report", "safe.csv.json", code=2)
    refused(capsys, *asked, "--report", "r.html", "--owner-report", "r.html", code=2)
    assert spent(vault) == 0


def test_the_owners_page_is_among_what_was_written(
    vault: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--epsilon", "1", "--vault", str(vault), "--owner-report", "own.html", "--overwrite")
    assert run([*HISTOGRAM, *asked, "--json"]) == 0
    assert "own.html" in json.loads(capsys.readouterr().out)["written"]
    for out, door in {"safe.csv": HISTOGRAM, "many": (*MARGINALS, "-o", "many")}.items():
        assert run([*door, *asked]) == 0
        wrote, kept = capsys.readouterr().out.splitlines()[-2:]
        assert wrote.endswith("own.html.")
        assert kept == f"Keep {out}.holder.json and own.html: they tell of the original."
        assert Path(f"{out}.holder.json").exists()


def test_findings_of_a_private_release_travel_only_where_that_is_asked_for(
    vault: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--epsilon", "1", "--vault", str(vault), "--publish-findings", "--report", "all.html")
    assert run([*HISTOGRAM, *asked]) == 0
    told = json.loads(Path("safe.csv.json").read_text())["guarantee"]
    assert names(told["parameters"]["attacks"]) == [*ON_ROWS]
    assert any("nothing that is guaranteed here" in one for one in told["parameters"]["notes"])
    assert not told["statement"].endswith(CHOSEN)  # nothing was required
    page = Path("all.html").read_text()
    assert FOUND in page
    assert page.count(FINDINGS_TRAVEL) == 2
    assert "All that stands on this page was released" not in page
    assert "travels with the release" in capsys.readouterr().out.splitlines()[-1]


def test_python_asks_for_a_gate_under_a_budget_too(vault: Path) -> None:
    with sf.read("people.csv", "people.toml") as people:
        private = sf.protect(people, epsilon=8)
        found = private.publish("histogram", columns=["town", "ill"], epsilon=4, attacks=True)
        assert found.findings["inference"].success.value > 0.3
        with pytest.raises(PolicyError, match="The charge stays"):
            private.synthesize(epsilon=1, require=["inference<0.2"])
        assert private.remaining["epsilon"] == pytest.approx(3)
        twin = private.synthesize(epsilon=1, require=["link<=0.99"])
        assert twin.guarantee.statement.endswith(CHOSEN)
        assert private.remaining["epsilon"] == pytest.approx(3)
    with open_vault(vault) as opened:
        asked = opened.private("people", principal="alice")
        with pytest.raises(PolicyError, match="ask as the owner"):
            asked.synthesize(epsilon=0.1, attacks=True)


def test_ranks_cannot_be_read_as_people(vault: Path) -> None:
    with open_vault(vault) as opened:
        asked = opened.private("people")
        found = asked.publish("quantiles", columns=["age"], epsilon=1, attacks=True).findings
        assert not found.findings
        assert "counts single combinations" in found.not_run["link"]
        left = asked.remaining["epsilon"]
        with pytest.raises(PolicyError, match="no counts of single combinations"):
            asked.publish("quantiles", columns=["age"], epsilon=2, require="link<0.5")
        assert asked.remaining["epsilon"] == left


@pytest.mark.parametrize(
    ("door", "written", "words"),
    [
        (HISTOGRAM, "homogeneity<0.5", "these are nobody's. Drop it, or require something of link"),
        (TWIN, "scoreboard<0.5", "these are nobody's"),
        (TWIN, "minimality<0.5", "these are nobody's"),
        (("publish", "histogram", "people", "--columns", "ill", "-o", "safe.csv"), "link<0.5",
         "needs a quasi-identifier besides 'ill'. Drop it, or name one in --columns"),
        (("publish", "histogram", "people", "--columns", "ill", "-o", "safe.csv"), "inference<0.5",
         "needs a second column besides 'ill'"),
        ((*TWIN, "--columns", "age,town"), "predict<0.5", "needs a sensitive column besides 'age'"),
        (("publish", "kdtree", "people", "--columns", "age", "-o", "safe.csv"), "copies<0.5",
         "no counts of single combinations"),
    ],
)  # fmt: skip
def test_what_can_never_be_shown_is_not_charged(
    vault: Path,
    capsys: pytest.CaptureFixture[str],
    door: tuple[str, ...],
    written: str,
    words: str,
) -> None:
    asked = (*door, "--epsilon", "1", "--vault", str(vault), "--require", written)
    told = refused(capsys, *asked)
    assert words in told
    assert "Nothing was charged." in told
    assert spent(vault) == 0


def test_attacks_on_other_data_are_refused_before_a_search(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sfumato.steward.anonymize.anonymize", None)  # which nobody asks
    told = refused(capsys, *ANONYMIZE, "4", "--require", "path<0.5")
    assert "names person, time, place; or person, time, lon, lat. Nothing was done." in told
    assert "source, target" in refused(capsys, *ANONYMIZE, "4", "--require", "neighbourhood<0.5")
    assert "--column " not in told


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"above", "quadtree", "adaptive-grid"}))
def test_it_is_known_before_the_charge_which_kinds_can_be_read_as_rows(kind: str) -> None:
    with sf.read("people.csv", "people.toml") as people:
        private = sf.protect(people, epsilon=8)
        plan = private.plan(kind, columns=["age"], epsilon=4)
        known = read_as_rows(plan.method.tables, ["age"])
        made = private.publish_planned(plan)
        assert (known is None) == (read_as_rows(made.tables, ["age"]) is None)
