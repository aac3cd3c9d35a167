"""Run operations on a vault of this machine: one that is open, or a folder for one command."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.operations.fields import read
from sfumato.operations.operation import OPERATIONS, Context
from sfumato.vault.principals import OWNER
from sfumato.vault.vault import ledger_access

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.operations.fields import Request
    from sfumato.operations.operation import Operation
    from sfumato.vault.vault import LedgerAccess


def call_locally(
    vault: LedgerAccess, request: type[Request], operator: str = OWNER, /, **values: Any
) -> Any:
    """Run a request on an open vault.

    No permission is checked: whoever can read the folder of a vault is its owner.
    """
    context = Context(vault, operator=arguments.text(operator, "operator"))
    return OPERATIONS[request].run(context, read(request, values))


@contextmanager
def open_context(folder: Path, operation: Operation, operator: str) -> Iterator[Context]:
    """Open as much of a vault as an operation needs: nothing, its ledger, or its data sets too."""
    if operation.local:
        yield Context(None, operator=operator)
    elif operation.whole_vault:
        from sfumato.vault.vault import open_vault

        with open_vault(folder) as vault:
            yield Context(vault, operator=operator)
    else:
        # So budgets and tokens can be changed while a data base is out of reach.
        with ledger_access(folder) as access:
            yield Context(access, operator=operator)
