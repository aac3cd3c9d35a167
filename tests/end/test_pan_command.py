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
from sfumato.methods.stream.pan_file import load
from sfumato.methods.stream.pan_private import PanTable

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
    assert told(capsys, *NEW, "1.6", code=2)["error"]["code"] == "parameter_out_of_range"
    assert not Path("seen.pan").exists()
    assert told(capsys, "pan", "read", "seen.pan", code=2)["error"]["code"] == "source_missing"
    assert told(capsys, "pan", "new", "x.pan", code=2)["error"]["code"] == "usage"
    told(capsys, *NEW, "1")
    assert told(capsys, *NEW, "1", code=2)["error"]["code"] == "output_exists"
    refused = told(capsys, "pan", "update", "seen.pan", code=2)["error"]
    assert (refused["code"], refused["parameter"]) == ("parameter_missing", "events")
    told(capsys, "pan", "read", "seen.pan")
    told(capsys, "pan", "update", "seen.pan", "monday.csv")
    assert told(capsys, "pan", "read", "seen.pan", code=3)["error"]["code"] == "allowance_exhausted"


SCRIPT = """
from pathlib import Path
from sfumato.methods.stream import pan_file
while True:
    pan_file.update(Path("seen.pan"), "monday.csv")
    print("done", flush=True)
"""


def test_a_killed_update_is_known_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
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
        after = load(path)  # it can be read, and holds all that was said to be done
        assert seen + more <= after.updates <= seen + more + 1
        seen = after.updates
        if after.position:
            seen = told(capsys, "pan", "update", "seen.pan", "monday.csv", "--resume")["updates"]
    assert told(capsys, "pan", "update", "seen.pan", "monday.csv")["updates"] == seen + 1
    assert sorted(one.name for one in Path().iterdir()) == ["members.csv", "monday.csv", "seen.pan"]


def test_an_interrupted_update_says_how_far_it_got(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(capsys, *NEW, "1", "--at-least", "2")
    real = PanTable.update

    def interrupted(self: PanTable, *given: Any, **more: Any) -> None:
        real(self, *given, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(PanTable, "update", interrupted)
    assert run(["pan", "update", "seen.pan", "monday.csv"]) == 130
    said = capsys.readouterr().err
    assert "1,333 of 2,000 places" in said
    assert "--resume" in said
    monkeypatch.setattr(PanTable, "update", real)
    refused = told(capsys, "pan", "update", "seen.pan", "monday.csv", code=2)["error"]
    assert refused["code"] == "pan_unfinished"
    assert told(capsys, "pan", "read", "seen.pan", code=2)["error"]["code"] == "pan_unfinished"
    assert told(capsys, "pan", "update", "seen.pan", "monday.csv", "--resume")["updates"] == 1
    told(capsys, "pan", "read", "seen.pan")
