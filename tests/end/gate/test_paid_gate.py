"""The gate before what was paid for leaves: findings are the owner's, the charge stays."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.end.gate.gated import (
    ANONYMIZE,
    FOUND,
    HISTOGRAM,
    MARGINALS,
    TWIN,
    kept,
    names,
    refused,
    spent,
)

import sfumato as sf
from sfumato.attack.registry import ROW_ATTACKS
from sfumato.attack.release_check import read_as_rows
from sfumato.cli.main import run
from sfumato.errors import PolicyError
from sfumato.methods.publish.catalogue import KINDS_OF_ROWS
from sfumato.release.page_parts import FINDINGS_INCLUDED
from sfumato.vault.release_attacks import CHOSEN
from sfumato.vault.vault import open_vault


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
    assert names(told["attacks"]) == [*ROW_ATTACKS]
    assert names(kept()) == [*ROW_ATTACKS]
    beside = json.loads(Path("safe.csv.json").read_text())
    assert beside["guarantee"]["statement"].endswith(CHOSEN)
    assert beside["error"] is not None
    assert FOUND in Path("own.html").read_text()
    assert "Only the owner may see this page" in Path("own.html").read_text()
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
    assert "only the vault's owner may see them" in refused(capsys, *asked)
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
        files = f"{out}.holder.json and own.html"
        assert kept == f"Keep {files} to yourself: they reveal facts about the original."
        assert Path(f"{out}.holder.json").exists()


def test_findings_of_a_private_release_travel_only_where_that_is_asked_for(
    vault: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--epsilon", "1", "--vault", str(vault), "--publish-findings", "--report", "all.html")
    assert run([*HISTOGRAM, *asked]) == 0
    told = json.loads(Path("safe.csv.json").read_text())["guarantee"]
    assert names(told["parameters"]["attacks"]) == [*ROW_ATTACKS]
    assert any("the guarantee does not cover them" in one for one in told["parameters"]["notes"])
    assert not told["statement"].endswith(CHOSEN)  # nothing was required
    page = Path("all.html").read_text()
    assert FOUND in page
    assert page.count(FINDINGS_INCLUDED) == 2
    assert "everything on it was released" not in page
    assert "published with the release" in capsys.readouterr().out.splitlines()[-1]


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
        (HISTOGRAM, "homogeneity<0.5", "these are synthetic. Leave it out, or require one of link"),
        (TWIN, "scoreboard<0.5", "these are synthetic"),
        (TWIN, "minimality<0.5", "these are synthetic"),
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
    monkeypatch.setattr("sfumato.anonymize.pipeline.anonymize", None)  # which nobody asks
    told = refused(capsys, *ANONYMIZE, "4", "--require", "path<0.5")
    assert "names person, time, place; or person, time, lon, lat. Nothing was done." in told
    assert "source, target" in refused(capsys, *ANONYMIZE, "4", "--require", "neighbourhood<0.5")
    assert "--column " not in told


@pytest.mark.parametrize("kind", sorted({*KINDS_OF_ROWS} - {"above", "quadtree", "adaptive-grid"}))
def test_it_is_known_before_the_charge_which_kinds_can_be_read_as_rows(kind: str) -> None:
    with sf.read("people.csv", "people.toml") as people:
        private = sf.protect(people, epsilon=8)
        plan = private.plan(kind, columns=["age"], epsilon=4)
        known = read_as_rows(plan.method.tables, ["age"])
        made = private.publish_planned(plan)
        assert (known is None) == (read_as_rows(made.tables, ["age"]) is None)
