"""What the shell may complete: names that are declared, read off two small files and no data."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def one_of(choices: Mapping[str, str]) -> Callable[[str], list[tuple[str, str]]]:
    """Complete one of some words, each with what is said of it."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        return [one for one in choices.items() if one[0].startswith(incomplete)]

    return complete


def datasets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a data set of the vault."""
    return [name for name in _datasets(ctx.params) if name.startswith(incomplete)]


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last of some columns, behind those that are written already."""
    before, comma, last = incomplete.rpartition(",")
    written = before.split(",")
    # Before an option has its value, the parser has not yet given the other words their names.
    names = _columns(ctx.params, [str(ctx.params.get("name")), *ctx.args])
    return [
        f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in written
    ]


def _datasets(given: Mapping[str, Any]) -> dict[str, Any]:
    return _table(_vault(given) / "vault.toml", "datasets")


def _columns(given: Mapping[str, Any], words: list[str]) -> list[str]:
    """The columns of the schema that is named, or of the data set's own."""
    if given.get("schema"):
        return list(_table(Path(given["schema"]), "columns"))
    entries = [one for name, one in _datasets(given).items() if name in words]
    return [
        name for one in entries for name in _table(_vault(given) / one.get("schema", ""), "columns")
    ]


def _vault(given: Mapping[str, Any]) -> Path:
    return Path(given.get("vault") or ".")


def _table(file: Path, name: str) -> dict[str, Any]:
    """A table of a TOML file, or nothing: completion never complains."""
    with suppress(OSError, ValueError):
        found = tomllib.loads(file.read_text(encoding="utf-8")).get(name)
        if isinstance(found, dict):
            return found
    return {}
