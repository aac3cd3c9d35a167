"""How people are written down in a registry: as their column in the data sets has them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema_file import load as load_schema
from sfumato.errors import ParameterError, SchemaError
from sfumato.vault.config import PrivateSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.data.schema.schema import Schema
    from sfumato.vault.config import Config

_LONGEST = 1000
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_BROKEN = re.compile("[\0\r\n\ud800-\udfff]")
_LEAST, _MOST = -(2**63), 2**63 - 1


def person_kind(schema: Schema) -> Kind:
    """The kind of the column that tells people apart; refused where it is not exact."""
    assert schema.unit.column is not None
    kind = schema.column(schema.unit.column).kind
    if kind not in (Kind.INTEGER, Kind.TEXT):
        raise SchemaError(
            "person_kind_unfit",
            f"Who agreed cannot be looked up by {quoted(schema.unit.column)}, which is {kind}: a "
            "registry knows people by an integer or a text. Name another column as the unit, or "
            "leave the purposes out.",
        )
    return kind


def person_kinds(config: Config, population: str) -> dict[str, Kind]:
    """The kinds by which the data sets of a population, where they ask for consent, tell people."""
    found = {}
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet) and held.purposes and held.population == population:
            schema = load_schema(config.folder / held.schema)
            found[name] = person_kind(replace(schema, unit=held.unit))
    return found


def check_person_kinds(kinds: Mapping[str, Kind]) -> Kind:
    """Refuse data sets of one population that write its people in two ways; return the one."""
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{quoted(name)} by {kind}" for name, kind in kinds.items())
        raise SchemaError(
            "person_kinds_differ",
            f"Data sets of one population tell people apart in two ways: {told}. One registry "
            "holds for all of them, so declare the column with one kind in every schema.",
        )
    return next(iter(kinds.values()))


def fault_of(person: str, kind: Kind) -> str | None:
    """What is wrong with how a person is written, if anything; the person is not quoted."""
    if kind is Kind.INTEGER:
        if _INTEGER.fullmatch(person) and _LEAST <= int(person) <= _MOST:
            return None
        return "the person must be a whole number as the data has it, such as 1042"
    if not 0 < len(person) <= _LONGEST or _BROKEN.search(person):
        return f"the person must be a text of 1 to {_LONGEST} characters, all on one line"
    return None


def written(person: object, kind: Kind) -> str:
    """A person as the registry keeps it."""
    if isinstance(person, int) and not isinstance(person, bool):
        person = str(person)
    fault = fault_of(person, kind) if isinstance(person, str) else "it must be a text or a number"
    if fault is not None:
        raise ParameterError("person_wrong", f"Cannot look this person up: {fault}.")
    assert isinstance(person, str)
    return person


def as_column(people: Sequence[str], kind: Kind) -> pa.Array:
    """People as an engine compares them with their column."""
    if kind is Kind.INTEGER:
        return pa.array(map(int, people), pa.int64(), size=len(people))
    return pa.array(people, pa.string())
