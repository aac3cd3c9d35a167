"""`sfumato init`: create a vault."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Json, argument, option
from sfumato.text import dumps


def init(
    vault: Annotated[Path, argument("VAULT", "The folder.")],
    ledger: Annotated[
        str,
        option("FILE|URL", "The ledger database: a SQLite file in the folder, or postgresql://..."),
    ] = "ledger.sqlite",
    head: Annotated[
        Path | None,
        option(
            "FILE",
            "The file that records the ledger's last position, to detect a rollback. Keep it "
            "outside the folder, best on "
            "another disk; by default it is beside the folder.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a vault: a folder with data sets, their budgets and a ledger.

    Examples:
        sfumato init clinic
    """
    from sfumato.vault.creation import create

    new = create(vault, database=ledger, head=head)
    if as_json:
        typer.echo(dumps({"vault": str(new.folder), "head": str(new.head)}))
    else:
        typer.echo(
            f"Created the vault {new.folder}. Keep {new.head} with it, but out of its backups."
        )
