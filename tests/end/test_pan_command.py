"""`sfumato pan` from the command line: what it prints, and how it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sfumato.cli.main import run
from sfumato.stream.pan_file import load

NEW = ("pan", "new", "seen.pan", "--people", "members.csv", "--column", "member", "--epsilon")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("members.csv").write_text("member\n" + "".join(f"{one}\n" for one in range(2000)))
    Path("monday.csv").write_text("member\n" + "".join(f"{one}\n" for one in range(900)) + "\n\n")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_from_a_roll_to_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    made = told(capsys, *NEW, "1.5", "--output-epsilon", "4", "--reads", "2")
    assert made["people"] == made["sample"] == 2000
    assert (made["epsilon"], made["output_epsilon"], made["reads_left"]) == (1.5, 4, 2)
    assert told(capsys, "pan", "update", "seen.pan", "monday.csv")["updates"] == 1
    answer = told(capsys, "pan", "read", "seen.pan")
    assert answer["share"] == pytest.approx(0.45, abs=6 * answer["sd"])
    assert answer["reads_left"] == 1
    assert told(capsys, "pan", "read", "seen.pan") == answer
    assert run(["pan", "read", "seen.pan"]) == 0
    said = capsys.readouterr().out
    assert "of 2,000 people came: about" in said
    assert "1 more answer" in said


def test_nothing_that_is_said_of_an_update_depends_on_who_came(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told(capsys, *NEW, "1")
    Path("empty.csv").write_text("member\n")
    first = told(capsys, "pan", "update", "seen.pan", "monday.csv")
    second = told(capsys, "pan", "update", "seen.pan", "empty.csv")
    assert {**first, "updates": 2} == second


def test_refusals_say_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, *NEW, "1.6", code=2)["error"]["code"] == "pan_epsilon_too_large"
    assert not Path("seen.pan").exists()
    assert told(capsys, "pan", "read", "seen.pan", code=2)["error"]["code"] == "pan_missing"
    assert told(capsys, "pan", "new", "x.pan", code=2)["error"]["code"] == "usage"
    told(capsys, *NEW, "1")
    assert told(capsys, *NEW, "1", code=2)["error"]["code"] == "output_exists"
    assert told(capsys, "pan", "update", "seen.pan", code=2)["error"]["code"] == "usage"
    told(capsys, "pan", "read", "seen.pan")
    told(capsys, "pan", "update", "seen.pan", "monday.csv")
    assert told(capsys, "pan", "read", "seen.pan", code=3)["error"]["code"] == "pan_reads_used"


SCRIPT = """
from pathlib import Path
from sfumato.stream import pan_file
while True:
    pan_file.update(Path("seen.pan"), "monday.csv")
    print("done", flush=True)
"""


def test_a_killed_update_is_there_or_not_and_the_next_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told(capsys, *NEW, "1")
    path, seen = Path("seen.pan"), 0
    for pause in (0.0, 0.013, 0.031):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        time.sleep(pause)
        os.kill(process.pid, signal.SIGKILL)
        more = 1 + process.stdout.read().count("done")
        process.wait()
        process.stdout.close()
        after = load(path).updates  # it can be read, and holds all that was said to be done
        assert seen + more <= after <= seen + more + 1
        seen = after
    assert told(capsys, "pan", "update", "seen.pan", "monday.csv")["updates"] == seen + 1
    left = [one for one in Path().iterdir() if one.name.endswith("scratch")]
    assert left == [], "what a killed process left is swept by the next"
