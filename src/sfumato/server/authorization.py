"""Callers: who sends a request, from which address, and whether they may take a route.

A token is looked up anew for every request, so a token that any server has revoked stops working at
once (decision `principals`). A caller without a token is counted by address. An IPv6 network has at
least 2^64 addresses, so a /64 counts as one. Behind a proxy the address is the one that a
configured proxy wrote into the request (decision `server-limits`).
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.errors import PolicyError, SfumatoError
from sfumato.server.problem_json import RequestError, UnreadyError, not_found
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Address

    from starlette.types import Scope

    from sfumato.server.routing import Route
    from sfumato.server.settings import Setting
    from sfumato.vault.vault import Vault

_BEARER = "bearer "
AUTHORITY = "sfumato.authority"
"""The key of the scope for the host of a request line such as `GET http://host/path`."""
UNKNOWN_PEER = "unknown"
_FORWARDED = b"x-forwarded-for"
_IPV6_PREFIX_BITS = 64


@dataclass(frozen=True)
class Caller:
    """The sender of a request: a principal by name, and the token that was sent."""

    principal: str
    token: str = ""
    """The public part of the token; empty without a token."""
    is_owner: bool = False
    peer: str = ""
    """The address, see `peer_of`."""

    @property
    def key(self) -> str:
        """The name under which requests are counted.

        Callers without a token are counted by address: with one common count, a single stranger
        could use up the limit of all others.
        """
        return f"token {self.token}" if self.token else f"peer {self.peer}"


def authorize(vault: Vault, route: Route, tokens: Sequence[str]) -> Caller:
    """Identify the caller of a route, or refuse them.

    Parameters
    ----------
    vault
        The vault whose principals may call.
    route
        The route, with the permissions that it needs.
    tokens
        The Authorization headers of the request.

    Raises
    ------
    RequestError
        If there is no valid token; the error does not say what is wrong with it.
    PolicyError
        If the token or its holder lacks a permission.
    """
    if route.open and not tokens:
        refresh(vault)
        public = vault.feed_registry.public
        if public is not None:
            return Caller(public.name)
    # Of two headers, a proxy may have checked one and this server would use the other.
    if len(tokens) != 1 or not tokens[0].lower().startswith(_BEARER):
        raise _token_refused()
    refresh(vault)
    try:
        holder = vault.token_registry.holder(tokens[0][len(_BEARER) :].strip())
    except PolicyError:
        # The same words for unknown, revoked and expired tokens: they tell an attacker nothing.
        raise _token_refused() from None
    person = holder.person
    if route.owner and not person.is_owner:
        raise not_found()  # to others the owner's routes do not exist
    if route.scope not in holder.scopes:
        raise PolicyError(
            "scope_missing",
            f"This token does not include {quoted(route.scope or '')}. Ask the vault's owner for "
            "one that does.",
        )
    if route.shape is not None:
        person.check(route.shape)
    return Caller(person.name, holder.token, person.is_owner)


def refresh(vault: Vault) -> None:
    """Read the configuration anew if it changed. While it is broken, everybody is refused."""
    try:
        vault.refresh()
    except SfumatoError as error:
        note_failure(vault.config.folder, "configuration", f"{error.message} {error.detail or ''}")
    else:
        return
    raise UnreadyError(
        "vault_unready",
        "The vault's configuration cannot be read. Nothing was charged. Its operator must mend "
        "it; then try again.",
        seconds=10,
    )


def _token_refused() -> RequestError:
    return RequestError(
        401,
        "token_refused",
        "Send a valid token, as 'Authorization: Bearer sfu_...'. Ask the vault's owner for one.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def check_caller(scope: Scope, setting: Setting) -> None:
    """Refuse a request under a foreign host name, or one that bypasses the encrypting proxy."""
    names = [value for name, value in scope["headers"] if name == b"host"]
    hosts = [*names, scope.get(AUTHORITY, *names[:1])]
    # Two Host headers, or one that differs from the request line, confuse proxies (smuggling).
    if len(names) != 1 or not setting.hosts.issuperset(map(_without_port, hosts)):
        raise RequestError(421, "host_unknown", "This server does not answer under that name.")
    # A caller who bypasses the proxy would send the token unencrypted.
    if setting.proxies:
        connected = _connected_address(scope)
        if connected is None or not (connected.is_loopback or is_proxy(connected, setting)):
            raise RequestError(
                403, "host_unknown", "This server can be reached through its proxy only."
            )


def _without_port(host: bytes) -> str:
    """The name in a Host header; an IPv6 address is in brackets."""
    name, colon, port = host.decode("latin-1").lower().rpartition(":")
    return name if colon and port.isdigit() else f"{name}{colon}{port}"


def peer_of(scope: Scope, setting: Setting) -> str:
    """The address that a request is counted by: an IPv4 address, or the /64 of an IPv6 address."""
    address = _connected_address(scope)
    if address is None:
        return UNKNOWN_PEER
    if is_proxy(address, setting):
        address = _forwarded_address(scope, setting) or address
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address), _IPV6_PREFIX_BITS), strict=False))
    return str(address)


def is_proxy(address: IPv4Address | IPv6Address, setting: Setting) -> bool:
    """Whether an address is one of the proxies that the operator has configured."""
    return any(address in network for network in setting.proxies)


def _connected_address(scope: Scope) -> IPv4Address | IPv6Address | None:
    connected = scope.get("client")
    return None if connected is None else parse_address(connected[0])


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address; None if it is none. An IPv4 address inside an IPv6 one is IPv4."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # One socket for both families shows IPv4 addresses as part of IPv6.
    return getattr(address, "ipv4_mapped", None) or address


def _forwarded_address(scope: Scope, setting: Setting) -> IPv4Address | IPv6Address | None:
    """The address that the outermost configured proxy saw.

    Each proxy appends the address of its own caller. So only the right end of the list can be
    trusted: the caller may have invented the entries further left.
    """
    lines = [value for name, value in scope["headers"] if name == _FORWARDED]
    for entry in reversed(b",".join(lines).decode("latin-1").split(",")):
        address = parse_address(entry.strip())
        if address is None or not is_proxy(address, setting):
            return address
    return None
