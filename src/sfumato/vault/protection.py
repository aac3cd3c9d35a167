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
    """Put a table under a budget in memory; every answer about it is differentially private.

    The budget lives in this process: a new `protect` of the same rows begins a new budget, and
    nothing adds the two up. Use a vault (`sf.init`) for a budget that lasts.

    Parameters
    ----------
    table
        A table of `sf.read`, a data frame, a list of records or a path. All but the first need a
        `schema`.
    schema
        The declared columns: an `sf.Schema` or the path of a TOML file. It is never guessed from
        the rows, because a guess would already tell about people.
    unit
        What one person can change: `sf.Rows()` if each row is a person, `sf.Entity(...)` if a
        person has several rows. Default: the unit of the schema.
    epsilon, delta
        The budget that all answers together may spend.
    max_epsilon
        The largest epsilon of the budget and of one query. Beyond 10 hardly anything is hidden.

    Returns
    -------
    Private
        The table; `query`, `publish`, `synthesize`, `learn` and `run` answer from it.

    Raises
    ------
    ParameterError
        If an amount is out of range, or the table has no schema.

    Example
    -------
    >>> import sfumato as sf
    >>> columns = (
    ...     sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 120)),
    ...     sf.Column("sex", sf.Kind.TEXT, domain=sf.Values(("f", "m"))),
    ... )
    >>> rows = [{"age": 20 + n % 60, "sex": "fm"[n % 2]} for n in range(1000)]
    >>> private = sf.protect(rows, sf.Schema("people", columns), epsilon=1)
    >>> answer = private.query("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", epsilon="0.1")
    >>> answer.table.column_names
    ['sex', 'n']
    >>> private.balance
    'epsilon 0.9 of 1 left'
    """
    if unit is not None:
        arguments.require(unit, "unit", UNITS, "sf.Rows() or sf.Entity(...)")
    table = _declared(table, schema)
    maximum = positive(max_epsilon, "max_epsilon")
    budget = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta, maximum=maximum)
    schema = table.schema if unit is None else replace(table.schema, unit=unit)
    name, protected = schema.table, replace(table, schema=schema)
    ledger = memory_ledger()
    ledger.open_account(name, budget=budget)
    # The same ledger and gatekeeper as those of a vault, in memory: the charge comes before the
    # rows are read here too.
    ledger.attach(name, account=name)
    session = Session(
        {name: PrivateRows(schema, schema.unit, name)},
        DataStore({name: Location(IN_PROCESS, lambda: protected, schema.unit)}),
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
