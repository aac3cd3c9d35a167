"""What becomes of a failing storage: one closed door, and the cause for its operator alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def pass_by(_told: str) -> None:
    """Do nothing: at a step of the protocol, where fault tests put a crash, or with a cause."""


def failure(error: Exception, tell_operator: Callable[[str], None] = pass_by) -> LedgerError:
    """The error for a storage that failed; what the system said is the operator's."""
    cause = _cause(error)
    tell_operator(cause)
    return LedgerError(
        "ledger_failed",
        "The ledger's storage failed; no answer is given. Its operator finds the cause in the "
        "vault's failures.log: mend it and try again.",
        detail=cause,
    )


def replaced(name: str) -> LedgerError:
    """The error for a file that another was put in the place of while it was open."""
    return LedgerError(
        "ledger_replaced",
        f"The file {name!r} was replaced or removed while it was open, as by a restored backup; "
        "what others spend is unknown and no answer is given.",
        hint="Open it again: open the vault anew, or restart the server.",
    )


@contextmanager
def closed_on_failure(tell_operator: Callable[[str], None] = pass_by) -> Iterator[None]:
    """Whatever goes wrong in opening a ledger, there is none."""
    try:
        yield
    except LedgerError:
        raise
    except Exception as error:  # noqa: BLE001 - the closed door is the same for all
        raise failure(error, tell_operator) from None


def _cause(error: Exception) -> str:
    """What the driver or the system said: neither the statement nor its values nor a password."""
    said = getattr(error, "orig", None) or error
    name = getattr(said, "sqlite_errorname", None) or getattr(said, "sqlstate", None)
    words = f"{type(said).__name__}: {said}{f' [{name}]' if name else ''}"
    return without_passwords(words)
