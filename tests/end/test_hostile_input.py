"""What no one should give a command, and what the system may refuse it: always a code, in words."""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from sfumato.cli.main import run
from sfumato.errors import LedgerError
from sfumato.release.codec import from_bytes
from sfumato.vault.answer import AnswerIndex

if TYPE_CHECKING:
    from collections.abc import Callable

COMMAND = Path(sys.executable).with_name("sfumato")
DEEP = "[" * 100_000
COMMANDS = [
    ["inspect", "?"],
    ["anonymize", "t.csv", "--schema", "?", "--k", "2", "-o", "o.csv"],
    ["anonymize", "t.csv", "--schema", "t.toml", "--k", "2", "-o", "?"],
    ["measure", "?", "--schema", "t.toml"],
    ["worlds", "?", "SELECT COUNT(*) FROM t", "--schema", "t.toml"],
    ["init", "?"],
    ["add", "n", "?", "--schema", "t.toml", "--epsilon", "1"],
    ["query", "SELECT COUNT(*) FROM t", "--vault", "?"],
    ["demo", "--out", "?"],
]


def sh(words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", f"{shlex.quote(str(COMMAND))} {words}"],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_paths_that_are_not_utf8_are_refused(
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"a\xff\xfe.csv")
    assert run([*(odd if word == "?" else word for word in command), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "parameter_type_wrong"
    assert list(tmp_path.iterdir()) == []


def test_a_closed_standard_output_is_refused_before_any_work(tmp_path: Path) -> None:
    """Otherwise a question would be charged, and its answer lost."""
    (tmp_path / "t.csv").write_text("age\n1\n2\n")
    done = sh("inspect t.csv --write t.toml >&-", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("sfumato: Standard output is closed")
    assert not (tmp_path / "t.toml").exists()
    assert sh("inspect t.csv >&- 2>&-", tmp_path).returncode == 2


def test_closed_other_streams_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age\n1\n2\n")
    done = sh("inspect t.csv --json <&- 2>&-", tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows"] == 2
    done = sh("inspect nothing.csv --json 2>&-", tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "source_missing"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_refusal_that_cannot_be_written_is_still_said(tmp_path: Path) -> None:
    done = sh("inspect nothing.csv --json > /dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("sfumato: Cannot read 'nothing.csv'")
    assert "Traceback" not in done.stderr


def refused() -> NoReturn:
    raise OSError(errno.ENOSPC, "no room")


def interrupted() -> NoReturn:
    raise KeyboardInterrupt


def exhausted() -> NoReturn:
    raise MemoryError


@pytest.mark.parametrize(
    ("happens", "code", "exit_code"),
    [
        (refused, "system_refused", 1),
        (interrupted, "interrupted", 130),
        (exhausted, "out_of_memory", 1),
    ],
)
def test_what_stops_a_question_is_said_in_json_and_that_a_charge_stays(
    happens: Callable[[], NoReturn],
    code: str,
    exit_code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sfumato.vault.vault.open_vault", lambda _path: happens())
    assert run(["query", "SELECT COUNT(*) FROM t", "--json"]) == exit_code
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["code"] == code
    assert "the charge stays" in error["message"]
    assert shown.err == f"sfumato: {error['message']}\n"


def test_what_stops_a_look_says_nothing_of_charges(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.release.open_table.read", lambda *_, **__: refused())
    assert run(["inspect", "t.csv", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {
        "code": "system_refused",
        "message": "The system refused: No space left on device.",
    }


@pytest.mark.parametrize(
    "stored", [DEEP.encode() + b"\n", b'{"tables": []}\n', b"no line", b"\xff\n", b"[]\n"]
)
def test_stored_answers_that_cannot_be_read_have_their_code(stored: bytes) -> None:
    with pytest.raises(LedgerError) as error:
        from_bytes(stored)
    assert error.value.code == "answer_unreadable"


@pytest.mark.parametrize("hint", [DEEP, "[1]", "\x00", '{"owner": 1}'])
def test_hints_that_cannot_be_read_are_no_hints(hint: str, tmp_path: Path) -> None:
    (tmp_path / "body.json").write_text(hint)
    assert AnswerIndex(tmp_path).requests_of("body") == []
