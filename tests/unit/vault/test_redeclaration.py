"""A data set is declared anew: what its people were promised stays, and all see it at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.data.schema.column import Column, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema_file import load
from sfumato.vault.registration import redeclare
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.data.schema.schema import Schema


@pytest.fixture
def vault(files: Path) -> Iterator[sf.Vault]:
    with create_vault(files / "clinic") as made:
        made.add("visits", "visits.csv", "visits.toml", epsilon=3)
        yield made


def changed(schema: Schema, name: str, **facts: object) -> Schema:
    columns = tuple(
        replace(one, **facts) if one.name == name else one  # type: ignore[arg-type]
        for one in schema.columns
    )
    return replace(schema, columns=columns)


def test_every_process_asks_by_what_is_declared_now(vault: sf.Vault, files: Path) -> None:
    with sf.open(files / "clinic") as other:
        before = vault.private("visits").explain("SELECT SUM(cost) FROM visits", epsilon=1)
        wider = changed(
            load(files / "visits.toml"), "cost", domain=Bounds(0, 1000), role=Role.QUASI
        )
        redeclare(vault, "visits", wider)
        other.refresh()
        for one in (vault, other):
            assert one.private("visits").schema.column("cost").domain == Bounds(0, 1000)
            after = one.private("visits").explain("SELECT SUM(cost) FROM visits", epsilon=1)
            assert after != before
    assert load(files / "visits.toml").column("cost").role is Role.QUASI


def test_what_does_not_fit_leaves_the_file_as_it_was(vault: sf.Vault, files: Path) -> None:
    file = files / "visits.toml"
    schema, text = load(file), file.read_text()
    bare = changed(schema, "cost", domain=None)
    assert code_of(redeclare, vault, "visits", bare) == "bounds_missing"
    more = replace(schema, columns=(*schema.columns, Column("absent", sf.Kind.TEXT)))
    assert code_of(redeclare, vault, "visits", more) == "column_unknown"
    assert code_of(redeclare, vault, "visitors", schema) == "dataset_unknown"
    assert file.read_text() == text


def test_the_unit_is_a_promise_and_stays(vault: sf.Vault, files: Path) -> None:
    schema = load(files / "visits.toml")
    redeclare(vault, "visits", replace(schema, unit=sf.Entity("patient", 2)))
    assert load(files / "visits.toml").unit == schema.unit
