"""How many files a question crosses: those in which a function runs while it is answered."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = r"""
import json, sys, threading
from inspect import CO_OPTIMIZED
from pathlib import Path
import sfumato
from sfumato.vault.registration import Registration, create
from sfumato.vault.vault import open_vault

ROOT, CLINIC = f"{Path(sfumato.__file__).parent}/", Path("clinic")
Path("visits.toml").write_text('''
table = "visits"
unit = { column = "patient", max_rows = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.city]
kind = "text"
values = ["north", "south"]
[columns.cost]
kind = "integer"
bounds = [0, 100]
''')
rows = (f"{place // 2},{'north' if place % 3 else 'south'},{place % 101}" for place in range(600))
Path("visits.csv").write_text("patient,city,cost\n" + "\n".join(rows) + "\n")
create(CLINIC)
Registration(
    name="visits", source="visits.csv", schema=Path("visits.toml"), epsilon=10
).add_to(CLINIC)
crossed = set()

def seen(frame, event, _):
    code = frame.f_code  # bodies of modules and of classes run when they are loaded
    if event == "call" and code.co_flags & CO_OPTIMIZED and code.co_filename.startswith(ROOT):
        crossed.add(code.co_filename.removeprefix(ROOT))

ASKED = "SELECT city, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE cost > {} GROUP BY city"
with open_vault(CLINIC) as vault:
    vault.query(ASKED.format(4), epsilon=1)
    threading.setprofile(seen)
    sys.setprofile(seen)
    vault.query(ASKED.format(5), epsilon=1)
    sys.setprofile(None)
    threading.setprofile(None)
print(json.dumps(sorted(crossed)))
"""
MOST = 85


def test_a_question_crosses_few_files(tmp_path: Path) -> None:
    """The data set is open: a question like it has opened it.

    Before there were rooms it was 85, with them 59; bars of shares, what is left in words and the
    check of types came since, who asks and what they may, consent, plans that are kept and how
    DuckDB is called, what a family is, and flights whose draws are kept, a file each. Limits came
    last: who asks, how large an answer is, what is in store, heavy work, large answers; how texts
    are cut.
    """
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    crossed = json.loads(done.stdout)
    assert "engines/duckdb.py" in crossed
    assert len(crossed) < MOST, crossed
