"""`sf.protect`: one table under a budget in memory, without a vault."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.data.schema.unit import UNITS
from sfumato.errors import ParameterError
from sfumato.exact_numbers import EPSILON_MAXIMUM, positive
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.memory import memory_ledger
from sfumato.release.open_table import Table, read
from sfumato.vault.answer import AnswerIndex
from sfumato.vault.config import OWNER
from sfumato.vault.datastore import IN_PROCESS, DataStore, Location
from sfumato.vault.gatekeeper import Gatekeeper
from sfumato.vault.private import Private
from sfumato.vault.session import Asker, Session

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.exact_numbers import Number


def protect(
    table: Table | Source,
    schema: str | Path | Schema | None = None,
    *,
    unit: Unit | None = None,
    epsilon: Number,
    delta: Number = 0,
    max_epsilon: Number = EPSILON_MAXIMUM,
) -> Private:
    """Put a table under a budget in memory; answers to queries on it are differentially private.

    Parameters
    ----------
    table
        A table of `sf.read`, a data frame or a path. The last two need a `schema`.
    schema
        The declared columns: an `sf.Schema` or the path of a TOML file.
    unit
        What one person can change: `sf.Rows()` or `sf.Entity(...)`; by default the schema's.
    epsilon, delta
        The budget that all answers together may spend.
    max_epsilon
        The largest epsilon of the budget and of one query: beyond 10 hardly anything is hidden.

    Returns
    -------
    Private
        The table with its queries, publications and syntheses.

    Raises
    ------
    ParameterError
        For amounts out of range, or a table without a schema.

    Examples
    --------
    >>> private = sf.protect(df, "people.toml", epsilon=1)  # doctest: +SKIP
    >>> private.query("SELECT COUNT(*) AS n FROM people", epsilon=0.1)  # doctest: +SKIP
    """
    if unit is not None:
        arguments.require(unit, "unit", UNITS, "sf.Rows() or sf.Entity(...)")
    table = _declared(table, schema)
    maximum = positive(max_epsilon, "max_epsilon")
    budget = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta, maximum=maximum)
    schema = table.schema if unit is None else replace(table.schema, unit=unit)
    name, held = schema.table, replace(table, schema=schema)
    ledger = memory_ledger()
    ledger.open_account(name, budget=budget)
    # The same ledger and gatekeeper as a vault's, in memory: one order of charge and read for all
    # doors.
    ledger.attach(name, account=name)
    session = Session(
        {name: PrivateRows(schema, schema.unit, name)},
        DataStore({name: Location(IN_PROCESS, lambda: held, schema.unit)}),
        Gatekeeper(ledger, AnswerIndex()),
        maximum,
        table.files,
    )
    return Private(session, lambda _: Asker(OWNER, (name,)), name)


def _declared(table: Table | Source, schema: str | Path | Schema | None) -> Table:
    """A table with its declared schema."""
    if isinstance(table, Table):
        if schema is not None:
            raise ParameterError(
                "options_conflict",
                "The table has its schema already, from sf.read. Give the schema there, or protect "
                "the data frame or path itself.",
            )
        return table
    # Bounds and values guessed from the rows would already tell about people.
    if schema is None:
        raise ParameterError(
            "schema_missing",
            "What a table under a budget holds must be declared, not guessed from its rows. Give "
            "schema='people.toml' or an sf.Schema; sf.read(table).save_schema(path) writes one to "
            "begin with.",
        )
    return read(table, schema)
