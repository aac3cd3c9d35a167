"""`sfumato init`: make a folder a vault."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Json, argument, option
from sfumato.text import dumps


def init(
    vault: Annotated[Path, argument("VAULT", "The folder.")],
    ledger: Annotated[
        str, option("FILE|URL", "A SQLite file in it, or postgresql://...")
    ] = "ledger.sqlite",
    head: Annotated[
        Path | None,
        option(
            "FILE",
            "Where the ledger's last position is kept: outside the folder, best on another "
            "disk. By default beside the folder.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a folder a vault: data sets under budgets that no crash can overspend.

    Examples:
        sfumato init clinic
    """
    from sfumato.vault.creation import create

    made = create(vault, database=ledger, head=head)
    if as_json:
        typer.echo(dumps({"vault": str(made.folder), "head": str(made.head)}))
    else:
        typer.echo(
            f"Made the vault {made.folder}. Keep {made.head} with it, but out of its backups."
        )
