"""What a vault's configuration declares of its data sets: their schemas, units and places."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.data.files.formats import is_pattern
from sfumato.data.schema.schema_file import load as load_schema
from sfumato.methods.query.sql.tables import PrivateRows, PublicRows
from sfumato.release.open_table import read
from sfumato.vault.accounts import source_of
from sfumato.vault.config import PrivateSet
from sfumato.vault.consent.person_ids import check_person_kinds, person_kinds
from sfumato.vault.datastore import Location, address, check_consent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.engines.source_identity import Identity
    from sfumato.data.schema.schema import Schema
    from sfumato.vault.config import Config
    from sfumato.vault.consent.registry import Consents


def schema_of(config: Config, name: str) -> Schema:
    """The schema of a data set, under the name and with the unit that the vault gives it."""
    held = config.datasets[name]
    schema = replace(load_schema(config.folder / held.schema), table=name)
    if not isinstance(held, PrivateSet):
        return schema
    schema = replace(schema, unit=held.unit)
    schema.layout.check_private()
    if held.consent is not None:
        check_consent(schema, held.consent)
    if held.purposes:
        check_person_kinds(person_kinds(config, held.population))
    return schema


def catalogue(config: Config, schemas: Mapping[str, Schema]) -> dict[str, PrivateRows | PublicRows]:
    """What is known of every data set before a question about it is read."""
    entries: dict[str, PrivateRows | PublicRows] = {}
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet):
            entries[name] = PrivateRows(schemas[name], held.unit, held.population)
            continue
        for columns in held.bounds:
            for column in columns:
                schemas[name].column(column)
        entries[name] = PublicRows(schemas[name], held.bounds)
    return entries


def location(
    config: Config,
    name: str,
    schema: Schema,
    *,
    consents: Consents,
    check_apart: Callable[[Identity], None],
) -> Location:
    """Where the rows of a data set lie and how they are read."""
    held = config.datasets[name]
    source = source_of(config.folder, held.source)
    unit = held.unit if isinstance(held, PrivateSet) else None
    file = None if "://" in source or is_pattern(Path(source)) else Path(source)
    consent = held.consent if isinstance(held, PrivateSet) else None
    columns = tuple(column.name for column in schema.columns)
    # One person's malformed or endless cell must not decide whether questions are answered.
    private = unit is not None
    reading = partial(read, source, schema, strict=not private, short_texts=private)
    there = address(source)
    layout = schema.layout
    found = Location(there, reading, unit, file, consent, source, columns, layout, check_apart)
    if private and found.in_files:
        found = replace(found, open_whole=partial(read, source, schema, strict=False))
    if not isinstance(held, PrivateSet) or not held.purposes:
        return found
    register = consents.register(held.population)
    return replace(found, purposes=held.purposes, register=register)
