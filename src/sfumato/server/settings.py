"""The settings of a server: its host names, its proxies and its limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError, option

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Requests beyond them are refused, or their connection is closed."""

    workers: int = 32
    """The requests that are processed at a time; most of them wait for a disk."""
    waiting: int = 64
    """The requests that wait for a worker; further ones are refused with a Retry-After."""
    per_second: float = 500.0
    """The rate of requests of one token, in the long run."""
    at_once: int = 1000
    """The requests that one token may make in a burst."""
    reports_per_hour: int = 300
    """The survey reports that one address may send to a round in an hour."""
    pipelined: int = 16
    """The requests of one connection that wait for the responses to earlier ones."""
    header_bytes: int = 16 * 1024
    """The size of the request line and the headers together."""
    header_seconds: float = 10.0
    """The time in which the headers must arrive."""
    body_seconds: float = 20.0
    """The time in which the body must arrive."""
    taking_seconds: float = 60.0
    """The time after which a caller who reads nothing of a response is disconnected."""
    idle_seconds: float = 180.0
    """The time that a connection without requests is kept open."""
    ending_seconds: float = 30.0
    """The time that a server waits for open requests before it stops."""

    def __post_init__(self) -> None:
        # 0 would refuse every report, and the round would collect nothing in silence.
        if self.reports_per_hour < 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"{option('reports_per_hour')} must be at least 1, not {self.reports_per_hour}.",
                parameter="reports_per_hour",
                given=self.reports_per_hour,
            )

    def among(self, processes: int) -> Limits:
        """Divide the limits among several processes of one server."""
        return replace(
            self,
            # Rounded up, so that no process is left without any.
            workers=-(-self.workers // processes),
            waiting=-(-self.waiting // processes),
            per_second=self.per_second / processes,
            at_once=-(-self.at_once // processes),
            reports_per_hour=-(-self.reports_per_hour // processes),
        )


@dataclass(frozen=True)
class Setting:
    """The settings that the application of a server needs."""

    hosts: frozenset[str]
    """The host names of the server, without the port. Others are refused (DNS rebinding)."""
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """The encrypting proxies; if there are any, all connections must come from them."""
    is_encrypted: bool = False
    """Whether callers use TLS, to this server or to a proxy."""
    limits: Limits = Limits()
    data: Path | None = None
    """The folder from which an owner may add data sets over HTTP, if any."""
