"""The size of each principal's stored answers, kept as a sum per principal. Decision
`server-limits`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import inspect

from sfumato.privacy.ledger.chain import ENTRY_BYTES
from sfumato.privacy.ledger.sql import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection


def has_stored(connection: Connection) -> bool:
    """Whether the database has the table of sums; one of an earlier version has none."""
    return inspect(connection).has_table(tables.stored.name)


def add_stored(connection: Connection) -> None:
    """Create the table of sums unless another process just did; call it under the locks."""
    if has_stored(connection):
        return
    tables.stored.create(connection)
    for principal, length, answered in connection.execute(tables.SUM_ANSWERS).all():
        total = length + answered * ENTRY_BYTES
        connection.execute(tables.ADD_STORED, {"principal": principal, "bytes": total})


def read_stored(connection: Connection) -> dict[str, int]:
    """The sums of all principals."""
    return {row.principal: row.bytes for row in connection.execute(tables.ALL_STORED)}


def raise_stored(connection: Connection, added_bytes: Mapping[str, int]) -> None:
    """Add bytes to the sums of principals, in the transaction that stores their answers."""
    for principal, size in added_bytes.items():
        raised = {"of_principal": principal, "more": size}
        if not connection.execute(tables.RAISE_STORED, raised).rowcount:
            connection.execute(tables.ADD_STORED, {"principal": principal, "bytes": size})
