"""Anonymizing, measuring and asking as their users meet them: real processes and files."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as parquet
import pytest

from sfumato.cli.main import run
from sfumato.demo import town

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMAND = Path(sys.executable).with_name("sfumato")
TOWN = Path(town.__file__).with_name("town.toml")
SCHEMA = """\
table = "people"
unit = "row"
[columns.name]
role = "identifier"
kind = "text"
[columns.age]
role = "quasi"
kind = "integer"
hierarchy = { widths = [10, 50] }
[columns.zip]
role = "quasi"
kind = "text"
hierarchy = { mask = "right" }
[columns.disease]
role = "sensitive"
kind = "text"
hierarchy = { tree = ["flu", "cold", "gout"] }
[columns.visits]
role = "other"
kind = "integer"
"""
JSON_KEYS = [
    "algorithm", "criteria", "k", "rows", "released", "suppressed", "classes", "levels", "cost",
    "minimal", "optimal", "bound", "factor", "lattice", "checked", "people", "suppressed_people",
    "ended",
    "unprotected", "warnings",
]  # fmt: skip
COSTS = [
    "loss", "loss_geometric", "discernability", "average_class_size", "c_avg", "precision",
    "entropy", "suppressed",
]  # fmt: skip


def sfumato(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120
    )


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one JSON object of a command that went well."""
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def refused(done: subprocess.CompletedProcess[str], exit_code: int) -> tuple[str, str]:
    assert done.returncode == exit_code, done.stderr
    error = json.loads(done.stdout)["error"]
    assert done.stderr == f"sfumato: {error['message']}\n"
    return error["code"], error["message"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a table of 30 people and its schema."""
    lines = ["name,age,zip,disease,visits"]
    for number in range(29):
        disease = ("flu", "cold", "gout")[number % 3]
        lines.append(f"p{number},{20 + number % 10},5370{number % 2},{disease},{number % 4}")
    lines.append("hermit,93,99999,flu,9")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "people.toml").write_text(SCHEMA)
    return tmp_path


class Shell:
    """The command line inside this process, which starts at once, in a directory."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        given = [str(one) for one in arguments]
        code = run(given)
        said = self._capture.readouterr()
        return subprocess.CompletedProcess(given, code, said.out, said.err)

    def anonymize(self, *more: object) -> subprocess.CompletedProcess[str]:
        return self("anonymize", "people.csv", "--schema", "people.toml", *more, "--json")


@pytest.fixture
def shell(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(home)
    return Shell(capsys)


def records(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_whole_way_from_table_to_answers(home: Path) -> None:
    options = ("--k", 4, "--suppress", "0.05", "-o", "out.csv", "--report", "page.html")
    answer = found(
        sfumato("anonymize", "people.csv", "--schema", "people.toml", *options, "--json", cwd=home)
    )
    assert list(answer) == JSON_KEYS
    assert list(answer["cost"]) == COSTS
    assert (answer["k"], answer["rows"], answer["suppressed"]) == (4, 30, 1)
    assert answer["optimal"] is True
    assert set(answer["levels"]) == {"age", "zip"}
    rows = records(home / "out.csv")
    assert list(rows[0]) == ["age", "zip", "disease", "visits"]
    classes = Counter((row["age"], row["zip"]) for row in rows)
    assert (len(rows), len(classes)) == (29, answer["classes"])
    assert min(classes.values()) >= 4
    assert [tuple(row.values()) for row in rows] == sorted(tuple(row.values()) for row in rows)
    assert "not protected by any criterion: disease, visits" in (home / "page.html").read_text()
    assert (answer["unprotected"], answer["warnings"]) == (["disease", "visits"], [])
    assert (home / "out.csv.json").exists()
    assert (home / "out.csv.holder.json").stat().st_mode & 0o777 == 0o600
    measured = found(
        sfumato(
            "measure",
            "out.csv",
            "--schema",
            "people.toml",
            "--original",
            "people.csv",
            "--json",
            cwd=home,
        )
    )
    assert measured["reference"] == "original"
    assert measured["k"] == min(classes.values())
    assert measured["cost"]["loss"] == pytest.approx(answer["cost"]["loss"])
    assert set(measured["sensitive"]["disease"]) == {
        "distinct", "entropy", "recursive_c", "folk", "t_equal", "t_ordered", "t_hierarchy",
        "delta_disclosure", "beta",
    }  # fmt: skip
    sql = "SELECT COUNT(*) FROM people WHERE disease = 'gout'"
    asked = found(sfumato("worlds", "out.csv", sql, "--schema", "people.toml", "--json", cwd=home))
    assert asked == {"lower": 9, "upper": 9, "estimate": 9}


def test_people_read_a_summary(shell: Shell) -> None:
    done = shell(
        "anonymize", "people.csv", "--schema", "people.toml", "--k", 2, "--suppress", "0.1",
        "-o", "o.csv")  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.startswith("Every class of released rows satisfies 2-anonymity.\n")
    assert "Released unchanged and unprotected: disease, visits." in done.stdout
    measured = shell("measure", "o.csv", "--schema", "people.toml")
    assert "cost discernability" in measured.stdout


def test_several_sensitive_columns_follow_one_flag_or_several(shell: Shell) -> None:
    l_two = ("--l", 2, "--diversity", "entropy", "--suppress", "0.1", "-o", "out.csv")
    once = found(shell.anonymize(*l_two, "--sensitive", "disease", "visits"))
    twice = found(
        shell.anonymize(*l_two, "--overwrite", "--sensitive", "disease", "--sensitive", "visits")
    )
    assert once == twice
    assert once["criteria"] == [
        "entropy 2-diversity of disease",
        "entropy 2-diversity of visits",
    ]


def test_suppressed_rows_can_be_starred(home: Path, shell: Shell) -> None:
    found(shell.anonymize("--k", 4, "--suppress", "0.05", "--suppressed", "star", "-o", "out.csv"))
    rows = records(home / "out.csv")
    assert len(rows) == 30
    blank = [row for row in rows if row["disease"] == "*"]
    assert blank == [{"age": "*", "zip": "*", "disease": "*", "visits": ""}]


def test_a_population_to_hide_in(home: Path, shell: Shell) -> None:
    people = (
        "age,zip\n" + "".join(f"{20 + n % 10},5370{n % 2}\n" for n in range(200)) + "93,99999\n"
    )
    (home / "voters.csv").write_text(people)
    answer = found(
        shell.anonymize("--k", 5, "--population", "voters.csv", "--suppress", "0.1", "-o", "o.csv")
    )
    assert (answer["criteria"], answer["k"]) == (["5-map"], 5)
    assert answer["levels"] == {"age": 0, "zip": 0}
    present = found(
        shell.anonymize(
            "--presence",
            "0,0.2",
            "--population",
            "voters.csv",
            "--suppress",
            "0.1",
            "-o",
            "p.csv",
        )
    )
    assert present["criteria"] == ["(0, 0.2)-presence"]


def test_anatomy_is_a_directory(home: Path, shell: Shell) -> None:
    answer = found(shell.anonymize("--l", 2, "--algorithm", "anatomy", "-o", "buckets"))
    assert answer["criteria"] == ["folk 2-diversity of disease"]
    names = sorted(path.name for path in (home / "buckets").iterdir())
    assert names == ["quasi.csv", "release.json", "sensitive.csv"]
    sql = "SELECT COUNT(*) FROM people WHERE disease = 'flu' AND age < 25"
    asked = found(shell("worlds", "buckets", sql, "--schema", "people.toml", "--json"))
    assert 0 <= asked["lower"] <= 5 <= asked["upper"]


@pytest.mark.parametrize("algorithm", ["mondrian", "permute", "perturb"])
def test_rows_are_all_there_with_other_algorithms(home: Path, shell: Shell, algorithm: str) -> None:
    if algorithm == "perturb":
        text = SCHEMA.replace('role = "other"\nkind', 'role = "sensitive"\nbounds = [0, 9]\nkind')
        (home / "people.toml").write_text(text)
    k = () if algorithm == "perturb" else ("--k", 3)
    done = shell.anonymize(*k, "--algorithm", algorithm, "-o", "o.csv")
    assert done.returncode == 0
    assert json.loads(done.stdout)["released"] == 30
    # Nothing is generalized by noise: the hermit is a class alone.
    assert ("everyone has the same disease (1 row)" in done.stderr) == (algorithm == "perturb")
    assert Counter(row["disease"] for row in records(home / "o.csv")) == {
        "flu": 11, "cold": 10, "gout": 9,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "exit_code", "code"),
    [
        (("--l", "4"), 3, "criterion_not_reachable"),
        (("--k", "31"), 3, "k_above_rows"),
        (("--l", "3", "--algorithm", "anatomy"), 3, "criterion_not_reachable"),
        ((), 2, "criteria_none"),
        (("--k", "3", "--l", "2", "--algorithm", "anatomy"), 2, "anatomy_needs_one_l"),
        (("--k", "three"), 2, "usage"),
        (("--k", "3", "--suppressed", "hide"), 2, "usage"),
        (("--k", "3", "more.csv"), 2, "argument_unexpected"),
        (("--k", "3", "--suppress", "2"), 2, "parameter_out_of_range"),
        (("--l", "2", "--sensitive", "age"), 2, "sensitive_column_quasi"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    home: Path, shell: Shell, options: tuple[str, ...], exit_code: int, code: str
) -> None:
    out = "out" if "anatomy" in options else "out.csv"
    assert refused(shell.anonymize(*options, "-o", out), exit_code)[0] == code
    assert sorted(path.name for path in home.iterdir()) == ["people.csv", "people.toml"]


def test_existing_outputs_are_refused_before_the_table_is_read(home: Path, shell: Shell) -> None:
    for name in ("out.csv", "out.csv.json", "out.csv.holder.json", "page.html", "public.html"):
        (home / name).write_text("precious")
        done = shell(
            "anonymize", "missing.csv", "--schema", "people.toml", "--k", 3, "-o", "out.csv",
            "--report", "page.html", "--public-report", "public.html", "--json")  # fmt: skip
        assert refused(done, 2)[0] == "output_exists"
        assert (home / name).read_text() == "precious"
        (home / name).unlink()


def test_the_steward_reads_which_values_a_hierarchy_lacks(home: Path, shell: Shell) -> None:
    with (home / "people.csv").open("a") as stream:
        stream.write("late,25,53700,plague,1\n")
    code, message = refused(shell.anonymize("--l", 2, "-o", "out.csv"), 2)
    assert code == "hierarchy_value_missing"
    assert "'disease'" in message
    assert "'plague'" in message


def test_what_travels_and_what_stays(home: Path, shell: Shell) -> None:
    answer = found(
        shell.anonymize(
            "--k", 4, "--t", "0.9", "--suppress", "0.05", "-o", "out.csv",
            "--report", "mine.html", "--public-report", "page.html",
        )
    )  # fmt: skip
    assert (answer["rows"], answer["suppressed"]) == (30, 1)
    travels = (home / "out.csv.json").read_text() + (home / "page.html").read_text()
    kept = json.loads((home / "out.csv.holder.json").read_text())
    assert kept["figures"]["suppressed"] == 1
    assert kept["reference"]["disease"] == [["cold", 10], ["flu", 11], ["gout", 9]]
    assert kept["fingerprint"] not in travels
    assert "suppressed rows" not in travels
    assert "This page may travel with the release" in (home / "page.html").read_text()
    assert "This page stays with its holder" in (home / "mine.html").read_text()
    assert kept["fingerprint"] in (home / "mine.html").read_text().replace("<wbr>", "")


def test_two_outputs_are_never_one_file(home: Path, shell: Shell) -> None:
    for options in (
        ("-o", "out.csv", "--report", "out.csv.holder.json"),
        ("-o", "out.csv", "--report", "page.html", "--public-report", "./page.html"),
    ):
        assert refused(shell.anonymize("--k", 4, *options), 2)[0] == "outputs_same"
    assert sorted(path.name for path in home.iterdir()) == ["people.csv", "people.toml"]


def test_releases_are_measured_and_inspected(shell: Shell) -> None:
    for algorithm, out in (("optimal", "out.csv"), ("mondrian", "m.parquet"), ("anatomy", "b")):
        asked = ("--l", 2) if algorithm == "anatomy" else ("--k", 3)
        found(shell.anonymize(*asked, "--algorithm", algorithm, "-o", out))
        measured = found(shell("measure", out, "--schema", "people.toml", "--json"))
        assert measured["rows"] == 30
        assert measured["sensitive"]["disease"]["distinct"] >= 1
        for schema in (("--schema", "people.toml"), ()):
            seen = found(shell("inspect", out, *schema, "--json"))
            assert seen["rows"] == 30


def test_classes_that_hide_nothing_are_warned_about(home: Path, shell: Shell) -> None:
    lines = ["name,age,zip,disease,visits"]
    lines += [f"p{n},{20 + n % 2 * 30},53700,{('flu', 'cold')[n % 2]},{n}" for n in range(8)]
    (home / "people.csv").write_text("\n".join(lines) + "\n")
    done = shell.anonymize("--k", 4, "-o", "out.csv", "--public-report", "page.html")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["unprotected"] == ["disease", "visits"]
    assert answer["warnings"] == [done.stderr.removeprefix("sfumato: ").rstrip("\n")]
    assert "In 2 of 2 classes everyone has the same disease (8 rows)" in done.stderr
    assert "everyone has" not in (home / "page.html").read_text()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "town.parquet"
    parquet.write_table(town.table(200_000), path)
    return path


@pytest.mark.parametrize("stage", ["reading", "writing"])
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


def test_ctrl_c_while_searching_writes_the_best_so_far(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
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
    rows = records(home / "out.csv")
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
    answer = found(shell.anonymize(*options, "--overwrite"))
    assert (answer["optimal"], answer["ended"]) == (False, "time")
    assert answer["bound"] <= answer["cost"]["loss"]


def test_options_that_an_algorithm_ignores_are_refused(shell: Shell, home: Path) -> None:
    for more in (
        ("--k", 2, "--algorithm", "mondrian", "--suppress", "0.1"),
        ("--k", 2, "--algorithm", "permute", "--suppressed", "star"),
        ("--l", 2, "--algorithm", "anatomy", "--cost", "loss"),
        ("--algorithm", "perturb", "--limit-seconds", "5", "--sensitive", "disease"),
    ):
        code, message = refused(shell.anonymize(*more, "-o", "out.csv"), 2)
        assert code == "option_not_of_algorithm"
        assert "does not take" in message
    code, _ = refused(shell.anonymize("--k", 2, "--sensitive", "disease", "-o", "out.csv"), 2)
    assert code == "option_without_other"
    assert not (home / "out.csv").exists()


def test_measuring_says_whether_people_or_rows_are_counted(shell: Shell, home: Path) -> None:
    unit = 'unit = { column = "name", max_rows = 3 }'
    schema = SCHEMA.replace('unit = "row"', unit).replace(
        "[columns.name]\n", "[columns.name]\nnullable = false\n"
    )
    (home / "people.toml").write_text(schema)
    lines = (home / "people.csv").read_text().splitlines()
    (home / "people.csv").write_text("\n".join([*lines, *lines[1:]]) + "\n")
    answer = found(shell.anonymize("--k", 2, "--suppress", "0.1", "-o", "out.csv"))
    assert (answer["rows"], answer["people"], answer["suppressed_people"]) == (60, 30, 1)
    raw = found(shell("measure", "people.csv", "--schema", "people.toml", "--json"))
    assert (raw["counted"], raw["k"]) == ("people", 1)
    released = found(shell("measure", "out.csv", "--schema", "people.toml", "--json"))
    assert released["counted"] == "rows"
    told = shell("measure", "out.csv", "--schema", "people.toml").stdout
    assert "Rows are counted, not people" in told
    assert "People are counted" in shell("measure", "people.csv", "--schema", "people.toml").stdout


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


def test_worlds_refuses_a_star_of_which_nothing_is_declared(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("age,sex\n*,F\n*,M\n")
    (tmp_path / "out.toml").write_text(
        'table = "out"\n[columns.age]\nkind = "integer"\nrole = "quasi"\n'
        "hierarchy = { widths = [5] }\n"
        '[columns.sex]\nkind = "text"\nrole = "quasi"\nvalues = ["F", "M"]\n'
    )
    command = [str(Path(sys.executable).with_name("sfumato")), "worlds", "out.csv"]
    question = ["SELECT COUNT(*) FROM out WHERE age < 30", "--schema", "out.toml", "--json"]
    done = subprocess.run(
        [*command, *question], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "domain_missing"
