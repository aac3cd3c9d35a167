"""Options that several commands share, and helpers to declare parameters of commands."""

from __future__ import annotations

import getpass
import os
import shlex
from dataclasses import replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import columns, one_of
from sfumato.cli.help import GENERAL
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.operations.field import Field


_COLUMN_METAVARS = {"COLUMN", "COLUMN ...", "A,B"}
"""Metavars of columns, which the shell completes from the schema."""
command_line: list[str] = []
"""The arguments of this command, for pages that state how they were made."""
OUTPUT = "Output"
"""The topic of options about output files."""


def option(metavar: str | None, description: str, *flags: str, **settings: Any) -> Any:
    """Declare an option; `settings` are those of Typer."""
    return typer.Option(*flags, metavar=metavar, help=description, **settings)


def argument(metavar: str, description: str, **settings: Any) -> Any:
    """Declare a required argument; `settings` are those of Typer."""
    return typer.Argument(metavar=metavar, help=description, show_default=False, **settings)


def operator_name(operator: str | None) -> str:
    """The operator that the ledger records: the given one, else the user of this process."""
    if operator is not None:
        return operator
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run as a user without a name
        return f"user {os.getuid()}"


def declared(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
    """Make a keyword parameter for the signature of a command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def parameter_of(field: Field) -> Parameter:
    """Make an argument or an option from a field of a request."""
    settings: dict[str, Any] = {"metavar": field.metavar or None, "help": field.help}
    settings |= {"show_default": not field.required, "rich_help_panel": field.topic or None}
    if field.choices:
        settings["autocompletion"] = one_of(field.choices)
    elif field.metavar in _COLUMN_METAVARS:
        settings["autocompletion"] = columns
    # Without an explicit flag Typer adds --no-NAME to a switch.
    flag = field.flag or (f"--{field.name.replace('_', '-')}" if field.type is bool else None)
    flags = () if flag is None else (flag,)
    info = typer.Argument(**settings) if field.positional else typer.Option(*flags, **settings)
    is_optional = field.default is None and not field.required
    plain = Path if field.from_file else field.type
    kind = plain | None if is_optional else plain
    return declared(
        field.name, Annotated[kind, info], Parameter.empty if field.required else field.default
    )


def topic(name: str, fields: Iterable[Field]) -> list[Field]:
    """Put fields under a topic of help."""
    return [replace(field, topic=name) for field in fields]


def form(*fields: Field) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add fields to a command, which gets their values as keywords.

    They come after the required parameters of the command and before the others.
    """

    def add_fields(command: Callable[..., None]) -> Callable[..., None]:
        *own, _ = signature(command, eval_str=True).parameters.values()
        required = [parameter for parameter in own if parameter.default is Parameter.empty]
        optional = [parameter for parameter in own if parameter not in required]
        command.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                parameter.replace(kind=Parameter.KEYWORD_ONLY)
                for parameter in (*required, *map(parameter_of, fields), *optional)
            ]
        )
        return command

    return add_fields


Json = Annotated[
    bool,
    option(None, "Print one JSON object and nothing else.", "--json", rich_help_panel=GENERAL),
]
Overwrite = Annotated[
    bool,
    option(None, "Replace an existing output file.", "--overwrite", rich_help_panel=OUTPUT),
]
OwnersPage = Annotated[
    Path | None,
    option(
        "FILE.html", "Write an HTML report for the owner.", "--report",
        rich_help_panel=OUTPUT,
    ),
]  # fmt: skip
SchemaFile = Annotated[Path | None, option("FILE", "The table's schema (TOML).", "--schema")]
DeclaredSchema = Annotated[Path, option("FILE", "The table's schema (TOML).", "--schema")]
TableFile = Annotated[
    str,
    argument(
        "TABLE", "The table: a .csv, .tsv, .txt, .parquet, .xlsx, .sav, .dta or .sas7bdat file."
    ),
]
VaultFolder = Annotated[
    Path,
    option(
        "VAULT",
        "The vault; by default the current folder.",
        "--vault",
        show_default=False,
        rich_help_panel=GENERAL,
    ),
]


def check_page(page: Path | None, *sources: str | Path | None, overwrite: bool) -> None:
    """Refuse a page that cannot be written, or that would replace a source or a file of a vault."""
    if page is None:
        return
    from sfumato.filesystem import check_target
    from sfumato.release.files_in_use import source_files, vault_files_around

    used = [file for source in sources if source is not None for file in source_files(source)]
    check_target(page, overwrite=overwrite, kept=(*used, *vault_files_around(page)))


def write_owners_page(page: Path | None, make: Callable[[str], str], *, overwrite: bool) -> None:
    """Write the page that `make` returns for this command line, which is without passwords."""
    if page is None:
        return
    from sfumato.report.page import write_page

    typed = without_passwords(shlex.join(["sfumato", *command_line]))
    write_page(make(typed), page, overwrite=overwrite)
