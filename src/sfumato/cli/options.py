"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output file.")]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="The table's schema (TOML).")
]
DeclaredSchema = Annotated[
    Path, typer.Option("--schema", metavar="FILE", help="The table's schema (TOML).")
]
TableFile = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="A .csv, .csv.gz or .parquet file.", show_default=False),
]
VaultFolder = Annotated[
    Path,
    typer.Option("--vault", metavar="VAULT", help="The vault; by default the current folder."),
]
Epsilon = Annotated[
    str | None,
    typer.Option(metavar="E", help="What it may cost; by default a tenth of the budget."),
]
Rho = Annotated[str | None, typer.Option(metavar="R", help="The same in zero-concentrated terms.")]
Principal = Annotated[str, typer.Option(metavar="NAME", help="Who asks, and from whose budget.")]
