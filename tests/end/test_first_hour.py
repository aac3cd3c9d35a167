"""The first hour of somebody with a table of their own: no error, and one edit of the schema.

The table is as a clinic exports it: Latin-1, semicolons, days before months, decimal commas, gaps.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("warm_path")
ROWS = 3000

QUESTIONS = [
    "SELECT COUNT(*) AS n FROM patienten",
    'SELECT "Geschlecht", COUNT(*) AS n FROM patienten GROUP BY "Geschlecht"',
    'SELECT "Diagnose", AVG("Einkommen") AS mittel FROM patienten GROUP BY "Diagnose"',
    'SELECT MEDIAN("Größe") AS mitte FROM patienten WHERE "Geschlecht" = \'w\'',
    "SELECT COUNT(*) AS n FROM patienten WHERE \"Geburtsdatum\" < DATE '1960-01-01'",
    'SELECT EXTRACT(YEAR FROM "Aufnahme") AS jahr, COUNT(*) AS n FROM patienten GROUP BY jahr',
    'SELECT "PLZ", 100 * COUNT(*) / SUM(COUNT(*)) OVER () AS anteil FROM patienten GROUP BY "PLZ"',
    'SELECT SUM("Einkommen") / COUNT(*) AS je_person FROM patienten',
    'SELECT "PLZ", COUNT(*) AS n FROM patienten GROUP BY "PLZ" ORDER BY n DESC LIMIT 3',
    'SELECT AVG("Zuzahlung") AS mittel, STDDEV("Größe") AS streuung FROM patienten',
]


def german(number: float, places: int) -> str:
    return f"{number:,.{places}f}".replace(",", "_").replace(".", ",").replace("_", ".")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the export in it."""
    draw = random.Random(7)
    lines = ["Nr;Geburtsdatum;PLZ;Geschlecht;Größe;Einkommen;Zuzahlung;Diagnose;Aufnahme"]
    ill = ["Grippe", "Asthma", "Diabetes", "Rückenschmerzen", "Migräne", "Bluthochdruck"]
    places = ["01067", "10115", "20095", "50667", "60311", "70173", "80331", "04109"]
    for number in range(ROWS):
        born = date(1930, 1, 1) + timedelta(draw.randrange(30_000))
        came = date(2024, 1, 1) + timedelta(draw.randrange(700))
        cells = [
            f"P{100_000 + number}",
            born.strftime("%d.%m.%Y"),
            draw.choice(places) if draw.random() > 0.01 else "",
            draw.choice("wm"),
            german(draw.gauss(1.72, 0.1), 2) if draw.random() > 0.03 else "",
            f"{german(draw.randrange(80_000, 900_000) / 100, 2)} EUR",
            f"{german(draw.randrange(1000) / 10, 1)} %",
            draw.choices(ill, [30, 12, 15, 25, 10, 20])[0],
            came.strftime("%d.%m.%Y"),
        ]
        lines.append(";".join(cells))
    folder = tmp_path_factory.mktemp("first")
    (folder / "patienten.csv").write_bytes(("\r\n".join(lines) + "\r\n").encode("latin-1"))
    return folder


def sfumato(home: Path, *words: str) -> str:
    """What a command says and hints; it ends well."""
    ran = subprocess.run(["sfumato", *words], cwd=home, capture_output=True, text=True)
    assert ran.returncode == 0, f"sfumato {' '.join(words)}\n{ran.stderr}"
    assert "Traceback" not in ran.stderr
    return ran.stdout + ran.stderr


def uncomment(schema: Path) -> None:
    """The one edit: the owner says that all the lines that are proposed are public."""
    text = re.sub(r"^# ([a-z_]+ = .*)$", r"\1", schema.read_text(), flags=re.MULTILINE)
    schema.write_text(text)


def test_from_a_strange_table_to_answers(home: Path) -> None:
    seen = sfumato(home, "inspect", "patienten.csv", "--write", "patienten.toml")
    for said in ("24.12.1976", "decimal comma", "Windows-1252"):
        assert said in " ".join(seen.split())
    uncomment(home / "patienten.toml")
    asked = ("--schema", "patienten.toml")
    sfumato(
        *(home, "anonymize", "patienten.csv", *asked, "--k", "5", "--suppress", "2%"),
        *("-o", "sicher.csv", "--report", "sicher.html"),
    )
    released = (home / "sicher.csv").read_bytes().decode("latin-1")
    assert released.splitlines()[0].count(";") == 7
    assert json.loads(sfumato(home, "measure", "sicher.csv", *asked, "--json"))["k"] >= 5
    sfumato(home, "init", "klinik")
    budget = ("--epsilon", "5", "--delta", "1e-6", "--vault", "klinik")
    sfumato(home, "add", "patienten", "patienten.csv", *asked, *budget)
    for question in QUESTIONS:
        answer = sfumato(home, "query", question, "--epsilon", "0.3", "--vault", "klinik")
        assert "±" in answer
    sfumato(
        *(home, "publish", "histogram", "patienten", "--columns", "Diagnose,Geschlecht"),
        *("--epsilon", "0.5", "--vault", "klinik", "-o", "zahlen.csv", "--report", "zahlen.html"),
    )
    assert "Rückenschmerzen" in (home / "zahlen.csv").read_text()
