"""Options that several commands share, and short words for declaring others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def option(metavar: str | None, told: str, *flags: str) -> Any:
    """An option with the word that stands for its value, and a line of help."""
    return typer.Option(*flags, metavar=metavar, help=told)


def argument(metavar: str, told: str) -> Any:
    """An argument that must be given."""
    return typer.Argument(metavar=metavar, help=told, show_default=False)


Json = Annotated[bool, option(None, "Print one JSON object and nothing else.", "--json")]
Overwrite = Annotated[bool, option(None, "Replace an existing output file.", "--overwrite")]
SchemaFile = Annotated[Path | None, option("FILE", "The table's schema (TOML).", "--schema")]
DeclaredSchema = Annotated[Path, option("FILE", "The table's schema (TOML).", "--schema")]
TableFile = Annotated[str, argument("TABLE", "A .csv, .csv.gz or .parquet file.")]
VaultFolder = Annotated[
    Path, option("VAULT", "The vault; by default the current folder.", "--vault")
]
