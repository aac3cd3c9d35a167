"""Count the files and functions that run while one query is answered: a measure of indirection.

    python -m bench.files_crossed

Three ways are counted: the library (the data set is open: a query before it has opened it), the
command with its start, and a client with its server. Bodies of modules and classes do not count:
they run when a module is loaded.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sfumato
from sfumato.cli.main import main
from sfumato.testing.servers import served
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable
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


def make_vault(folder: Path) -> Path:
    """A vault with one small data set."""
    schema, table, vault_folder = folder / "visits.toml", folder / "visits.csv", folder / "clinic"
    schema.write_text(SCHEMA)
    rows = (f"{row // 2},{'north' if row % 3 else 'south'},{row % 101}" for row in range(600))
    table.write_text("patient,city,cost\n" + "\n".join(rows) + "\n")
    create(vault_folder)
    Registration(name="visits", source=str(table), schema=schema, epsilon=10).add_to(vault_folder)
    return vault_folder


class Crossed:
    """The functions of the package that ran, by file."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, int]] = set()

    def note_call(self, frame: FrameType, event: str, _: Any) -> None:
        """Note the start of a function of this package."""
        code = frame.f_code
        if event == "call" and code.co_flags & CO_OPTIMIZED and code.co_filename.startswith(SOURCE):
            file = code.co_filename.removeprefix(SOURCE)
            self.functions.add((file, code.co_firstlineno))

    @property
    def files(self) -> list[str]:
        """The files that were crossed, sorted."""
        return sorted({file for file, _ in self.functions})

    def during(self, work: Callable[[], object]) -> Crossed:
        """Note the calls of a piece of work, and of threads that begin meanwhile."""
        sys.setprofile(self.note_call)
        try:
            work()
        finally:
            sys.setprofile(None)
        return self


def cross_library(vault_folder: Path) -> Crossed:
    """Query an open vault."""
    crossed = Crossed()
    with open_vault(vault_folder) as vault:
        vault.query(QUERY.format(4), epsilon=1)
        threading.setprofile(crossed.note_call)
        crossed.during(lambda: vault.query(QUERY.format(5), epsilon=1))
        threading.setprofile(None)
    return crossed


def cross_command(vault_folder: Path) -> Crossed:
    """Run `sfumato query`, with its start and its output."""
    crossed = Crossed()
    words = ["query", QUERY.format(6), "--epsilon", "1", "--vault", str(vault_folder)]

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(words)

    threading.setprofile(crossed.note_call)
    crossed.during(run)
    threading.setprofile(None)
    return crossed


def cross_server(vault_folder: Path) -> Crossed:
    """Query a served vault through a client; both run in this process."""
    warm, crossed = Crossed(), Crossed()
    current = [warm]
    # Threads keep the function that they begin with, so it looks up which count is meant.
    threading.setprofile(lambda frame, event, arg: current[0].note_call(frame, event, arg))
    with open_vault(vault_folder) as vault:
        token = vault.tokens.new("owner", operator="Ann")
        with served(vault) as server, sfumato.connect(server.url, token) as remote:
            remote.query(QUERY.format(7), epsilon=1)
            current[0] = crossed
            crossed.during(lambda: remote.query(QUERY.format(8), epsilon=1))
            current[0] = warm
    threading.setprofile(None)
    return crossed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        folder = make_vault(Path(scratch))
        for way, count in (
            ("library", cross_library(folder)),
            ("client and server", cross_server(folder)),
            ("command", cross_command(folder)),
        ):
            if "--list" in sys.argv:
                print(*count.files, sep="\n")
            print(f"{way}: {len(count.files)} files, {len(count.functions)} functions")
