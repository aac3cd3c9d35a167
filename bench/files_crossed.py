"""Count the files in which a function runs while one query is answered.

    python -m bench.files_crossed

The data set is already open: a query before it has opened it.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sfumato
from sfumato.vault.registration import Registration, create
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from types import FrameType

SOURCE = f"{Path(sfumato.__file__).parent}/"
SCHEMA = """
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
"""
QUERY = "SELECT city, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE cost > {} GROUP BY city"


def crossed_files(folder: Path) -> list[str]:
    """The files below the package that one query crosses, sorted."""
    schema, table, vault_folder = folder / "visits.toml", folder / "visits.csv", folder / "clinic"
    schema.write_text(SCHEMA)
    rows = (f"{row // 2},{'north' if row % 3 else 'south'},{row % 101}" for row in range(600))
    table.write_text("patient,city,cost\n" + "\n".join(rows) + "\n")
    create(vault_folder)
    Registration(name="visits", source=str(table), schema=schema, epsilon=10).add_to(vault_folder)
    crossed: set[str] = set()

    def note_call(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code  # bodies of modules and classes run when they are loaded
        if event == "call" and code.co_flags & CO_OPTIMIZED and code.co_filename.startswith(SOURCE):
            crossed.add(code.co_filename.removeprefix(SOURCE))

    with open_vault(vault_folder) as vault:
        vault.query(QUERY.format(4), epsilon=1)
        threading.setprofile(note_call)
        sys.setprofile(note_call)
        vault.query(QUERY.format(5), epsilon=1)
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(crossed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        files = crossed_files(Path(scratch))
    print(*files, sep="\n")
    print(f"{len(files)} files")
