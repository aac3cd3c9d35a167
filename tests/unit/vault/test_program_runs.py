"""Programs on blocks by the vault's own door: tried on made-up rows, charged, told nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.methods.programs.chambers import OpenChamber

import sfumato as sf
from sfumato.methods.programs import request
from sfumato.vault.program_runs import ProgramAnswer
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
table = "people"
unit = { column = "who", max_rows = 2 }
[columns.who]
role = "identifier"
kind = "integer"
nullable = false
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 110]
[columns.cost]
role = "sensitive"
kind = "real"
bounds = [0, 50]
"""
AGES: dict[str, Any] = {"output": [(0, 110)], "epsilon": "0.5", "blocks": 20}


def mean_age(rows: Any) -> float:
    ages = [one for one in rows["age"].to_pylist() if one is not None]
    return float(sum(ages) / len(ages))


@pytest.fixture
def table(tmp_path: Path) -> pa.Table:
    (tmp_path / "p.toml").write_text(SCHEMA)
    rng = np.random.default_rng(1)
    ages = rng.integers(30, 50, 4000)
    return pa.table({"who": np.arange(4000) // 2, "age": ages, "cost": rng.uniform(0, 50, 4000)})


@pytest.fixture
def private(table: pa.Table, tmp_path: Path) -> sf.Private:
    return sf.protect(sf.read(table, schema=tmp_path / "p.toml"), epsilon=9)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> OpenChamber:
    made = OpenChamber()
    monkeypatch.setattr(request, "chamber", lambda _choice: made)
    monkeypatch.setattr(request, "_wait_until", lambda _moment: None)
    return made


def code_of(call: Any, *positional: Any, **asked: Any) -> str:
    with pytest.raises(sf.SfumatoError) as caught:
        call(*positional, **asked)
    assert "\n" not in caught.value.message
    return caught.value.code


def test_an_answer_has_the_keys_of_the_contract(private: sf.Private, room: OpenChamber) -> None:
    answer = private.run(mean_age, **{**AGES, "epsilon": 5})
    assert isinstance(answer, ProgramAnswer)
    assert answer.values[0] == pytest.approx(40, abs=10)
    told = answer.to_json()
    expected = {"values", "error", "blocks", "cost", "remaining", "receipt", "notes"}
    assert told.keys() == expected
    assert answer.error is not None
    stated = answer.error["value"]
    assert told["error"] == answer.errors
    assert answer.errors == [{"sd": stated["sd"][0], "bound95": stated["bound95"][0]}]
    assert told["blocks"] == 20 == len(room.outputs)
    assert room.tables[0].column_names == ["age", "cost"]  # identifiers are not shown unasked
    again = private.run(mean_age, **{**AGES, "epsilon": 5})
    assert (again.values, again.charged) == (answer.values, False)


def test_one_person_less_changes_the_outputs_of_their_blocks_alone(
    table: pa.Table, tmp_path: Path, room: OpenChamber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "random_key", lambda _entropy: "the same salt")
    few = table.slice(0, 60)
    for repeats in (1, 3):
        outputs = []
        for rows in (few, *(few.filter(pa.compute.not_equal(few["who"], who)) for who in range(3))):
            private = sf.protect(sf.read(rows, schema=tmp_path / "p.toml"), epsilon=9)
            private.run(mean_age, output=[(0, 110)], epsilon=1, blocks=6, repeats=repeats)
            outputs.append(room.outputs)
        for fewer in outputs[1:]:
            changed = sum(one != other for one, other in zip(outputs[0], fewer, strict=True))
            assert 1 <= changed <= repeats


def test_one_person_less_changes_their_blocks_of_a_strict_program_alone(
    table: pa.Table, tmp_path: Path, room: OpenChamber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where their rows make the block fail, or reach the limit of steps."""
    monkeypatch.setattr(request, "random_key", lambda _entropy: "the same salt")
    path = tmp_path / "p.star"
    path.write_text(
        "def f(rows):\n"
        "    who = rows['who'] if len(rows['who']) < 100 else []\n"  # made-up rows are more
        "    if 0 in who:\n        fail('here')\n"
        "    for turn in range(10000000 if 1 in who else 1):\n        pass\n"
        "    return sum([age for age in rows['age'] if age != None]) / len(rows['age'])\n"
    )
    few = table.slice(0, 60)
    asked: dict[str, Any] = {"output": [(0, 110)], "epsilon": 1, "blocks": 6, "function": "f"}
    for repeats in (1, 3):
        outputs = []
        for rows in (few, *(few.filter(pa.compute.not_equal(few["who"], who)) for who in range(3))):
            private = sf.protect(sf.read(rows, schema=tmp_path / "p.toml"), epsilon=9)
            private.run(path, **asked, repeats=repeats, columns=["who", "age"])
            outputs.append(room.outputs)
        assert 1 <= outputs[0].count(None) <= 2 * repeats
        for fewer in outputs[1:]:
            changed = sum(one != other for one, other in zip(outputs[0], fewer, strict=True))
            assert changed <= repeats


def test_what_fails_on_made_up_rows_is_refused_by_the_class_of_its_error_uncharged(
    private: sf.Private, room: OpenChamber, tmp_path: Path
) -> None:
    path = tmp_path / "p.py"
    for text, words in (
        ("def f(rows:\n", "SyntaxError"),
        ("import nothing_of_this_name\ndef f(rows): return 1", "ModuleNotFoundError"),
        ("def f(rows): return rows['agee']", "KeyError"),
        ("def g(rows): return 1", "KeyError"),
        ("def f(rows): return 'text'", "ValueError"),
        ("def f(rows): return [1, 2]", "AssertionError"),
    ):
        path.write_text(text)
        for call in (private.run, private.dry_run):
            with pytest.raises(sf.SfumatoError, match=words) as caught:
                call(path, function="f", **AGES)
            assert caught.value.code == "program_failed"
    assert private.remaining["epsilon"] == 9
    assert room.outputs == []


def test_failures_on_real_rows_are_constants_and_untold(
    private: sf.Private, room: OpenChamber, tmp_path: Path
) -> None:
    """Made-up ages go up to 110, real ones do not: what fails on these alone is not seen."""
    path = tmp_path / "p.py"
    path.write_text("def f(rows):\n    assert max(a or 0 for a in rows['age'].to_pylist()) > 60\n"
                    "    return 7")  # fmt: skip
    answer = private.run(path, function="f", **AGES)
    assert room.outputs == [None] * 20
    assert answer.values[0] == pytest.approx(55, abs=120)
    assert "fail" not in str(answer.to_json())


def test_a_dry_run_tells_price_error_and_doubts_and_spends_nothing(
    private: sf.Private, room: OpenChamber
) -> None:
    forecast = private.dry_run(mean_age, output=[(0, 10)], epsilon="0.5")
    assert private.remaining["epsilon"] == 9
    told = forecast.text()
    assert "Cost: epsilon 0.5" in told
    assert "Expected error, output 1" in told
    assert "outside of its range 0 to 10" in told
    assert "fails where a block has no rows" in told
    assert "100 blocks" in told
    assert forecast.to_json()["blocks"] == 100
    assert room.outputs == []


def test_blocks_follow_from_what_is_declared(private: sf.Private, tmp_path: Path) -> None:
    from sfumato.vault.families import FAMILIES

    def blocks(asking: sf.Private, **asked: Any) -> int:
        prepared: Any = asking.prepare(
            FAMILIES["run"],
            program="def f(): ...",
            function="f",
            output=[(0, 1)],
            epsilon=1,
            **asked,
        )
        found: int = prepared.cut.blocks
        return found

    assert blocks(private) == 100
    assert blocks(private, people=10_000) == round(10_000**0.4) == 40
    assert blocks(private, people=10_000, repeats=5) == 200
    schema = tmp_path / "declared.toml"
    schema.write_text(SCHEMA.replace("unit = {", "constraints = [{ rows = 20000 }]\nunit = {"))
    frame = pa.table({"who": [1], "age": [1], "cost": [1.0]})
    declared = sf.protect(sf.read(frame, schema=schema), epsilon=9)
    assert blocks(declared) == 40  # at least 10,000 people by two rows each
    assert blocks(declared, blocks=7) == 7


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"blocks": 0}, "parameter_out_of_range"),
        ({"blocks": 1}, "parameter_out_of_range"),
        ({"blocks": 20, "people": 19}, "parameter_out_of_range"),
        ({"blocks": 10**6}, "parameter_out_of_range"),
        ({"blocks": 10, "repeats": 3}, "parameter_out_of_range"),
        ({"repeats": 0}, "parameter_out_of_range"),
        ({"output": []}, "program_output_invalid"),
        ({"output": [(3, 2)]}, "bounds_invalid"),
        ({"aggregate": "max"}, "choice_unknown"),
        ({"ranges": "lose"}, "choice_unknown"),
        ({"ranges": "helper"}, "options_conflict"),
        ({"helper": "f"}, "options_conflict"),
        ({"ranges": "helper", "helper": "f", "columns": "who"}, "column_unsuitable"),
        ({"columns": "agee"}, "column_unknown"),
        ({"columns": ["age", "age"]}, "columns_invalid"),
        ({"seconds": 0}, "parameter_out_of_range"),
        ({"seconds": 0.05, "blocks": 1}, "parameter_out_of_range"),
        ({"seconds": "soon"}, "parameter_type_wrong"),
        ({"epsilon": 0}, "parameter_out_of_range"),
    ],
)
def test_refusals_are_one_line_and_cost_nothing(
    private: sf.Private, asked: dict[str, Any], code: str
) -> None:
    assert code_of(private.run, mean_age, **{**AGES, **asked}) == code
    assert private.remaining["epsilon"] == 9


def test_who_is_not_the_owner_has_an_hour_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(SCHEMA)
    (tmp_path / "p.csv").write_text("who,age,cost\n1,30,2.5\n")
    with create_vault(tmp_path / "v") as vault:
        vault.add("people", tmp_path / "p.csv", schema=tmp_path / "p.toml", epsilon=9)
        vault.people.add("ext", "external", population="people", epsilon=5, operator="me")
        asked: dict[str, Any] = {**AGES, "blocks": 5000, "seconds": 1}
        private = vault.private("people", principal="ext")
        assert code_of(private.dry_run, mean_age, **asked) == "problem_too_large"


def test_who_did_not_agree_is_in_no_block(tmp_path: Path, room: OpenChamber) -> None:
    (tmp_path / "p.toml").write_text(SCHEMA)
    rows = [f"{row // 2},{30 + row},0.5" for row in range(40)]
    (tmp_path / "p.csv").write_text("\n".join(["who,age,cost", *rows]) + "\n")
    with create_vault(tmp_path / "v") as vault:
        place = tmp_path / "p.csv", tmp_path / "p.toml"
        vault.add("people", *place, epsilon=9, purposes=["care"])
        for who in range(5):
            vault.consent("people").give(who, "care", operator="me")
        assert code_of(vault.private("people").run, mean_age, **AGES) == "parameter_missing"
        private = vault.private("people", purpose="care")
        private.run(mean_age, **{**AGES, "blocks": 5})
        held = [age for one in room.tables for age in one["age"].to_pylist()]
        assert sorted(held) == list(range(30, 40))
        vault.consent("people").withdraw(3, "care", operator="me")
        private.run(mean_age, **{**AGES, "blocks": 6})
        held = [age for one in room.tables for age in one["age"].to_pylist()]
        assert sorted(held) == [30, 31, 32, 33, 34, 35, 38, 39]


def test_a_helper_narrows_the_range(private: sf.Private, room: OpenChamber, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(
        "def f(rows):\n    found = [a for a in rows['age'].to_pylist() if a is not None]\n"
        "    return sum(found) / len(found)\n"
        "def ranges(found):\n    return found['low'][0].as_py(), found['high'][0].as_py()\n"
    )
    asked: dict[str, Any] = {"function": "f", "helper": "ranges", "ranges": "helper"}
    answer = private.run(path, **asked, output=[(0, 110)], epsilon=8, blocks=20, columns="age")
    assert 30 <= answer.table["low"][0].as_py() < answer.table["high"][0].as_py() <= 50
    assert answer.values[0] == pytest.approx(40, abs=5)
    assert len(room.outputs) == 20


def test_the_answer_never_leaves_early_and_late_ones_at_whole_seconds() -> None:
    begun = time.monotonic()
    request._wait_until(begun + 0.2)
    assert 0.2 <= time.monotonic() - begun < 1
    begun = time.monotonic()
    request._wait_until(begun - 0.8)
    assert 0.19 <= time.monotonic() - begun < 0.9
