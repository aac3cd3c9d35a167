"""Which candidates no other beats, and which attack tells how private one is."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.attack.comparison.page import summary
from sfumato.attack.comparison.result import PROMISE, Candidate, Comparison
from sfumato.attack.comparison.utility import Utility
from sfumato.attack.finding import Finding, Findings, Rate
from sfumato.errors import ParameterError


def finding(attack: str, right: int, guess: int = 0, control: int | None = None) -> Finding:
    return Finding(
        attack=attack,
        attacker="a",
        meaning="m",
        success=Rate.share(right, 1000),
        baseline=Rate.share(guess, 1000),
        control=None if control is None else Rate.share(control, 1000),
        reference="r",
    )


def candidate(name: str, right: int | None, kept: float, **more: Any) -> Candidate:
    found = () if right is None else (finding("link", right),)
    utility = Utility(kept, kept - 0.1, min(kept + 0.1, 1), 0.1, 0.2, 0.1, 9)
    fields: dict[str, Any] = {"findings": Findings(found, {}), "utility": utility, **more}
    return Candidate(name=name, path=f"{name}.csv", kind="rows", **fields)


def compared(*candidates: Candidate) -> Comparison:
    return Comparison(candidates, 10, ("age",))


def test_who_is_worse_in_both_is_beaten() -> None:
    found = compared(candidate("a", 500, 0.9), candidate("b", 100, 0.5), candidate("c", 200, 0.4))
    assert [one.name for one in found.frontier] == ["b", "a"]
    assert found["b"].beats(found["c"])
    assert not found["a"].beats(found["c"])
    assert [one["frontier"] for one in found.json()["candidates"]] == [True, True, False]


def test_equals_do_not_beat_each_other() -> None:
    assert len(compared(candidate("a", 5, 0.5), candidate("b", 5, 0.5)).frontier) == 2


def test_no_epsilon_is_given_up() -> None:
    """What nobody tried is what an epsilon is for: better figures do not make up for it."""
    strict = candidate("strict", 20, 0.5, epsilon=0.1, delta=0.0)
    loose = candidate("loose", 10, 0.9, epsilon=1.0, delta=0.0)
    none = candidate("none", 10, 0.9)
    assert not loose.beats(strict)
    assert not none.beats(strict)
    assert loose.beats(candidate("worse", 20, 0.5))
    both = compared(strict, loose)
    assert [one.name for one in both.frontier] == ["loose", "strict"]
    words = summary(both)[0]  # the second keeps less and is found out more: it is not more useful
    assert "utility): loose, strict. Attackers learn least from the first." in words
    assert "most useful" not in words


def test_what_could_not_be_attacked_is_not_said_to_be_beaten() -> None:
    assert (
        "as good as every other"
        in summary(compared(candidate("a", 5, 0.9), candidate("b", 9, 0.5)))[0]
    )
    silent = candidate("silent", None, 0.1)
    assert not any(
        "every other" in one for one in summary(compared(candidate("a", 5, 0.9), silent))
    )


def test_what_is_known_of_anybody_counts_only_beside_others() -> None:
    told = Findings((finding("inference", 900, 100), finding("link", 50)), {})
    one = candidate("a", 0, 1, findings=told).exposure
    assert one is not None
    assert one.attack == "link"
    told = Findings((finding("inference", 900, 100, control=200), finding("link", 50)), {})
    one = candidate("a", 0, 1, findings=told).exposure
    assert one is not None
    assert one.attack == "inference"
    assert one.risk == pytest.approx(0.875)
    assert one.low < one.risk < one.high


def test_a_belief_that_grows_finds_nobody_out() -> None:
    told = Findings((finding("skewness", 900), finding("link", 50)), {})
    one = candidate("a", 0, 1, findings=told).exposure
    assert one is not None
    assert one.attack == "link"


def test_the_attack_that_surely_gets_most_is_told() -> None:
    """Of few people nothing is sure, though all of them are found."""
    few = Finding("copies", "a", "m", Rate.share(1, 1), Rate.share(0, 1), "r")
    told = Findings((few, finding("link", 300)), {})
    one = candidate("a", 0, 1, findings=told).exposure
    assert one is not None
    assert one.attack == "link"


def test_what_reaches_the_guess_counts_as_nothing_with_a_bar_up_to_what_it_may_be() -> None:
    few = Finding("copies", "a", "m", Rate.share(2, 5), Rate.share(1, 5), "r")
    one = candidate("a", 0, 1, findings=Findings((few,), {})).exposure
    assert one is not None
    assert (one.risk, one.low) == (0, 0)
    assert one.high > few.risk > 0


def test_without_an_attack_the_promise_is_told() -> None:
    one = candidate("a", None, 0.5, epsilon=1.0, delta=0.0).exposure
    assert one is not None
    assert (one.attack, one.low) == (PROMISE, 0)
    assert one.risk == pytest.approx(0.4621, abs=1e-4)
    unknown = compared(candidate("a", None, 0.5))
    assert unknown.frontier == ()
    assert unknown.json()["candidates"][0]["privacy"] is None
    with pytest.raises(ParameterError, match="nothing to draw"):
        unknown.plot()


def test_it_shows_itself() -> None:
    found = compared(candidate("a", 500, 0.9), candidate("b", 100, 0.5))
    assert repr(found) == "<Comparison: 2 candidates, best: b, a>"
    assert "50.0" in (found._repr_html_() or "")
    assert found.plot()[0].svg.startswith("<svg")
    assert [one.name for one in found] == ["a", "b"]
    with pytest.raises(KeyError):
        found["z"]
