"""Adding a data set to a vault from Python: what is at hand becomes what a vault keeps.

A vault keeps where a table and its schema lie, so a schema that is only in memory is written into
its folder, and a table that is only in memory is refused.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import save
from sfumato.data.schema.unit import UNITS
from sfumato.errors import ParameterError
from sfumato.release.open_table import Table
from sfumato.vault.config import check_name
from sfumato.vault.registration import Registration, add_public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sfumato.data.schema.unit import Unit


def add_dataset(
    folder: Path,
    name: str,
    source: str | Path | Table,
    schema: str | Path | Schema | None,
    *,
    unit: Unit | str | None,
    public: bool,
    unique: Sequence[str | Sequence[str]],
    warn: Callable[[str], None],
    **asked: Any,
) -> None:
    """Add a private data set with its budget, or a public table."""
    place, declared, unit = declared_of(name, source, schema, unit)
    what: dict[str, Any] = {"name": name, "source": place, "warn": warn}
    with _schema_file(folder, name, declared) as file:
        if not arguments.flag(public, "public"):
            if unique:
                raise ParameterError(
                    "option_without_other", "unique is for tables that are public. Drop it."
                )
            Registration(**what, schema=file, unit=unit, **_texts(asked)).add_to(folder)
            return
        useless = [one for one, value in {"unit": unit, **asked}.items() if value not in (None, 0)]
        if useless:
            raise ParameterError(
                "option_without_other", f"A public table has no {useless[0]}. Leave it out."
            )
        keys = {arguments.names(one, "unique"): 1 for one in unique}
        add_public(folder, schema=file, keys=keys, **what)


def declared_of(
    name: str, source: object, schema: object, unit: object
) -> tuple[str, object, str | None]:
    """Where a table lies, what is declared of it, and a unit in words that the schema has not."""
    check_name(arguments.text(name, "name"), "A data set")
    place = _place(source)
    declared = source.schema if schema is None and isinstance(source, Table) else schema
    if declared is None:
        raise ParameterError(
            "schema_missing",
            f"What {quoted(name)} holds must be declared. Give schema='{name}.toml' or an "
            "sf.Schema; sf.read(source).save_schema(path) writes one to begin with.",
        )
    if unit is None or isinstance(unit, str):
        return place, declared, unit
    allowed = "sf.Rows(), sf.Entity(...), 'row' or the name of a column"
    found = arguments.require(unit, "unit", UNITS, allowed)
    return place, replace(loaded(declared), unit=found), None


def _texts(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The amounts and bounds as they are, the names checked to be texts."""
    names = {one: arguments.maybe_text(asked[one], one) for one in ("population", "consent")}
    purposes = asked["purposes"]
    listed = None if purposes is None else arguments.names(purposes, "purposes")
    return {**asked, **names, "purposes": listed}


def _place(source: object) -> str:
    """Where a table lies for good."""
    place = source.source if isinstance(source, Table) else source
    if not isinstance(place, str | Path):
        raise ParameterError(
            "source_not_durable",
            "A vault answers from a file or a database, not from a table in memory: "
            f"{arguments.shown(place)} was given. Save the table as Parquet and add the path, or "
            "put it under a budget for this process with sf.protect.",
        )
    return str(place)


def loaded(schema: object) -> Schema:
    """A schema, from its file where that is given."""
    if isinstance(schema, Schema):
        return schema
    return Schema.load(arguments.require(schema, "schema", (str, Path), "a path or an sf.Schema"))


@contextmanager
def _schema_file(folder: Path, name: str, schema: object) -> Iterator[Path]:
    """The file of a schema; one in memory is written into the vault, and goes if it is refused."""
    if not isinstance(schema, Schema):
        yield arguments.path(schema, "schema")
        return
    file = folder / f"{name}.toml"
    save(schema, file, private=True)
    try:
        yield file
    except BaseException:
        file.unlink()
        raise
