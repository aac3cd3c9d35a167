"""Shell completion from names declared in `vault.toml` and schema files; it reads no data."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def one_of(choices: Mapping[str, str]) -> Callable[[str], list[tuple[str, str]]]:
    """Make a completion of the given words; each has a description."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        return [choice for choice in choices.items() if choice[0].startswith(incomplete)]

    return complete


def datasets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a data set of the vault."""
    return [name for name in _dataset_entries(ctx.params) if name.startswith(incomplete)]


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last of several columns, separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    typed = before.split(",")  # a column is not proposed twice
    # While an option lacks its value, the parser has not yet assigned the other words to names.
    names = _column_names(ctx.params, [str(ctx.params.get("name")), *ctx.args])
    return [
        f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in typed
    ]


def _dataset_entries(values: Mapping[str, Any]) -> dict[str, Any]:
    return _read_table(_vault_folder(values) / "vault.toml", "datasets")


def _column_names(values: Mapping[str, Any], arguments: list[str]) -> list[str]:
    """The columns of the schema that `--schema` names, or of the data set in the arguments."""
    if values.get("schema"):
        return list(_read_table(Path(values["schema"]), "columns"))
    return [
        column
        for name, dataset in _dataset_entries(values).items()
        if name in arguments
        for column in _read_table(_vault_folder(values) / dataset.get("schema", ""), "columns")
    ]


def _vault_folder(values: Mapping[str, Any]) -> Path:
    return Path(values.get("vault") or ".")


def _read_table(path: Path, name: str) -> dict[str, Any]:
    """A table of a TOML file; an unreadable file has none, since completion must not fail."""
    with suppress(OSError, ValueError):
        table = tomllib.loads(path.read_text(encoding="utf-8")).get(name)
        if isinstance(table, dict):
            return table
    return {}
