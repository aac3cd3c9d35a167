"""The command line as its users meet it: a real process, its output, its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sfumato.cli import main

COMMAND = Path(sys.executable).with_name("sfumato")
CSV = "name,sex,age,zip\nAnn,F,34,53715\nBob,M,34,53715\nCid,M,51,53703\n"


def sfumato(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120
    )


def refusal(done: subprocess.CompletedProcess[str], exit_code: int) -> tuple[str, str]:
    """Check the manners of a failure; return its code and message."""
    assert done.returncode == exit_code
    error = json.loads(done.stdout)["error"]
    assert done.stderr == f"sfumato: {error['message']}\n"
    assert "Traceback" not in done.stderr
    return error["code"], error["message"]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return path


def test_inspect_tells_a_person_who_is_unique(people: Path) -> None:
    done = sfumato("inspect", people)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("3 rows, 4 columns\n")
    assert "named like a person's name" in done.stdout
    assert "unique for 100.0 % of the rows." in done.stdout
    assert "prosecutor" in done.stdout


def test_inspect_prints_one_json_object(people: Path) -> None:
    done = sfumato("inspect", people, "--json")
    found = json.loads(done.stdout)
    assert found["rows"] == 3
    assert {column["name"]: column["role"] for column in found["columns"]} == {
        "name": "identifier",
        "sex": "quasi",
        "age": "quasi",
        "zip": "quasi",
    }
    by_columns = {tuple(one["columns"]): one for one in found["sets"]}
    assert len(by_columns) == 7
    assert by_columns["sex",]["unique_rows"] == 1
    assert by_columns["age", "zip"]["unique_share"] == pytest.approx(1 / 3)
    assert by_columns["sex", "age", "zip"]["unique_share"] == 1.0
    assert found["risk"]["prosecutor"]["highest"] == 1.0


@pytest.mark.parametrize(
    ("text", "rows"), [("age,zip\n", 0), ("name\nAnn\nBob\n", 2)], ids=["header only", "no quasi"]
)
def test_inspect_of_a_table_with_nobody_to_tell_apart(tmp_path: Path, text: str, rows: int) -> None:
    (tmp_path / "t.csv").write_text(text)
    done = sfumato("inspect", tmp_path / "t.csv", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout, parse_constant=pytest.fail)["rows"] == rows
    assert sfumato("inspect", tmp_path / "t.csv").returncode == 0


def test_inspect_writes_a_schema_that_it_reads_again(people: Path, tmp_path: Path) -> None:
    schema = tmp_path / "people.toml"
    assert sfumato("inspect", people, "--write", schema).returncode == 0
    assert 'role = "identifier"' in schema.read_text()
    again = sfumato("inspect", people, "--schema", schema, "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["columns"][0]["role"] == "identifier"


def test_an_existing_output_is_refused_unless_overwriting_was_asked_for(
    people: Path, tmp_path: Path
) -> None:
    schema = tmp_path / "people.toml"
    schema.write_text("precious")
    code, message = refusal(sfumato("inspect", people, "--write", schema, "--json"), 2)
    assert (code, schema.read_text()) == ("output_exists", "precious")
    assert "--overwrite" in message
    assert sfumato("inspect", people, "--write", schema, "--overwrite").returncode == 0
    assert schema.read_text() != "precious"


def test_inspect_replaces_nothing_that_it_reads(people: Path, tmp_path: Path) -> None:
    schema, known = tmp_path / "people.toml", tmp_path / "known.csv"
    known.write_bytes(people.read_bytes())
    assert sfumato("inspect", people, "--write", schema).returncode == 0
    used = ("--schema", schema, "--population", known)
    before = [one.read_bytes() for one in (people, schema, known)]
    for one in (people, schema, known):
        done = sfumato("inspect", people, *used, "--write", one, "--overwrite", "--json")
        assert refusal(done, 2)[0] == "file_in_use"
    assert [one.read_bytes() for one in (people, schema, known)] == before


def test_an_output_directory_that_is_not_there_is_refused_before_any_work(
    people: Path, tmp_path: Path
) -> None:
    code, _ = refusal(sfumato("inspect", people, "--write", tmp_path / "no/x.toml", "--json"), 2)
    assert code == "output_unwritable"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["inspect"], "Missing argument 'TABLE'. See 'sfumato inspect --help'."),
        (["inspect", "x.csv", "--qqqq"], "No such option: --qqqq. See 'sfumato inspect --help'."),
        (["inspekt", "x.csv"], "No such command 'inspekt'. Did you mean 'inspect'?"),
    ],
    ids=["missing argument", "unknown flag", "unknown command"],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    code, message = refusal(sfumato(*arguments, "--json"), 2)
    assert (code, message) == ("usage", says)


def test_a_missing_file_is_the_callers_mistake(tmp_path: Path) -> None:
    code, message = refusal(sfumato("inspect", tmp_path / "none.csv", "--json"), 2)
    assert code == "source_missing"
    assert "none.csv" in message


def test_help_reads_like_a_table_of_contents() -> None:
    done = sfumato("--help")
    assert done.returncode == 0
    positions = [
        done.stdout.index(word)
        for word in ("\nLook around\n", "\n  demo ", "\nSee the risk\n", "\n  inspect ")
    ]
    assert positions == sorted(positions)
    assert sfumato().stdout == done.stdout


def test_version_is_the_packages_own() -> None:
    from sfumato import __version__

    assert sfumato("--version").stdout == f"{__version__}\n"


def test_a_reader_that_goes_away_ends_the_program_quietly(people: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [COMMAND, "inspect", people], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == ""


def test_ctrl_c_leaves_nothing_and_exits_with_130(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    process = subprocess.Popen(
        [COMMAND, "demo", "--out", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not out.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not out.exists() or list(out.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_reported_in_one_line(people: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [COMMAND, "inspect", people],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1
    assert done.stderr == "sfumato: The system refused: No space left on device.\n"


@pytest.mark.slow
def test_a_bar_appears_on_a_terminal_when_work_takes_a_while(
    demo: tuple[Path, subprocess.CompletedProcess[bytes]],
) -> None:
    """On a pseudo-terminal standard error shows the demo's progress; standard output does not."""
    _, done = demo
    assert b"Making up a town" in done.stderr
    assert b"Making up a town" not in done.stdout


INTERRUPTED_AT_IMPORT = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from sfumato.cli import main
main()
"""


def test_ctrl_c_while_starting_ends_without_a_word() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_IMPORT], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_ctrl_c_while_sweeping_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["sfumato.cli.main"], "sweep", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "sfumato: Interrupted; nothing was written.\n"
