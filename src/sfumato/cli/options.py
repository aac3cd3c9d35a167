"""Options that several commands share, and short words for declaring others."""

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

    from sfumato.vault.family import Field


_COLUMNS = {"COLUMN", "COLUMN ...", "A,B"}
"""The words for columns, which the shell completes from the schema."""
typed_words: list[str] = []
"""What was typed behind the name of the program, for pages that tell how they were made."""
OUTPUT = "Output"
"""The topic under which help tells where results go."""


def option(metavar: str | None, told: str, *flags: str, **more: Any) -> Any:
    """An option with the word that stands for its value, and a line of help."""
    return typer.Option(*flags, metavar=metavar, help=told, **more)


def decided_by(operator: str | None) -> str:
    """In whose name the ledger notes a decision: who is given, else who is logged in here."""
    if operator is not None:
        return operator
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # as in a container, whose user has no name
        return f"user {os.getuid()}"


def argument(metavar: str, told: str, **more: Any) -> Any:
    """An argument that must be given."""
    return typer.Argument(metavar=metavar, help=told, show_default=False, **more)


def declared(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
    """A parameter of a command, as its parser takes it."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def parameter_of(field: Field) -> Parameter:
    """A field of a form as an argument or an option of a command."""
    words: dict[str, Any] = {"metavar": field.metavar or None, "help": field.help}
    words |= {"show_default": not field.required, "rich_help_panel": field.topic or None}
    if field.choices:
        words["autocompletion"] = one_of(field.choices)
    elif field.metavar in _COLUMNS:
        words["autocompletion"] = columns
    flag = field.flag or (f"--{field.name.replace('_', '-')}" if field.type is bool else None)
    flags = () if flag is None else (flag,)
    info = typer.Argument(**words) if field.positional else typer.Option(*flags, **words)
    optional = field.default is None and not field.required
    given = Path if field.from_file else field.type
    kind = given | None if optional else given
    return declared(field.name, Annotated[kind, info], field.parameter.default)


def topic(name: str, fields: Iterable[Field]) -> list[Field]:
    """Fields that help tells under a heading of their own."""
    return [replace(one, topic=name) for one in fields]


def form(*fields: Field) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a form, behind what it must be given, as keywords."""

    def formed(command: Callable[..., None]) -> Callable[..., None]:
        *own, _ = signature(command, eval_str=True).parameters.values()
        needed = [one for one in own if one.default is Parameter.empty]
        rest = [one for one in own if one not in needed]
        asked = [*needed, *map(parameter_of, fields), *rest]
        made = Signature([one.replace(kind=Parameter.KEYWORD_ONLY) for one in asked])
        command.__signature__ = made  # type: ignore[attr-defined]
        return command

    return formed


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
        "FILE.html", "Write a page with pictures, for the owner.", "--report",
        rich_help_panel=OUTPUT,
    ),
]  # fmt: skip
SchemaFile = Annotated[Path | None, option("FILE", "The table's schema (TOML).", "--schema")]
DeclaredSchema = Annotated[Path, option("FILE", "The table's schema (TOML).", "--schema")]
TableFile = Annotated[
    str, argument("TABLE", "A .csv, .tsv, .txt, .parquet, .xlsx, .sav, .dta or .sas7bdat file.")
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
    """Refuse a file that cannot be written, or that would replace what it is made from."""
    if page is None:
        return
    from sfumato.filesystem import check_target
    from sfumato.release.files_in_use import source_files, vault_files_around

    used = [file for one in sources if one is not None for file in source_files(one)]
    check_target(page, overwrite=overwrite, kept=(*used, *vault_files_around(page)))


def write_owners_page(page: Path | None, made: Callable[[str], str], *, overwrite: bool) -> None:
    """Write the page that is `made` with the command as it was typed, without passwords."""
    if page is None:
        return
    from sfumato.report.page import write_page

    typed = without_passwords(shlex.join(["sfumato", *typed_words]))
    write_page(made(typed), page, overwrite=overwrite)
