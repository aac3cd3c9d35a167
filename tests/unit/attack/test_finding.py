"""Rates with their intervals, and findings as they are told."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.attack.finding import Finding, Findings, Rate, clopper_pearson, percent


@pytest.mark.parametrize(
    ("right", "tried", "low", "high"),
    [
        (0, 10, 0.0, 0.30850),  # the figures of a table of Clopper and Pearson's intervals
        (10, 10, 0.69150, 1.0),
        (1, 20, 0.00127, 0.24873),
        (15, 30, 0.31297, 0.68703),
        (500_000, 1_000_000, 0.49902, 0.50098),
    ],
)
def test_intervals_are_those_of_clopper_and_pearson(
    right: int, tried: int, low: float, high: float
) -> None:
    assert clopper_pearson(right, tried) == pytest.approx((low, high), abs=1e-5)


def test_intervals_agree_with_another_beta_function() -> None:
    special = pytest.importorskip("scipy.special")
    for right, tried in ((1, 3), (7, 9), (40, 41), (3, 10_000), (9_990, 10_000), (77, 1_000)):
        low, high = clopper_pearson(right, tried)
        assert low == pytest.approx(special.betaincinv(right, tried - right + 1, 0.025), rel=1e-9)
        if right < tried:
            upper = special.betaincinv(right + 1, tried - right, 0.975)
            assert high == pytest.approx(upper, rel=1e-9)


def test_an_expectation_lies_in_the_interval_of_both_its_neighbours() -> None:
    low, high = clopper_pearson(2.5, 10)
    assert low == clopper_pearson(2, 10)[0]
    assert high == clopper_pearson(3, 10)[1]
    assert clopper_pearson(0, 0) == (0, 1)


def finding(success: float, baseline: float, control: float | None = None) -> Finding:
    return Finding(
        attack="link",
        attacker="knows a list",
        meaning="Which row is a person's",
        success=Rate.share(success, 100),
        baseline=Rate.share(baseline, 100),
        control=None if control is None else Rate.share(control, 100),
        reference="nobody 2000",
        victims=3,
        examples=[{"name": "Ann"}],
    )


def test_risk_is_what_goes_beyond_people_who_are_not_there() -> None:
    found = finding(80, 10, 60)
    assert found.risk == pytest.approx(0.5)
    assert found.excess == pytest.approx(70 / 90)
    assert found.json()["risk_over"] == "control"
    assert finding(80, 10).risk == pytest.approx(70 / 90)
    assert finding(80, 10).json()["risk_over"] == "baseline"
    assert finding(5, 10).risk == 0
    assert finding(100, 100).risk == 0


def test_json_has_what_the_contract_names_and_examples_can_stay_behind() -> None:
    told = finding(80, 10).json()
    named = {"attack", "success", "interval", "baseline", "risk", "victims", "examples"}
    assert named <= told.keys()
    assert told["interval"][0] < told["success"] < told["interval"][1]
    assert told["examples"] == [{"name": "Ann"}]
    assert finding(80, 10).json(examples=False)["examples"] == []


def test_cards_name_nobody() -> None:
    found = finding(80, 10)
    assert repr(found) == "<Finding: link, 80.0 % right, by a guess 10.0 %, 3 victims>"
    assert "Ann" not in (found._repr_html_() or "Ann")
    every = Findings((found, finding(10, 10)), {"other": "it needs a list."})
    assert repr(every) == "<Findings: 2 attacks, 1 better than a guess>"
    assert every["link"] is found
    assert every.json()["not_run"] == [{"attack": "other", "reason": "it needs a list."}]
    assert "it needs a list." in (every._repr_html_() or "")


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0 %"), (1, "100 %"), (0.5, "50.0 %"), (0.051, "5.10 %"), (0.999, "99.90 %")],
)
def test_shares_in_words(share: float, words: str) -> None:
    assert percent(share) == words


def test_findings_are_read_as_they_were_written() -> None:
    share = Rate.share(3, 10)
    told: dict[str, Any] = {
        "attacker": "asks",
        "meaning": "People hit",
        "reference": "Somebody 2000",
    }
    one = Finding(attack="a", success=share, baseline=share, control=share, victims=3, **told)
    other = Finding(attack="b", success=share, baseline=share, remarks=["Few."], **told)
    found = Findings((one, other), {"c": "it does not fit."})
    assert Findings.read(found.json()).json() == found.json()
    with pytest.raises(ValueError, match="no findings"):
        Findings.read({"findings": [{}], "not_run": []})
