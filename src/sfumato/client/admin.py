"""Changes by owners over HTTP: made in the name of the token's holder, never twice by accident.

A request that sets a state may be sent again. One that has another effect the second time, such as
moving a part of a budget, is sent once. Decision `client`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from socket import gaierror
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.client.connection import Connection
from sfumato.client.error_reader import unexpected
from sfumato.data.schema.names import quoted
from sfumato.errors import InternalError, PolicyError, SfumatoError
from sfumato.vault.principals import OWNER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.client.response_reader import Received


class OnceConnection(Connection):
    """A connection that sends nothing twice; each request opens a new one."""

    def _once(self, *request: Any) -> Received:
        try:
            return super()._once(*request)
        except (SSLCertVerificationError, ConnectionRefusedError, gaierror):
            raise  # nothing was sent, so nothing was changed
        except (OSError, HTTPException) as error:
            raise InternalError(
                "change_uncertain",
                f"The connection to {self.address} broke off before it said whether the change was "
                f"made ({type(error).__name__}). Look how things stand there, and change again "
                "what was not.",
            ) from None
        finally:
            self._let_go()


@dataclass(frozen=True)
class Office:
    """The connection by which an owner makes changes."""

    connection: Connection
    holder: Callable[[], str]
    """Returns the holder of the token."""

    def once_connection(self) -> OnceConnection:
        """Make a connection that sends nothing again."""
        shared = self.connection
        # A closed vault must not be changed through a new connection.
        shared.check_open()
        return OnceConnection(shared.address, shared.token, shared.seconds, shared.trust)

    def check(self, operator: object) -> None:
        """Refuse an operator other than the holder of the token."""
        # The server records the holder anyway; another name here would be a false record.
        name, holder = arguments.text(operator, "operator"), self.holder()
        if name not in (OWNER, holder):
            raise PolicyError(
                "permission_missing",
                f"The token is that of {quoted(holder)}, in whose name this is done, not "
                f"{quoted(name)}. Leave out operator, or connect with the other token.",
            )


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise one error for any response that cannot be read."""
    try:
        yield
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise unexpected(f"{what} that cannot be read") from error


@contextmanager
def owners_only() -> Iterator[None]:
    """Explain `not_found` where the path is for owners: it looks missing to others."""
    try:
        yield
    except SfumatoError as error:
        if error.code != "not_found":
            raise
        raise PolicyError(
            "permission_missing",
            "Only an owner of the vault may do this, with a token that is good for 'admin'. Ask "
            "the vault's owner.",
        ) from None
