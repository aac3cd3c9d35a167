"""How a server is set up: whom it hears, and how much it takes on at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError, option

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What a server takes on; whoever wants more is told to come back, or hung up on."""

    workers: int = 32
    """Requests that are worked on at a time; most of them wait for a disk or for the clock."""
    waiting: int = 64
    """Requests that wait for a worker; more are sent away with a time to come back."""
    per_second: float = 500.0
    """Requests that one token may make a second, in the long run."""
    at_once: int = 1000
    """Requests that one token may make in one go."""
    reports_per_hour: int = 300
    """Survey reports that one address may send to a round in an hour."""
    pipelined: int = 16
    """Requests of one connection that wait for the replies to those before."""
    header_bytes: int = 16 * 1024
    header_seconds: float = 10.0
    """How long the lines before a body may take to arrive."""
    body_seconds: float = 20.0
    taking_seconds: float = 60.0
    """How long a caller may take no more of a reply."""
    idle_seconds: float = 180.0
    """How long a connection is held on which nothing is asked."""
    ending_seconds: float = 30.0
    """How long a server that is to end waits for what it works on."""

    def __post_init__(self) -> None:
        if self.reports_per_hour < 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"{option('reports_per_hour')} must be at least 1, not {self.reports_per_hour}.",
                parameter="reports_per_hour",
                given=self.reports_per_hour,
            )

    def among(self, processes: int) -> Limits:
        """What each of several processes takes on, so that all together take on this."""
        return replace(
            self,
            workers=-(-self.workers // processes),
            waiting=-(-self.waiting // processes),
            per_second=self.per_second / processes,
            at_once=-(-self.at_once // processes),
            reports_per_hour=-(-self.reports_per_hour // processes),
        )


@dataclass(frozen=True)
class Setting:
    """Under which names a server is reached, by whom, and its limits."""

    hosts: frozenset[str]
    """The names that a request may give in its Host, without the port."""
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Where connections may come from, if only proxies that encrypt may make them."""
    is_encrypted: bool = False
    """Whether callers reach it by TLS, here or at a proxy."""
    limits: Limits = Limits()
    data: Path | None = None
    """The folder from which an owner may add data sets by a request, if any."""
