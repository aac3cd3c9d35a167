"""The gate before release: what attackers still get of a table is known before it leaves."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.end.gate.gated import (
    ANONYMIZE,
    FOUND,
    HISTOGRAM,
    TWIN,
    kept,
    names,
    refused,
)

import sfumato as sf
from sfumato.attack.registry import CLASS_ATTACKS
from sfumato.cli.main import run
from sfumato.errors import ParameterError, PolicyError
from sfumato.release.page_parts import FINDINGS_INCLUDED

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_table_is_attacked_before_it_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ANONYMIZE, "4", "--report", "own.html", "--public-report", "all.html"]) == 0
    told_last = capsys.readouterr().out
    assert FOUND in told_last
    assert "Keep safe.csv.holder.json and own.html to yourself: they reveal" in told_last
    told = kept()
    assert names(told) == [*CLASS_ATTACKS]
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
    assert "definetti did not run: the release is not an anatomy" in told


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
    assert "Leave out --no-attacks" in told


def test_findings_travel_only_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ANONYMIZE, "4", "--publish-findings", "--public-report", "all.html"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(
        "Keep safe.csv.holder.json to yourself: it reveals facts about the original. The attack"
    )
    assert "published with the release" in last
    told = json.loads(Path("safe.csv.json").read_text())["guarantee"]["parameters"]
    assert names(told["attacks"]) == [*CLASS_ATTACKS]
    assert any("computed from the original rows" in one for one in told["notes"])
    page = Path("all.html").read_text()
    assert FOUND in page
    assert page.count(FINDINGS_INCLUDED) == 2  # above all, and below
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
    monkeypatch.setattr("sfumato.attack.release_check.SAMPLE", 50)
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
    monkeypatch.setattr("sfumato.attack.release_check._count_original", lambda _decided: None)
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
                with pytest.raises(ParameterError, match="Leave out attacks=False, or"):
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
