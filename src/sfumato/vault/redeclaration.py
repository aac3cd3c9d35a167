"""Declaring other things of a data set that a vault already holds: roles, bounds, hierarchies.

What its people were promised, the unit and the budget, stays. Written whole or not at all, once the
table was found to fit it; every process takes it up with its next request. Decision 0284.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.schema_file import dump, load, parse
from sfumato.data.schema.schema_file import save as save_schema
from sfumato.errors import ParameterError
from sfumato.release.files_in_use import VAULT
from sfumato.release.open_table import read
from sfumato.vault.accounts import source_of
from sfumato.vault.config import PrivateSet, changing
from sfumato.vault.consent.person_ids import check_person_kinds, person_kind, person_kinds
from sfumato.vault.datastore import check_consent
from sfumato.vault.registration import check_bounds

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.schema import Schema
    from sfumato.vault.config import Config
    from sfumato.vault.vault import Vault


def schema_file(config: Config, name: str) -> Path:
    """The file in which a data set of a vault is declared."""
    held = config.datasets.get(name)
    if held is None:
        raise ParameterError(
            "dataset_unknown", f"There is no {quoted(name)}; {suggestion(name, config.datasets)}"
        )
    return config.folder / held.schema


def redeclare(vault: Vault, name: str, schema: Schema) -> None:
    """Let a schema be what is declared of a data set from now on, but for its unit."""
    folder = vault.config.folder
    with changing(folder) as config:
        file = schema_file(config, name)
        held = config.datasets[name]
        schema = replace(schema, unit=load(file).unit)
        if isinstance(held, PrivateSet):
            _check_private(config, name, held, replace(schema, table=name, unit=held.unit), file)
        parse(dump(schema, folder=file.parent), str(file), file.parent)
        with read(source_of(folder, held.source), schema, strict=False):
            save_schema(schema, file, overwrite=True)
        os.utime(folder / VAULT)  # by which others see that there is something to take up
    vault.refresh()


def _check_private(config: Config, name: str, held: PrivateSet, schema: Schema, file: Path) -> None:
    check_bounds(schema, file)
    schema.layout.check_private()
    if held.consent is not None:
        check_consent(schema, held.consent)
    if held.purposes:
        others = {**person_kinds(config, held.population), name: person_kind(schema)}
        check_person_kinds(others)
