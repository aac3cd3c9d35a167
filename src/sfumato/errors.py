"""Every error that Sfumato raises on purpose.

::

    SfumatoError                 exit
    ├── CallerError               2   the caller's mistake; nothing was charged
    │   ├── ParameterError            a number or an option: epsilon, delta, k, bounds
    │   ├── SchemaError               a schema file, a column, a domain, a hierarchy
    │   ├── SourceError               a table or file that cannot be read as what it claims to be
    │   ├── OutputError               a file that cannot or must not be written
    │   └── QueryError                SQL that cannot be answered privately
    ├── RefusedError              3   refused for privacy
    │   ├── BudgetError               the budget is exhausted
    │   ├── PolicyError               an owner's rule or a missing consent
    │   └── CriterionError            no release reaches the criterion
    └── InternalError             1   our fault, or the machine's
        ├── EngineError               the database failed; its words stay in `detail`
        └── LedgerError               the ledger failed; no answer was given
            └── RolledBackError   3       it is older than its head: refused until that is settled

An error has a public ``message`` (what cannot be done, what was given, what is allowed, what to do
next), a stable ``code``, and a ``detail`` for the operator of the system, which may quote data and
is therefore never part of ``str(error)``, of a traceback's text or of any answer.
"""

from __future__ import annotations

from typing import ClassVar


class SfumatoError(Exception):
    """The root of the tree: a stable code, a public message, a private detail."""

    exit_code: ClassVar[int] = 1

    def __init__(self, code: str, message: str, *, detail: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes without the private detail."""
        return type(self), (self.code, self.message)


class CallerError(SfumatoError):
    """The caller's mistake."""

    exit_code = 2


class ParameterError(CallerError):
    """A parameter that is not a number, out of range, or at odds with another."""


class SchemaError(CallerError):
    """A schema, column, domain or hierarchy that does not make sense."""


class SourceError(CallerError):
    """A table or file that cannot be read as what it claims to be."""


class OutputError(CallerError):
    """A target that cannot, or must not, be written."""


class QueryError(CallerError):
    """A question that cannot be answered privately as it stands."""


class RefusedError(SfumatoError):
    """Refused for privacy."""

    exit_code = 3


class BudgetError(RefusedError):
    """The budget does not allow it."""


class PolicyError(RefusedError):
    """An owner's rule, or a missing consent, does not allow it."""


class CriterionError(RefusedError):
    """No release reaches the asked criterion."""


class InternalError(SfumatoError):
    """Our fault, or the machine's."""


class EngineError(InternalError):
    """A database engine failed; what it said may quote data and stays in the detail."""


class LedgerError(InternalError):
    """The ledger failed; it fails closed, so no answer was given."""


class RolledBackError(LedgerError):
    """The ledger is not the one that its outside head has seen: what was spent is unknown."""

    exit_code = 3


class LargeReleaseWarning(UserWarning):
    """A release of many rows is brought into memory, where it may not fit."""
