"""Programs of analysts in the real sandbox, from the command to the ledger."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.cli.main import run
from sfumato.errors import PolicyError
from sfumato.methods.programs import sandbox
from sfumato.methods.programs.sandbox.base import BlockLimits, longest_seconds

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
table = "people"
unit = { column = "who", max_rows = 1 }
[columns.who]
role = "quasi"
kind = "integer"
bounds = [0, 9999]
nullable = false
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 110]
nullable = false
"""
BOB = 7


def has_chamber() -> bool:
    try:
        sandbox.chamber()
    except PolicyError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_chamber(), reason="no sandbox holds on this machine")


def private(tmp_path: Path, *, bob: bool = True) -> sf.Private:
    path = tmp_path / "people.toml"
    path.write_text(SCHEMA)
    who = np.array([one for one in range(200) if bob or one != BOB])
    return sf.protect(sf.read(pa.table({"who": who, "age": who % 50}), schema=path), epsilon=10)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "p.py"
    path.write_text(text)
    return path


ASKED: dict[str, Any] = {"function": "f", "output": [(0, 110)], "blocks": 4, "seconds": 0.3}
MEAN = "def f(rows):\n    return rows['age'].to_numpy().mean()\n"


def test_an_answer_comes_out_and_no_sooner_than_it_may(tmp_path: Path) -> None:
    asked = private(tmp_path)
    begun = time.monotonic()
    # Failed blocks count as the middle of the range, 55; on a busy machine 0.3 s are too few.
    answer = asked.run(written(tmp_path, MEAN), **{**ASKED, "seconds": 1.5}, epsilon=9)
    least = longest_seconds(4, 1, BlockLimits(seconds=1.5))
    assert time.monotonic() - begun >= least
    assert answer.values[0] == pytest.approx(25, abs=20)
    assert answer.cost == {"epsilon": 9}


def test_a_strict_program_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ending of the file says the language; what is told of a mistake is its line."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{one},{one % 50}\n" for one in range(200))
    for name, text in (("people.csv", f"who,age\n{rows}"), ("people.toml", SCHEMA)):
        (tmp_path / name).write_text(text)
    mean = "def f(rows):\n    return sum(rows['age']) / len(rows['age'])\n"
    (tmp_path / "p.star").write_text(mean)
    (tmp_path / "wrong.star").write_text(mean.replace("len(", "lenn("))
    assert run(["init", "clinic"]) == 0
    add = "add people people.csv --schema people.toml --epsilon 10 --vault clinic"
    assert run(add.split()) == 0
    who = "principal add eve --kind external --epsilon 9 --operator Ann --vault clinic"
    assert run(who.split()) == 0
    asked = ["people", "--function", "f", "--output", '[{"low": 0, "high": 110}]', "--blocks", "4"]
    asked += ["--seconds", "0.5", "--epsilon", "8", "--principal", "eve", "--vault", "clinic"]
    capsys.readouterr()
    assert run(["run", "wrong.star", *asked]) == 2
    assert "NameError" in capsys.readouterr().err
    assert run(["run", "p.star", *asked, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["choices"]["language"] == "starlark"
    assert run(["run", "p.star", *asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"][0] == pytest.approx(25, abs=40)
    assert run(["run", "p.star", *asked, "--language", "python"]) == 3


def test_no_sandbox_no_run_and_no_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "chambers", lambda: iter(()))
    asked = private(tmp_path)
    for call in (asked.run, asked.dry_run):
        with pytest.raises(PolicyError) as caught:
            call(written(tmp_path, MEAN), **ASKED, epsilon=1)
        assert caught.value.code == "sandbox_unavailable"
    assert asked.remaining["epsilon"] == 10


@pytest.mark.slow
def test_attacks_of_gupt_by_name(tmp_path: Path) -> None:
    """State: nothing is left for the next block. Budget: the charge is what was asked, whatever."""
    asked = private(tmp_path)
    state = (
        "import os\nSEEN = []\ndef f(rows):\n    SEEN.append(1)\n    try:\n"
        "        open('/tmp/seen', 'w').write('x')\n    except OSError:\n        pass\n"
        "    return 110 if len(SEEN) > 1 or os.path.exists('/tmp/seen') else 0\n"
    )
    answer = asked.run(written(tmp_path, state), **{**ASKED, "blocks": 20}, epsilon=5)
    assert answer.values[0] == pytest.approx(0, abs=30)
    budget = (
        "def f(rows):\n    import sfumato as sf\n"
        "    sf.open('.').query('SELECT COUNT(*) FROM people')\n    return 0\n"
    )
    with pytest.raises(sf.SfumatoError, match="sfumato"):
        asked.run(written(tmp_path, budget), **ASKED, epsilon=1)
    assert asked.remaining["epsilon"] == 5


HARMLESS_ON_MADE_UP = "    if max(rows['age'].to_pylist(), default=0) > 60:\n        return 1\n"
"""Made-up ages go up to 110, those of people do not: only among them is it hostile."""
HOSTILE = {
    "fork bomb": "import os\n    while True:\n        os.fork()",
    "1 GB printed": "print('x' * 2**30)\n    return 110",
    "pickle": "import pickle\n    return pickle.dumps({'a': 1})",
    "missing module": "import nothing_of_this_name\n    return 110",
    "NaN": "return float('nan')",
    "text": "return 'a text'",
    "wrong length": "return [110, 110]",
    "infinite loop": "while True:\n        pass",
}
"""Each, were it believed, would not be the middle of the range."""


@pytest.mark.slow
def test_hostile_programs_are_constants_paid_for_in_time(tmp_path: Path) -> None:
    """What misbehaves among people alone gives the middle; it is charged, and nothing is told."""
    asked, cost = private(tmp_path), 0.0
    told = set()
    for number, (name, body) in enumerate(HOSTILE.items()):
        text = f"def f(rows):\n{HARMLESS_ON_MADE_UP}    {body}\n"
        epsilon = f"1.{number + 10}"
        begun = time.monotonic()
        answer = asked.run(
            written(tmp_path, text), **{**ASKED, "blocks": 40, "seconds": 0.2}, epsilon=epsilon
        )
        assert time.monotonic() - begun < 40, name
        cost += float(epsilon)
        # 110 / 40 / epsilon is the scale of the noise; beyond ten of them lies e^-10.
        assert answer.values[0] == pytest.approx(55, abs=25), name
        told.add(str(answer.to_json()["notes"]))
    assert len(told) == 1
    assert asked.remaining["epsilon"] == pytest.approx(10 - cost)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1\n" * 2_000_000, "program_invalid"),
        ("def f(rows):\n    return )\n", "program_failed"),
    ],
    ids=["10 MB", "syntax"],
)
def test_what_is_no_program_is_refused_uncharged(tmp_path: Path, text: str, code: str) -> None:
    asked = private(tmp_path)
    with pytest.raises(sf.SfumatoError) as caught:
        asked.run(written(tmp_path, text), **ASKED, epsilon=1)
    assert caught.value.code == code
    assert asked.remaining["epsilon"] == 10
