"""Continual feeds by windows, histograms and lists."""

from __future__ import annotations

from typing import Any

import pytest

import sfumato as sf
from sfumato.data.schema.column import Kind
from sfumato.errors import ParameterError


def add(vault: sf.Vault, method: str, **said: Any) -> Any:
    asked = {"column": "day", "every": "month", "epsilon": 4, "operator": "Ann", **said}
    return vault.feed_registry.add(
        method, None, family="continual", dataset="visits", method=method, **asked
    )


def test_each_period_is_told_by_itself_and_the_whole_is_charged_once(vault: sf.Vault) -> None:
    feed = add(vault, "w-event", window=2, caution=0)
    assert feed.whole_cost == {"epsilon": "4"}
    assert feed.in_words == "rows of visits in each month, any 2 hidden together"
    assert vault.feed_registry.work() == 7
    for one in vault.feed_registry.read("w-event"):
        days = (one.period.high - one.period.low).days + 1
        [found] = one.table.column("rows").to_pylist()
        assert abs(found - 30 * days) < 20 * one.error["rows"]["sd"]


def test_what_a_window_promises_stands_among_the_parameters() -> None:
    ward = sf.Column("ward", Kind.TEXT, domain=sf.Values(("east", "west")), nullable=False)
    private = sf.protect([{"ward": "east"}], sf.Schema("visits", (ward,)), epsilon=10)
    begun = private.stream("w-event", by="ward", window=2, epsilon=4)
    # One row is in one period, which measures 1/4 of a window's epsilon and releases 1/2 at most.
    assert begun.plan.parameters["method"]["epsilon"] == "16/3"
    assert begun.guarantee.parameters["epsilon"] == "4"
    told = begun.step([5000, 0])
    assert told.number == 1
    assert abs(told.values[0] - 5000) < 100


@pytest.mark.parametrize(
    ("method", "said", "words"),
    [
        ("histogram", {}, "for each city"),
        ("histogram", {"window": 2}, "in the last 2 of each month for each city"),
        ("top", {"top": 1}, "of the 1 largest city alone"),
        ("top", {"top": 1, "changes": 2}, "of at most 2 changes"),
    ],
    ids=str,
)
def test_histograms_and_lists_run_to_the_end_as_they_were_asked(
    vault: sf.Vault, method: str, said: Any, words: str
) -> None:
    feed = add(vault, method, by="city", epsilon=8, **said)
    assert feed.asked == vault.feed_registry.get(method).asked
    assert feed.asked["method"] == method
    assert words in feed.in_words
    expected = vault.feed_registry.expected(feed)
    assert expected is not None
    assert vault.feed_registry.work() == 7
    told = vault.feed_registry.read(method)
    assert len(told) == 7
    off = [told[place].error["rows"]["sd"] for place in (0, -1)]
    assert [expected["step 1"], expected["step 7"]] == pytest.approx(off)
    for one in told:
        north, south = one.table.column("rows").to_pylist()
        assert north > south
        assert (south == 0) is (method == "top"), "a list leaves out, a histogram does not"


def test_what_windows_hidden_together_are_off_by_is_not_known_ahead(vault: sf.Vault) -> None:
    assert vault.feed_registry.expected(add(vault, "w-event", window=2)) is None


@pytest.mark.parametrize(("method", "said"), [("histogram", {}), ("top", {"changes": 1})])
def test_one_figure_takes_no_histogram(vault: sf.Vault, method: str, said: Any) -> None:
    with pytest.raises(ParameterError) as refusal:
        add(vault, method, **said)
    assert refusal.value.code == "stream_invalid"
