"""Storage failures: one error for callers; the cause goes to the operator alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def do_nothing(_event: str) -> None:
    """Do nothing: the default hook for steps of a commit, and for causes of a failure."""


def storage_failure(
    error: Exception, tell_operator: Callable[[str], None] = do_nothing
) -> LedgerError:
    """The error for a failed storage; its cause is told to the operator alone."""
    cause = _cause(error)
    tell_operator(cause)
    return LedgerError(
        "ledger_failed",
        "The ledger's storage failed; no answer is given. Its operator finds the cause in the "
        "vault's failures.log: mend it and try again.",
        detail=cause,
    )


def file_replaced(name: str) -> LedgerError:
    """The error for a file that was replaced or removed while it was open."""
    return LedgerError(
        "ledger_replaced",
        f"The file {name!r} was replaced or removed while it was open, as by a restored backup; "
        "what others spend is unknown and no answer is given.",
        hint="Open it again: open the vault anew, or restart the server.",
    )


@contextmanager
def closed_on_failure(tell_operator: Callable[[str], None] = do_nothing) -> Iterator[None]:
    """Turn every exception while opening a ledger into a `LedgerError`: fail closed."""
    try:
        yield
    except LedgerError:
        raise
    except Exception as error:  # noqa: BLE001 - the closed door is the same for all
        raise storage_failure(error, tell_operator) from None


def _cause(error: Exception) -> str:
    """The driver's or system's message, without the statement, its values and any password."""
    original = getattr(error, "orig", None) or error
    name = getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None)
    message = f"{type(original).__name__}: {original}{f' [{name}]' if name else ''}"
    return without_passwords(message)
