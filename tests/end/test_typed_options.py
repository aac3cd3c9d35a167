"""Types know the options: what is misspelt is refused before it is run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIGHT = """\
import sfumato as sf

people = sf.read([{"age": 30}], "people.toml")
released = people.anonymize(
    sf.KAnonymity(5), l=3, diversity="entropy", t=0.2, suppress="2%", algorithm="mondrian"
)
released.to_pandas()
private = sf.protect(people, epsilon=1, delta=1e-6)
private.query("SELECT COUNT(*) FROM people", epsilon=0.1, request_id="a")
private.publish("quadtree", columns=["age"], epsilon="1/10", height=3, workload="w.csv")
private.above(columns="age", workload="w.csv", threshold=5, epsilon=0.1)
with sf.init("clinic") as vault:
    vault.add("people", "people.csv", sf.Schema.load("people.toml"), epsilon=3)
    vault.publish("tree", "people", columns="age", epsilon=0.1, fanout=2)
"""
WRONG = {
    "people.anonymize(k=5, algoritm='optimal')": "algoritm",
    "people.anonymize(k='5')": "arg-type",
    "people.anonymize(k=5, l=2, diversity='entropic')": "arg-type",
    "people.anonymize(5)": "arg-type",
    "private.query('SELECT 1', epsilonn=1)": "epsilonn",
    "private.publish('tree', columns='age', heigth=3)": "heigth",
    "private.publish('tree', columns=5)": "arg-type",
    "private.abov()": "attr-defined",
    "vault.add('a', 'b.csv', 'b.toml', epsilon=1, unitt='row')": "unitt",
    "vault.plan('tree', 'people', columns='age', fanuot=2)": "fanuot",
}


@pytest.mark.slow
def test_mypy_takes_what_is_right_and_refuses_what_is_not(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    lines = RIGHT.count("\n")
    script.write_text(RIGHT + "".join(f"{one}\n" for one in WRONG))
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    told = [one for one in done.stdout.splitlines() if ": error: " in one]
    found: dict[int, str] = {}
    for one in told:
        number, _, words = one.split("script.py:", 1)[1].partition(": error: ")
        found[int(number)] = words
    assert [one for one in found if one <= lines] == [], done.stdout
    for place, (call, expected) in enumerate(WRONG.items(), start=lines + 1):
        assert expected in found.get(place, ""), call
