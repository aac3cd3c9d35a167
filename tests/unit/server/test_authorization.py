"""By which address a caller is counted."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from sfumato.server.authorization import UNKNOWN_PEER, peer_of
from sfumato.server.settings import Setting

if TYPE_CHECKING:
    from starlette.types import Scope

OPEN = Setting(hosts=frozenset({"localhost"}))
PROXIED = Setting(
    hosts=frozenset({"localhost"}),
    proxies=(ip_network("10.0.0.0/24"), ip_network("fd00::1/128")),
)


def scope(client: str | None, *forwarded: str) -> Scope:
    headers = [(b"x-forwarded-for", line.encode("latin-1")) for line in forwarded]
    return {"client": None if client is None else (client, 1), "headers": headers}


@pytest.mark.parametrize(
    ("client", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, UNKNOWN_PEER),
        ("testclient", UNKNOWN_PEER),
    ],
)
def test_a_connection_counts_by_its_address_or_its_ipv6_network(
    client: str | None, peer: str
) -> None:
    assert peer_of(scope(client), OPEN) == peer


@pytest.mark.parametrize("setting", [OPEN, PROXIED])
def test_a_header_of_somebody_who_is_no_proxy_is_not_believed(setting: Setting) -> None:
    assert peer_of(scope("192.0.2.7", "198.51.100.1"), setting) == "192.0.2.7"


@pytest.mark.parametrize(
    ("forwarded", "peer"),
    [
        (["198.51.100.1"], "198.51.100.1"),
        (["2001:db8::1"], "2001:db8::/64"),
        # What the caller invented stands to the left of what the proxy wrote.
        (["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        (["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        (["203.0.113.9, 198.51.100.1, 10.0.0.9"], "198.51.100.1"),
        # Without an address that a proxy wrote, all share the proxy's own.
        ([], "10.0.0.5"),
        (["10.0.0.9"], "10.0.0.5"),
        (["198.51.100.1, nonsense"], "10.0.0.5"),
        (["198.51.100.1,"], "10.0.0.5"),
        (["\xff\x00"], "10.0.0.5"),
    ],
)
def test_behind_a_proxy_the_address_that_it_saw_counts(forwarded: list[str], peer: str) -> None:
    assert peer_of(scope("10.0.0.5", *forwarded), PROXIED) == peer
