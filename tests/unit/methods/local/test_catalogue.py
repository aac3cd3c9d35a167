"""Mechanisms by name and from JSON, in either spelling of their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.local import rounds
from sfumato.methods.local.catalogue import MEANS, ORACLES, RANGES, TASKS
from sfumato.methods.local.longitudinal import Longitudinal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

local = sf.local
MADE: dict[str, Callable[[], Any]] = {
    "hybrid": lambda: local.mean(bounds=(0, 100), epsilon=1),
    "piecewise": lambda: local.mean("piecewise", bounds=("-0.5", "1.5"), epsilon=2, cells=64),
    "duchi": lambda: local.mean("duchi", bounds=(0, 1), epsilon=local.log(3), columns=["a", "b"]),
    "hierarchical": lambda: local.ranges(domain=100, epsilon=1, fanout=5, oracle="hadamard"),
    "haar": lambda: local.ranges("haar", domain=["a", "b", "c"], epsilon=1),
    "marginals": lambda: local.marginals(["a", "b", "c"], epsilon=1, width=3),
    "heavy-hitters": lambda: local.heavy_hitters(bits=16, epsilon=2, text=True),
    "planar-laplace": lambda: local.planar_laplace((0, 5), step=2, cells=(9, 9), epsilon="0.1"),
}


def test_every_mechanism_is_made_here() -> None:
    assert set(MADE) == set(TASKS)
    assert set(MEANS) | set(RANGES) < set(TASKS)


@pytest.mark.parametrize("name", MADE)
def test_a_mechanism_is_told_and_made_again(name: str) -> None:
    oracle = MADE[name]()
    again = local.from_json(oracle.to_json())
    assert type(again) is type(oracle)
    assert again == oracle
    assert hash(again) == hash(oracle)
    assert again.layout == oracle.layout
    assert len(repr(oracle)) <= 100
    assert oracle._repr_html_()


@pytest.mark.parametrize("name", MADE)
def test_nobody_reports_nothing(name: str) -> None:
    oracle = MADE[name]()
    widths = {"duchi": 2, "marginals": 3, "planar-laplace": 2}
    nobody: Any = np.zeros((0, widths[name])) if name in widths else []
    assert len(oracle.randomize(nobody)) == 0
    if name != "heavy-hitters":
        assert oracle.empty().n == 0
    with pytest.raises(sf.SfumatoError) as raised:
        (oracle.find if name == "heavy-hitters" else oracle._own)(
            oracle.randomize(nobody) if name == "heavy-hitters" else oracle.empty()
        )
    assert raised.value.code == "estimate_not_possible"


@pytest.mark.parametrize("name", ["hybrid", "duchi", "planar-laplace"])
def test_missing_amounts_of_arrow_are_refused(name: str) -> None:
    for values in (pa.array([None, 1.0]), pa.table({"a": [1, None], "b": [0, 1]})):
        with pytest.raises(sf.SfumatoError) as raised:
            MADE[name]().randomize(values)
        assert raised.value.code == "parameter_type_wrong"


@pytest.mark.parametrize("name", MADE)
def test_sketches_and_reports_of_another_mechanism_are_refused(name: str) -> None:
    other = MADE["haar" if name != "haar" else "hybrid"]()
    oracle = MADE[name]()
    values = ["a", "b"] if name != "haar" else [1.0]
    reports = other.randomize(values)
    for call in (oracle.sketch, getattr(oracle, "find", oracle.sketch)):
        with pytest.raises(sf.SfumatoError) as raised:
            call(reports)
        assert raised.value.code == "round_differs"
    with pytest.raises(sf.SfumatoError):
        oracle.read(reports.to_bytes())


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "name": ("choice_unknown", lambda: local.mean("median", bounds=(0, 1), epsilon=1)),
    "name of ranges": ("choice_unknown", lambda: local.ranges("hybrid", domain=4, epsilon=1)),
    "option": ("option_unknown", lambda: local.mean(bounds=(0, 1), epsilon=1, bins=3)),
    "missing": ("parameter_missing", lambda: local.from_json({"mechanism": "duchi", "version": 1})),
    "version": ("file_malformed", lambda: local.from_json({"mechanism": "duchi", "version": 2})),
    "list": ("file_malformed", lambda: local.from_json({"mechanism": ["duchi"], "version": 1})),
    "nothing": ("file_malformed", lambda: local.from_json(None)),
    "bounds": ("bounds_invalid", lambda: local.mean(bounds=(1, 0), epsilon=1)),
    "no pair": ("parameter_type_wrong", lambda: local.mean(bounds=5, epsilon=1)),
    "epsilon": ("parameter_type_wrong", lambda: local.mean(bounds=(0, 1), epsilon="much")),
    "too large": ("parameter_out_of_range", lambda: local.mean(bounds=(0, 1), epsilon=21)),
    "names twice": (
        "parameter_out_of_range",
        lambda: local.mean("duchi", bounds=(0, 1), epsilon=1, columns=["a", "a"]),
    ),
    "a truth": (
        "parameter_type_wrong",
        lambda: local.mean("duchi", bounds=(0, 1), epsilon=1, columns=True),
    ),
    "none": (
        "parameter_out_of_range",
        lambda: local.mean("duchi", bounds=(0, 1), epsilon=1, columns=0),
    ),
    "values": ("parameter_out_of_range", lambda: local.ranges(domain=(1 << 20) + 1, epsilon=1)),
    "level": ("choice_unknown", lambda: local.ranges(domain=9, epsilon=1, oracle="rappor")),
    "length": ("parameter_out_of_range", lambda: MADE["haar"]().variance(10, 4)),
    "no length": ("parameter_out_of_range", lambda: MADE["hierarchical"]().variance(10, 0)),
    "nobody": ("parameter_out_of_range", lambda: MADE["hybrid"]().variance(0)),
    "most": (
        "parameter_out_of_range",
        lambda: MADE["heavy-hitters"]().find(MADE["heavy-hitters"]().randomize(["a"]), most=0),
    ),
    "no reports": (
        "parameter_out_of_range",
        lambda: Longitudinal(3, epsilon=1, forever=2).channel(reports=0),
    ),
    "no points": ("parameter_out_of_range", lambda: local.contrast(["1"], [10, 100])),
    "no list": ("parameter_type_wrong", lambda: local.contrast(1)),  # type: ignore[arg-type]
    "no estimate": (
        "parameter_type_wrong",
        lambda: local.adjust(pa.table({"share": [0.5]}), "simplex"),
    ),
    "empty estimate": (
        "parameter_type_wrong",
        lambda: local.adjust(
            pa.table({name: pa.array([], pa.float64()) for name in ("value", "share", "sd")}),
            "simplex",
        ),
    ),
    "no sketch": (
        "parameter_type_wrong",
        lambda: local.most_likely(local.oracle("k-ary", 3, epsilon=1), None),  # type: ignore[arg-type]
    ),
    "no oracle": (
        "parameter_type_wrong",
        lambda: local.most_likely(MADE["hybrid"](), MADE["hybrid"]().empty()),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused_in_words(what: str) -> None:
    code, call = REFUSED[what]
    with pytest.raises(sf.SfumatoError) as raised:
        call()
    assert raised.value.code == code
    assert raised.value.message.endswith(".")


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
