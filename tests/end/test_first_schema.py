"""From a table of one's own to a schema that works in every door, as its owner meets it."""

from __future__ import annotations

import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from sfumato.cli.main import run
from sfumato.data.schema.schema_file import load

QUESTIONS = (
    "SELECT illness, COUNT(*) AS n FROM visits GROUP BY illness",
    "SELECT sex, illness, COUNT(*) AS n FROM visits GROUP BY sex, illness",
    "SELECT zip, COUNT(*) AS n FROM visits GROUP BY zip",
    "SELECT AVG(cost) AS c FROM visits",
    "SELECT sex, AVG(age) AS a FROM visits GROUP BY sex",
    "SELECT MEDIAN(cost) AS c FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE age >= 65 AND illness = 'flu'",
    "SELECT EXTRACT(MONTH FROM came) AS m, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT SUM(cost) / COUNT(*) AS each FROM visits",
    "SELECT FLOOR(age / 10) * 10 AS decade, COUNT(DISTINCT person) AS n FROM visits GROUP BY 1",
)


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three hundred people with up to four visits, some cells missing, and an empty vault."""
    draw = random.Random(5)
    lines = ["visit,person,sex,age,zip,illness,cost,came"]
    for place in range(900):
        came = date(2024, 1, 3) + timedelta(days=draw.randrange(500))
        cost = f"{draw.randrange(900) / 10}" if draw.random() > 0.05 else ""
        sex, age = draw.choice("fm"), draw.randrange(18, 91)
        zip_code = draw.choice(["01067", "10115", "80331"])
        illness = draw.choice(["flu", "cold", "asthma"])
        lines.append(f"V{place},{place % 300},{sex},{age},{zip_code},{illness},{cost},{came}")
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    assert run(["init", "vault"]) == 0
    return tmp_path


def inspected() -> list[str]:
    assert run(["inspect", "visits.csv", "--write", "visits.toml", "--overwrite"]) == 0
    return Path("visits.toml").read_text().split("\n")


def uncomment(lines: list[str], which: set[int] | None = None) -> None:
    """The one edit: take the marks away from what may be known, here from all lines by default."""
    offered = re.compile(r"# ([a-z_]+ = .*)")
    text = [
        found[1]
        if (found := offered.fullmatch(line)) and (which is None or place in which)
        else line
        for place, line in enumerate(lines)
    ]
    Path("visits.toml").write_text("\n".join(text))


ADD = ["add", "visits", "visits.csv", "--schema", "visits.toml", "--vault", "vault"]


@pytest.mark.usefixtures("clinic")
def test_one_edit_lies_between_inspect_and_ten_questions(capfd: pytest.CaptureFixture[str]) -> None:
    uncomment(inspected())
    assert run([*ADD, "--epsilon", "10", "--delta", "1e-6"]) == 0
    assert "Hides whether any one 'person' is present" in capfd.readouterr().out
    for question in QUESTIONS:
        assert run(["query", question, "--epsilon", "0.5", "--vault", "vault"]) == 0, question
    columns = ["sex", "age", "zip", "illness", "cost", "came"]
    for place, column in enumerate(columns):
        out = f"{column}.parquet"
        words = ["--columns", column, "--epsilon", "0.1", "--vault", "vault", "-o", out]
        assert run(["publish", "histogram", "visits", *words]) == 0, column
        if column != "cost":  # reals are grouped in steps that the question or its owner names
            grouped = f"SELECT {column}, COUNT(*) AS n{place} FROM visits GROUP BY {column}"
            assert run(["query", grouped, "--epsilon", "0.1", "--vault", "vault"]) == 0, column


@pytest.mark.usefixtures("clinic")
def test_the_written_schema_is_enough_for_a_release() -> None:
    inspected()
    schema = ["--schema", "visits.toml"]
    release = ["anonymize", "visits.csv", *schema, "--k", "5", "-o", "out.csv"]
    assert run(release) == 0
    assert run(["measure", "out.csv", *schema, "--original", "visits.csv"]) == 0
    assert run(["worlds", "out.csv", "SELECT COUNT(*) FROM t WHERE sex = 'f'", *schema]) == 0


@pytest.mark.usefixtures("clinic")
def test_every_line_may_be_uncommented_by_itself() -> None:
    lines = inspected()
    offered = [place for place, line in enumerate(lines) if re.match(r"# [a-z_]+ = ", line)]
    assert len(offered) == 12
    for place in offered:
        uncomment(lines, {place})
        load(Path("visits.toml"))


@pytest.mark.usefixtures("clinic")
def test_F9_all_that_is_missing_is_told_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    inspected()
    assert run([*ADD, "--epsilon", "1"]) == 2
    told = capfd.readouterr().err
    for name, line in {
        "age": "bounds = [0, 110]",
        "cost": "bounds = [0.0, 100.0]",
        "came": "bounds = [2020-01-01, 2025-12-31]",
    }.items():
        assert f"[columns.{name}]: {line}" in told


@pytest.mark.usefixtures("clinic")
def test_whoever_counts_rows_as_people_is_warned(capfd: pytest.CaptureFixture[str]) -> None:
    lines = inspected()
    uncomment(lines, {place for place, line in enumerate(lines) if not line.startswith("# unit")})
    assert run([*ADD, "--epsilon", "1"]) == 0
    assert "some share their 'person'" in capfd.readouterr().err


@pytest.mark.usefixtures("clinic")
def test_F14_what_was_seen_reaches_no_analyst(capfd: pytest.CaptureFixture[str]) -> None:
    """Leaves of a proposed tree are no domain, and no comment of the file is in the vault."""
    lines = inspected()
    bounds = {place for place, line in enumerate(lines) if line.startswith(("# bounds", "# unit"))}
    uncomment(lines, bounds)
    assert run([*ADD, "--epsilon", "1"]) == 0
    grouped = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    assert run(["query", grouped, "--epsilon", "0.1", "--vault", "vault"]) == 2
    told = capfd.readouterr().err
    assert "The values of 'sex' are not declared" in told
    held = b"".join(path.read_bytes() for path in Path("vault").rglob("*") if path.is_file())
    assert b"public only" not in held
    assert b"900 rows" not in held


def test_without_a_schema_and_a_terminal_the_way_is_told(
    clinic: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["add", "visits", "visits.csv", "--vault", "vault", "--epsilon", "1"]
    assert run(words) == 2
    assert "'sfumato inspect visits.csv' can write one" in capfd.readouterr().err
    assert not (clinic / "visits.toml").exists()


INTERRUPT = "\x03"


def on_terminal(folder: Path, words: list[str], answers: list[str]) -> tuple[str, int]:
    """Run a command on a terminal of its own, with an answer for each of its questions."""
    answering, asking = pty.openpty()
    code = "from sfumato.cli import main; main()"
    told = ""
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=asking, stdout=asking, stderr=asking, cwd=folder, env={**os.environ, "TERM": "dumb"},
    ) as process:  # fmt: skip
        os.close(asking)
        while True:
            ready, _, _ = select.select([answering], [], [], 60)
            assert ready, f"nothing more after: {told}"
            try:
                told += os.read(answering, 1 << 16).decode()
            except OSError:  # the other end is closed
                break
            waits = re.search(r"(\[[^\n]*\]|[a-z]): $", told.rsplit("\n", 1)[-1])
            if waits and answers and not select.select([answering], [], [], 0.2)[0]:
                if (answer := answers.pop(0)) == INTERRUPT:
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(answering, f"{answer}\n".encode())
    os.close(answering)
    assert answers == []
    return told, process.returncode


NO_SCHEMA = ["add", "visits", "visits.csv", "--vault", "vault"]
ASKED = [
    "y",  # inspect it
    "", "", "",  # not a person a row; the column and the number of rows as seen
    "",  # sex
    "120, 0", "0, 120",  # age: reversed, then right
    "01067, 10115, 80331, 99999",  # zip: one more than seen
    "-",  # illness stays open
    "-",  # cost is left out
    "",  # came
    "n",  # gaps may come
    "", "2",  # the file; epsilon
]  # fmt: skip


def test_add_walks_through_what_is_missing(clinic: Path) -> None:
    told, code = on_terminal(clinic, NO_SCHEMA, list(ASKED))
    assert code == 0, told
    assert "Seen: one 'person' has up to about" in told
    assert "Bounds [120, 0] are reversed" in told
    schema = load(clinic / "visits.toml")
    assert schema.unit.column == "person"
    names = ["visit", "person", "sex", "age", "zip", "illness", "came"]
    assert [column.name for column in schema.columns] == names
    assert 'values = ["01067", "10115", "80331", "99999"]' in (clinic / "visits.toml").read_text()
    assert [column.name for column in schema.columns if not column.nullable] == names[:2]
    config = (clinic / "vault" / "vault.toml").read_text()
    assert 'schema = "../visits.toml"' in config
    assert 'epsilon = "2"' in config


def test_the_owners_file_is_kept_unless_they_say_so(clinic: Path) -> None:
    inspected()
    before = (clinic / "visits.toml").read_text()
    words = [*NO_SCHEMA, "--schema", "visits.toml", "--epsilon", "1"]
    answers = ["y", *[""] * 6, "y", "visits.toml", "n", "", ]  # fmt: skip
    told, code = on_terminal(clinic, words, answers)
    assert code == 0, told
    assert (clinic / "visits.toml").read_text() == before
    assert (clinic / "visits-2.toml").exists()


def test_yes_asks_nothing_on_a_terminal(clinic: Path) -> None:
    told, code = on_terminal(clinic, [*NO_SCHEMA, "--epsilon", "1", "--yes"], [])
    assert code == 2
    assert "Give --schema visits.toml" in told


def test_an_interrupted_walk_changes_nothing(clinic: Path) -> None:
    before = (clinic / "vault" / "vault.toml").read_bytes()
    told, code = on_terminal(clinic, NO_SCHEMA, ["y", "", INTERRUPT])
    assert code == 130
    assert "Interrupted; nothing was written." in told
    assert not (clinic / "visits.toml").exists()
    assert (clinic / "vault" / "vault.toml").read_bytes() == before
