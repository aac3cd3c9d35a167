"""Mechanisms are named with hyphens; underscores are read as well, and kept as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.methods import local
from sfumato.methods.local import rounds
from sfumato.methods.local.catalogue import ORACLES
from sfumato.methods.local.task_catalogue import TASKS

if TYPE_CHECKING:
    from pathlib import Path


def test_no_name_has_an_underscore() -> None:
    assert not [name for name in (*ORACLES, *TASKS, *local.names()) if "_" in name]


@pytest.mark.parametrize("name", ["k-ary", "k_ary"])
def test_either_spelling_makes_the_same(name: str) -> None:
    made = local.oracle(name, 4, epsilon=1)
    assert made.name == "k-ary"
    told = made.to_json()
    assert told["mechanism"] == "k_ary", "what reports begin with stays as it was"
    assert local.from_json({**told, "mechanism": name}) == made
    assert local.ranges(domain=8, epsilon=1, oracle=name).to_json()["oracle"] == "k_ary"


def test_reports_under_either_spelling_are_summed() -> None:
    old, new = local.oracle("k_ary", 4, epsilon=1), local.oracle("k-ary", 4, epsilon=1)
    assert (old.sketch(new.randomize([1, 2])) + new.sketch(old.randomize([3]))).n == 3


def test_other_mechanisms_are_read_by_either_spelling() -> None:
    made = local.planar_laplace((0, 0), step=1, cells=(4, 4), epsilon=1)
    for name in ("planar_laplace", "planar-laplace"):
        assert local.from_json({**made.to_json(), "mechanism": name}) == made


@pytest.mark.parametrize("name", ["k-ary", "k_ary"])
def test_a_round_is_named_with_a_hyphen(tmp_path: Path, name: str) -> None:
    made = rounds.new_round(
        tmp_path / "r.toml", "Well?", ("a", "b", "c"), epsilon=1, mechanism=name
    )
    assert made.mechanism == "k-ary"
    assert rounds.load_round(tmp_path / "r.toml") == made
    assert sf.Survey(tmp_path / "r.toml").randomize("a")


def test_a_round_that_was_signed_with_an_underscore_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_mechanism", lambda *_: "k_ary")
    made = rounds.new_round(tmp_path / "r.toml", "Well?", ("a", "b", "c"), epsilon=1)
    assert made.mechanism == "k_ary"
    assert rounds.load_round(tmp_path / "r.toml") == made
    assert sf.Survey(tmp_path / "r.toml").randomize("a")
