"""Help as people read it: nothing of the parser's own words, examples that run, completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.cli.main import COMMANDS, run
from sfumato.methods.learn.catalogue import KINDS as MODELS
from sfumato.methods.local.rounds import new_round
from sfumato.methods.local.survey import Survey
from sfumato.methods.publish.catalogue import KINDS as PUBLICATIONS
from sfumato.methods.synth.methods import FORMS
from sfumato.operations.table import METHOD_COMMANDS, all_operations

if TYPE_CHECKING:
    from sfumato.methods.kinds import Kind

COMMAND = Path(sys.executable).with_name("sfumato")
NAMES = [
    *(name for chapter in COMMANDS.values() for name in chapter),
    # An example raises the budget, which those of the families spend.
    *(each.name for each in all_operations() if "command" in each.doors),
    *METHOD_COMMANDS,
]
SCHEMA = """
table = "people"
unit = "row"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
nullable = false
hierarchy = { widths = [10, 50] }
[columns.sex]
role = "quasi"
kind = "text"
values = ["F", "M"]
nullable = false
hierarchy = { tree = ["F", "M"] }
[columns.smoker]
role = "other"
kind = "boolean"
nullable = false
[columns.disease]
role = "sensitive"
kind = "text"
values = ["flu", "asthma", "none"]
nullable = false
[columns.day]
role = "other"
kind = "date"
bounds = ["2025-01-01", "2025-01-31"]
nullable = false
"""
VISITS = """
table = "visits"
unit = { column = "patient", max_rows = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.cost]
kind = "integer"
bounds = [0, 99]
nullable = false
"""
TOWNS = """
table = "towns"
[columns.town]
role = "other"
kind = "text"
values = ["Rome", "Bonn"]
nullable = false
"""


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the examples name."""
    monkeypatch.chdir(tmp_path)
    diseases = ("flu", "asthma", "none")
    rows = [
        f"{row % 90},{'FM'[row % 2]},{str(row % 3 == 0).lower()},{diseases[row // 7 % 3]},"
        "2025-01-11"
        for row in range(1200)
    ]
    Path("people.csv").write_text("\n".join(["age,sex,smoker,disease,day", *rows]) + "\n")
    Path("people.toml").write_text(SCHEMA)
    Path("synthetic.csv").write_text("\n".join(["age,sex,smoker,disease,day", *rows[::3]]) + "\n")
    Path("voters.csv").write_text("\n".join(["age,sex", *(one[:4] for one in rows[10:90])]) + "\n")
    Path("towns.csv").write_text("town\nRome\nBonn\n")
    Path("towns.toml").write_text(TOWNS)
    Path("visits.csv").write_text("patient,cost\n1042,3\n1042,5\n1043,7\n")
    Path("visits.toml").write_text(VISITS)
    Path("agreed.csv").write_text("person,purpose,agreed\n1042,care,no\n1043,research,yes\n")
    Path("ages.py").write_text("def mean_age(rows):\n    return rows['age'].to_numpy().mean()\n")
    Path("places.csv").write_text("lon,lat\n-8.61,41.15\n-8.60,41.16\n")
    Path("ranges.csv").write_text("age_low,age_high\n0,49\n50,99\n")
    Path("members.csv").write_text("member\n" + "".join(f"{one}\n" for one in range(50)))
    Path("monday.csv").write_text("member\n7\n7\n9\n")
    private = sf.protect("people.csv", "people.toml", epsilon=1)
    learned = private.learn("naive-bayes", features=["age"], target="sex", epsilon=1)
    learned.model.save("model.json")
    new_round(Path("mood.toml"), "How are you?", ("well", "so so"), epsilon=1)
    for day in ("monday", "tuesday"):
        Survey("mood.toml").randomize(["well", "so so"]).save(f"{day}.jsonl")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 0
    return capsys.readouterr().out


def examples(page: str) -> list[str]:
    block = re.sub(r"\\\n *", "", page.partition("\nExamples\n")[2])
    return re.findall(r"^  (sfumato .*)$", block, re.MULTILINE)


