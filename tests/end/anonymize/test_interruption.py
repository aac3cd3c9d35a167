"""Searches that are watched, interrupted or out of time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.slices import few_fast

from sfumato.demo import town

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end.anonymize.conftest import Shell


COMMAND = Path(sys.executable).with_name("sfumato")
TOWN = Path(town.__file__).with_name("town.toml")


@pytest.mark.parametrize("stage", few_fast(["reading", "writing"], 1))
def test_ctrl_c_leaves_nothing_behind(large: Path, tmp_path: Path, stage: str) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [
            COMMAND, "anonymize", large, "--schema", TOWN, "--k", "5", "--suppress", "0.05",
            "-o", tmp_path / "out.csv.gz", "--report", tmp_path / "page.html",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    # The engine's own directory tells that reading has begun, ours that writing has.
    begun = (scratch, "sfumato-*") if stage == "reading" else (tmp_path, ".out.csv.gz.*/*")
    deadline = time.monotonic() + 60
    while not list(begun[0].glob(begun[1])) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "sfumato: Interrupted; nothing was written.\n"
    assert [path for path in tmp_path.rglob("*") if path != scratch] == []


def test_ctrl_c_after_the_release_stands_says_so(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.cli.anonymize._report_result", interrupted)
    done = shell.anonymize("--k", 3, "-o", "out.csv")
    assert shell.refused(done, 130) == ("interrupted", "Interrupted; the release was written.")
    assert (home / "out.csv.json").is_file()
    monkeypatch.setattr("sfumato.cli.anonymize._search", interrupted)
    done = shell.anonymize("--k", 3, "-o", "other.csv")
    assert shell.refused(done, 130) == ("interrupted", "Interrupted; nothing was written.")


def test_ctrl_c_while_searching_writes_the_best_so_far(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def impatient(title: str, **_: object) -> Iterator[Callable[[float, float], None]]:
        told = []

        def tell(done: float, _total: float) -> None:
            told.append(done)
            if title == "Searching" and len(told) == 1:
                signal.raise_signal(signal.SIGINT)

        yield tell

    monkeypatch.setattr("sfumato.cli.anonymize.progress", impatient)
    done = shell.anonymize("--k", 2, "--algorithm", "sweeney", "-o", "out.csv")
    assert done.returncode == 130
    assert done.stderr == "sfumato: Interrupted; the best release so far was written.\n"
    answer = json.loads(done.stdout)
    assert (answer["ended"], answer["optimal"], answer["bound"]) == ("interrupted", False, None)
    rows = shell.records("out.csv")
    assert min(Counter((row["age"], row["zip"]) for row in rows).values()) >= 2


def test_a_search_out_of_time_says_so_in_text_holders_file_and_report(
    shell: Shell, home: Path
) -> None:
    limits = ("--k", 2, "--suppress", "0.05", "--limit-seconds", 0)
    options = (*limits, "-o", "out.csv", "--report", "page.html")
    done = shell("anonymize", "people.csv", "--schema", "people.toml", *options)
    assert done.returncode == 0
    words = "the search was ended by its time limit."
    assert "Not proven optimal" in done.stdout
    for path in ("out.csv.holder.json", "page.html"):
        told = (home / path).read_text()
        assert "Not proven optimal" in told
        assert words in told
        assert "Proven optimal:" not in told
    answer = shell.found(shell.anonymize(*options, "--overwrite"))
    assert (answer["optimal"], answer["ended"]) == (False, "time")
    assert answer["bound"] <= answer["cost"]["loss"]


@pytest.mark.slow
def test_a_bar_counts_nodes_on_a_terminal(large: Path, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [
            COMMAND, "anonymize", large, "--schema", TOWN, "--k", "5", "--suppress", "0.05",
            "--cost", "discernability", "-o", tmp_path / "out.parquet",
        ],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    assert b" of 3,240 nodes" in shown
