"""Who calls, and whether they may: the one place where a route is opened to somebody.

A token is looked up anew for every request, so that what was revoked or expired, by whichever
server, ends at once. Decision `principals`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.errors import PolicyError, SfumatoError
from sfumato.server.peers import is_proxy, parse_address
from sfumato.server.problem_json import RequestError, UnreadyError, not_found
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Scope

    from sfumato.server.routing import Route
    from sfumato.server.settings import Setting
    from sfumato.vault.vault import Vault

_BEARER = "bearer "
AUTHORITY = "sfumato.authority"
"""Where a request that names a host in its first line has it."""


@dataclass(frozen=True)
class Caller:
    """Who calls: a principal by name, and by which token."""

    principal: str
    token: str = ""
    """The public part of the token."""
    is_owner: bool = False
    peer: str = ""
    """The address by which those without a token are counted, see `gate.peers`."""


def admitted(vault: Vault, route: Route, shown: Sequence[str]) -> Caller:
    """Who shows a token, if it may take the route; refused without a word on what is wrong."""
    if route.open and not shown:
        refresh(vault)
        public = vault.feed_registry.public
        if public is not None:
            return Caller(public.name)
    if len(shown) != 1 or not shown[0].lower().startswith(_BEARER):
        raise refused()
    refresh(vault)
    try:
        holder = vault.token_registry.holder(shown[0][len(_BEARER) :].strip())
    except PolicyError:
        raise refused() from None
    person = holder.person
    if route.owner and not person.is_owner:
        raise not_found()
    if route.scope not in holder.scopes:
        raise PolicyError(
            "scope_missing",
            f"This token is not good for {quoted(route.scope or '')}. Ask the vault's owner for "
            "one that is.",
        )
    if route.shape is not None:
        person.check(route.shape)
    return Caller(person.name, holder.token, person.is_owner)


def refresh(vault: Vault) -> None:
    """Go by the configuration as it is now; while it is broken nobody is let in by an old one."""
    try:
        vault.refresh()
    except SfumatoError as error:
        note_failure(vault.config.folder, "configuration", f"{error.message} {error.detail or ''}")
    else:
        return
    raise UnreadyError(
        "vault_unready",
        "The vault's configuration cannot be read as it stands. Nothing was charged. Let its "
        "operator mend it, and try again.",
        seconds=10,
    )


def refused() -> RequestError:
    """What is said to whoever shows no good token, whatever is wrong with it."""
    return RequestError(
        401,
        "token_refused",
        "Send a token that is good here, as 'Authorization: Bearer sfu_...'. Ask the vault's owner "
        "for one.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def check_caller(scope: Scope, setting: Setting) -> None:
    """Refuse who comes by a name that is not ours, or past the proxy that encrypts."""
    names = [value for name, value in scope["headers"] if name == b"host"]
    meant = [*names, scope.get(AUTHORITY, *names[:1])]
    if len(names) != 1 or not setting.hosts.issuperset(map(_without_port, meant)):
        raise RequestError(421, "host_unknown", "This server does not answer under that name.")
    if setting.proxies and not _is_near(scope.get("client"), setting):
        raise RequestError(403, "host_unknown", "This server is reached through its proxy alone.")


def _is_near(peer: tuple[str, int] | None, setting: Setting) -> bool:
    """Whether a connection comes from a proxy, or never left this machine."""
    address = None if peer is None else parse_address(peer[0])
    return address is not None and (address.is_loopback or is_proxy(address, setting))


def _without_port(host: bytes) -> str:
    """The name in a Host header; an IPv6 address stands in brackets."""
    name, colon, port = host.decode("latin-1").lower().rpartition(":")
    return name if colon and port.isdigit() else f"{name}{colon}{port}"