@pytest.mark.slow
def test_every_example_of_every_help_runs(
    prepared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [told(capsys, *name.split(), "-h") for name in NAMES]
    # 'add' and 'dataset add' are one command, so their pages have the same examples.
    lines = list(dict.fromkeys(line for page in pages for line in examples(page)))
    lines.remove("sfumato demo")  # whose page has tests of its own
    lines.remove("sfumato serve --vault clinic")  # which ends when it is told to
    lines.remove("sfumato token revoke k7pm2x9c --vault clinic")  # which no run makes again
    for verb in ("show", "cancel"):  # whose names no run makes again
        lines.remove(f"sfumato job {verb} 5dc893f2e527a768 --vault clinic")
    for words in ("show", "save", "open", "shut"):
        [line] = [line for line in lines if line.startswith(f"sfumato release {words} ")]
        lines.remove(line)
    lines.remove(f"sfumato program revoke {64 * '0'} --vault clinic")
    lines.remove("sfumato ledger acknowledge --operator Ann --vault clinic")  # nothing was lost
    lines.remove("sfumato ledger join --head head.json --vault clinic")  # this host has joined
    for line in [*lines, *examples(told(capsys))]:
        assert run(shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)
        capsys.readouterr()
    assert (prepared / "safe.csv").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_of_help_has_an_example_and_fits_the_terminal(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = told(capsys, *name.split(), "-h")
    assert examples(page)
    assert page == told(capsys, "help", *name.split()) == told(capsys, *name.split(), "--help")
    assert max(map(len, page.splitlines())) <= 80
    assert not re.search(r"<\w+>|\bTEXT\b|\bbool\b", page), "the parser's own words"
    assert re.search(r"^  --json {2,}Print one JSON object", page, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "kind", "other"),
    [
        (("publish", "histogram"), PUBLICATIONS["histogram"], "fanout"),
        (("learn", "kmeans"), MODELS["kmeans"], "penalty"),
        (("synthesize", "--as", "graph"), FORMS["graph"], "hexagons"),
    ],
)
def test_help_of_a_kind_has_its_options_alone(
    words: tuple[str, ...], kind: Kind, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = told(capsys, *words, "--help")
    for name in kind.option_lines:
        assert re.search(rf"^  --{name} ", page, re.MULTILINE)
    assert not re.search(rf"^  --{other} ", page, re.MULTILINE)


def test_all_kinds_of_publications_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    page = " ".join(told(capsys, "publish", "-h").split())  # long lines are broken
    for name, kind in PUBLICATIONS.items():
        assert f" {name} {kind.summary} " in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["querry", "x"], "No such command 'querry'. Did you mean 'query'?"),
        (["query", "x", "--epsilom", "1"], "No such option: --epsilom. Did you mean --epsilon?"),
    ],
)
def test_a_near_miss_is_told_what_was_meant(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["message"] == says


def completed(words: str) -> list[str]:
    """What bash is offered behind the last word."""
    given = words.split(" ")
    done = subprocess.run(
        [COMMAND],
        env={
            **os.environ,
            "_SFUMATO_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(given) - 1),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.usefixtures("prepared")
def test_the_shell_completes_commands_kinds_data_sets_and_columns() -> None:
    run(["init", "clinic"])
    run(shlex.split("add people people.csv --schema people.toml --epsilon 3 --vault clinic"))
    assert completed("sfumato mea") == ["measure"]
    assert completed("sfumato publish qua") == ["quadtree", "quantiles"]
    assert completed("sfumato publish tree --vault clinic pe") == ["people"]
    assert completed("sfumato publish tree people --vault clinic --columns age,s") == [
        "age,sex",
        "age,smoker",
    ]
    assert completed("sfumato publish tree --vault nowhere pe") == []
    assert completed("sfumato anonymize people.csv --algorithm mon") == [
        "mondrian",
        "mondrian-relaxed",
    ]
    assert completed("sfumato anonymize people.csv --cost lo") == ["loss", "loss-geometric"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_the_shell(shell: str) -> None:
    done = subprocess.run(
        [COMMAND],
        env={**os.environ, "_SFUMATO_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert f"_SFUMATO_COMPLETE=complete_{shell}" in done.stdout


def test_the_script_is_shown_to_the_shell_that_asks() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(str(COMMAND))} --show-completion; true"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "complete -o default -F _sfumato_completion sfumato" in done.stdout
