"""What is required holds of every sensitive column, not of the one that is told first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.attack.finding import Finding, Findings, Rate, of_columns
from sfumato.attack.requirements import read_requirements
from sfumato.data.schema.column import Kind, Role
from sfumato.errors import ParameterError, PolicyError

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = (
    sf.Column("town", Kind.TEXT, Role.QUASI, sf.Values(("north", "south", "isles")), sf.Mask()),
    sf.Column("salary", Kind.TEXT, Role.SENSITIVE, sf.Values(("low", "high"))),
    sf.Column("ill", Kind.TEXT, Role.SENSITIVE, sf.Values(("flu", "gout"))),
)
SCHEMA = sf.Schema("people", COLUMNS)


TOWNS = ["north"] * 95 + ["south"] * 95 + ["isles"] * 10
PEOPLE = [
    {
        "town": town,
        "salary": "high" if n == 100 else "low",  # certain of half the people, release or not
        "ill": "gout" if town == "isles" else ("flu", "gout")[n % 2],  # certain by the release
    }
    for n, town in enumerate(TOWNS)
]


def test_a_value_that_is_certain_by_chance_is_still_certain() -> None:
    with sf.read(PEOPLE, SCHEMA) as held:
        found = held.anonymize(k=2, attacks=True).findings["homogeneity"]
        assert found.success.value == 0.05
        assert {one.column: one.success.value for one in found.columns} == {
            "salary": 0.525,
            "ill": 0.05,
        }
        for required in ("homogeneity<0.4", "homogeneity.high<0.5"):
            with pytest.raises(PolicyError, match=r"homogeneity(\.high)? of salary is"):
                held.anonymize(k=2, require=required)
        with pytest.raises(PolicyError, match=r"homogeneity\.excess of ill is"):
            held.anonymize(k=2, require="homogeneity.excess<=0")


def rates(salary: float, ill: float, *, guess: float) -> Findings:
    def one(right: float, baseline: float) -> Finding:
        share = Rate.share(right, 1000), Rate.share(baseline, 1000)
        return Finding("homogeneity", "knows", "People", *share, "nobody 2000")

    return Findings((of_columns({"salary": one(salary, guess), "ill": one(ill, 1)}),), {})


def test_the_headline_is_what_beats_chance_and_the_condition_is_on_all() -> None:
    found = rates(500, 30, guess=495)
    [told] = found.findings
    assert told.success.value == 0.03  # salary is nothing that a guess would not tell
    assert told.beats_baseline
    assert "Of salary it is 50.0 %, by a guess 49.5 %." in told.words()
    assert Findings.read(found.json()).findings[0].by_column == told.by_column
    [required] = read_requirements("homogeneity<0.05")
    assert "since homogeneity of salary is 50.0 % (0.5)" in (required.failure(found) or "")
    [beyond] = read_requirements("homogeneity.excess<0.02")
    assert "homogeneity.excess of ill is 2.90 %" in (beyond.failure(found) or "")
    assert read_requirements("homogeneity<0.6")[0].failure(found) is None


def test_an_attack_on_no_column_names_none() -> None:
    share = Rate.share(500, 1000), Rate.share(1, 1000)
    found = Findings((Finding("link", "knows", "People", *share, "nobody 2000"),), {})
    told = read_requirements("link<0.05")[0].failure(found)
    assert told == "'link<0.05' does not hold, since link is 50.0 % (0.5)."


def test_minimality_supposes_no_criterion_that_nobody_asked_for(tmp_path: Path) -> None:
    ends, kinds = ("low", "high"), ("flu", "gout")
    rows = [{**one, "salary": ends[n % 2], "ill": kinds[n % 2]} for n, one in enumerate(PEOPLE)]
    with sf.read(rows, SCHEMA) as held:
        with pytest.raises(
            PolicyError,
            match=r"minimality did not run: the release was made without l-diversity of salary",
        ):
            held.anonymize(k=2, require="minimality<0.99")
        held.anonymize(k=2).save(tmp_path / "safe.csv")
        with sf.read(tmp_path / "safe.csv", SCHEMA) as release:
            with pytest.raises(
                ParameterError, match="the release was made without l-diversity of salary"
            ):
                release.attack("minimality", original=held)
            assert release.attack("minimality", original=held, l=2) is not None
        asked = held.anonymize(k=2, l=2, sensitive="ill", require="minimality<0.99").findings
    assert [one.column for one in asked["minimality"].columns] == ["ill"]
    assert any(
        "salary: the release was made without l-diversity" in one
        for one in asked["minimality"].remarks
    )
