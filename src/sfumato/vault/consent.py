"""Consent: of a data set that declares it, questions see the rows of those who agreed alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.engines.statement import column as named_column
from sfumato.engines.statement import everything
from sfumato.errors import SchemaError
from sfumato.privacy.units import Entity
from sfumato.schema.column import Kind
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit
    from sfumato.schema.schema import Schema


def check_consent(schema: Schema, column: str) -> None:
    """Refuse a column of consent that is not declared as a truth value."""
    declared = schema.column(column)
    if declared.kind is not Kind.BOOLEAN:
        raise SchemaError(
            "consent_not_boolean",
            f"Consent cannot be read from {quoted(column)}, which is {declared.kind}. Name a "
            "column of kind boolean that is true where a person agreed.",
        )


def consenting(table: exp.Table, unit: Unit, column: str) -> exp.Query:
    """The rows of people all of whose rows say yes; NULL is no.

    Whether a row is seen depends on its own person alone, so that consent changes nothing about
    what one person can move.
    """
    agreed = named_column(column)
    if not isinstance(unit, Entity):
        return everything(table.copy()).where(agreed)
    person = named_column(unit.column)
    said_yes = exp.case().when(agreed, exp.convert(1)).else_(exp.convert(0))
    people = (
        exp.select(person).from_(table.copy()).group_by(person).having(exp.Min(this=said_yes).eq(1))
    )
    return everything(table.copy()).where(exp.In(this=person.copy(), query=people.subquery()))
