"""The peer behind a request: the address by which callers without a token are counted.

A stranger has no name, so limits and fair shares go by address. Whoever has an IPv6 network has at
least 2^64 addresses, so a /64 counts as one peer. Behind a proxy the connection's address is the
proxy's; the caller's own is believed only where a configured proxy wrote it. Decision
`server-limits`.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address

    from starlette.types import Scope

    from sfumato.server.settings import Setting

UNKNOWN_PEER = "unknown"
_FORWARDED = b"x-forwarded-for"
_IPV6_PREFIX_BITS = 64


def peer_of(scope: Scope, setting: Setting) -> str:
    """The peer of a request: an IPv4 address, or the /64 of an IPv6 address."""
    connected = scope.get("client")
    address = None if connected is None else parse_address(connected[0])
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


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, None where the text is none; an IPv4 address inside an IPv6 one is IPv4."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # One socket for both families shows IPv4 addresses as part of IPv6.
    return getattr(address, "ipv4_mapped", None) or address


def _forwarded_address(scope: Scope, setting: Setting) -> IPv4Address | IPv6Address | None:
    """The address that the outermost configured proxy saw.

    Each proxy appends the address of its own caller, so only the right end of the list is
    trustworthy: what stands further left was sent by the caller and may be invented.
    """
    lines = [value for name, value in scope["headers"] if name == _FORWARDED]
    for entry in reversed(b",".join(lines).decode("latin-1").split(",")):
        address = parse_address(entry.strip())
        if address is None or not is_proxy(address, setting):
            return address
    return None
