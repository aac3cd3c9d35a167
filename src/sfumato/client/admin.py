"""What an owner does over HTTP: in the name of the token's holder, and never twice by accident.

What says how things are to be may be sent again, as everything else. What would do something else
the second time, such as moving a part of a budget, is sent once. Decision `client`.
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
    from collections.abc import Callable, Iterator, Mapping

    from sfumato.client.response_reader import Received

_ADMIN = "admin"


class OnceConnection(Connection):
    """Connections on which nothing is sent again: each request has a new one of its own."""

    def _once(self, *request: Any) -> Received:
        try:
            return super()._once(*request)
        except (SSLCertVerificationError, ConnectionRefusedError, gaierror):
            raise  # nothing was sent
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
    """Where an owner's changes are sent to."""

    connection: Connection
    holder: Callable[[], str]
    """Who holds the token."""

    def send(self, path: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Say how something is to be; it may be sent again."""
        with owners_only():
            return self.connection.send("POST", f"{_ADMIN}/{path}", _given(told)).json()

    def once_connection(self) -> OnceConnection:
        """Make a connection on which nothing is sent again."""
        kept = self.connection
        kept.check_open()
        return OnceConnection(kept.address, kept.token, kept.seconds, kept.trust)

    def check(self, operator: object) -> None:
        """Refuse to decide in the name of somebody else than the token's holder."""
        name, holder = arguments.text(operator, "operator"), self.holder()
        if name not in (OWNER, holder):
            raise PolicyError(
                "permission_missing",
                f"The token is that of {quoted(holder)}, in whose name this is done, not "
                f"{quoted(name)}. Leave out operator, or connect with the other token.",
            )


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Say that a server is none of ours where what it told cannot be read."""
    try:
        yield
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise unexpected(f"{what} that cannot be read") from error


@contextmanager
def owners_only() -> Iterator[None]:
    """Say what it means that nothing is there for who asks."""
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


def _given(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in told.items() if one is not None}
