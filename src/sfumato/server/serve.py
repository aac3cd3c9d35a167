"""A server before a vault: where it listens, who may reach it, and how it begins and ends."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

import uvicorn

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, option
from sfumato.server.app import application
from sfumato.server.http_protocol import limited
from sfumato.server.owner_link import OwnerLink
from sfumato.server.settings import Limits, Setting
from sfumato.server.worker_processes import run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path
    from types import FrameType

    from starlette.types import ASGIApp

    from sfumato.vault.vault import Vault

_RELEASED = 1767225600.0
"""The first day of 2026, before which no clock can have stood."""
_WORKERS = 2
"""So many jobs are done at a time; questions have their own threads."""
_WIDEST_NETWORK = {4: 16, 6: 48}
"""How many bits the addresses of proxies share at least: who is among them need not encrypt."""
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Listening:
    """Where a server is to listen, and how it is reached there."""

    host: str = "127.0.0.1"
    port: int = 8321
    allow_hosts: tuple[str, ...] = ()
    """Names by which it is reached, besides those of this machine."""
    behind_proxy: tuple[str, ...] = ()
    """The addresses of proxies that encrypt and pass requests on."""
    certificate: Path | None = None
    key: Path | None = None
    data: Path | None = None
    """The folder from which an owner may add data sets by a request."""

    @property
    def is_public(self) -> bool:
        """Whether others than this machine can reach it."""
        try:
            return not ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host != "localhost"

    def setting(self, limits: Limits) -> Setting:
        """What its application must know; refused where it would be open to eavesdroppers."""
        if (self.certificate is None) != (self.key is None):
            raise ParameterError(
                "options_conflict",
                f"A certificate and its key come together: {option('cert')} and {option('key')}.",
            )
        if self.key is not None and self.key.exists() and self.key.stat().st_mode & 0o077:
            raise ParameterError(
                "secret_exposed",
                f"'{self.key}' is a secret and may be read by others. Run: chmod 600 '{self.key}'.",
            )
        if self.data is not None and not self.data.is_dir():
            raise ParameterError(
                "source_missing",
                f"There is no folder '{self.data}' to add data sets from. Name one with "
                f"{option('data')}, or leave it out.",
            )
        if self.is_public and self.certificate is None and not self.behind_proxy:
            raise ParameterError(
                "address_unusable",
                f"{quoted(self.host)} can be reached by others, and tokens would travel to it "
                f"unencrypted. Add {option('cert', metavar='FILE')} "
                f"{option('key', metavar='FILE')}, or {option('behind_proxy', metavar='ADDRESS')} "
                f"of a proxy that encrypts, or leave {option('host')} out.",
            )
        if self.is_public and not self.allow_hosts:
            raise ParameterError(
                "parameter_missing",
                "Say by which name others reach this server: "
                f"{option('allow_host', 'data.example.org')}.",
                parameter="allow_host",
            )
        return Setting(
            hosts=frozenset(_LOOPBACK).union(one.lower() for one in self.allow_hosts),
            proxies=tuple(map(_network, self.behind_proxy)),
            is_encrypted=self.certificate is not None or bool(self.behind_proxy),
            limits=limits,
            data=self.data,
        )


class GateServer(uvicorn.Server):
    """A server: bound to its place at once, it answers when it is told to.

    `made` makes its application from what that must know of the place. A `listener` that is bound
    already is shared with others.
    """

    def __init__(
        self,
        made: Callable[[Setting], ASGIApp],
        listening: Listening,
        *,
        limits: Limits = Limits(),  # noqa: B008  it cannot change
        listener: socket.socket | None = None,
    ) -> None:
        _check_clock()
        super().__init__(_configured(made(listening.setting(limits)), listening, limits))
        self._listener = listener or _bound(listening)
        self._tell: Callable[[], None] = lambda: None
        self.url = _url(listening, self._listener)

    def answer(self, ready: Callable[[], None] = lambda: None) -> None:
        """Answer until told to end; `ready` is called as soon as it does."""
        self._tell = ready
        _allow_connections()
        try:
            self.run([self._listener])
        finally:
            self.close()

    def close(self) -> None:
        """Give its place up."""
        self._listener.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so."""
        await super().startup(sockets)
        self._tell()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """End in order; at a second Ctrl-C without waiting for what is worked on."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


class VaultServer(GateServer):
    """A server before a vault.

    Where no owner has a token yet, or an `owner_link` is wished for, it has a link for one.
    """

    def __init__(
        self,
        vault: Vault,
        listening: Listening,
        *,
        limits: Limits = Limits(),  # noqa: B008  it cannot change
        owner_link: bool = False,
        shared: tuple[socket.socket, OwnerLink | None] | None = None,
    ) -> None:
        listener, link = shared or (None, _link(vault, wished=owner_link))
        made = partial(application, vault, link=link)
        super().__init__(made, listening, limits=limits, listener=listener)
        self.owner_link = None if link is None else self.url + link.path
        self._vault, self._ending_seconds = vault, limits.ending_seconds

    def answer(self, ready: Callable[[], None] = lambda: None) -> None:
        """Answer until told to end, and work on the vault's jobs and feeds meanwhile."""
        self._vault.jobs.start(_WORKERS)
        self._vault.feed_registry.start()
        try:
            super().answer(ready)
        finally:
            self._vault.feed_registry.stop_working(self._ending_seconds)
            self._vault.jobs.stop(self._ending_seconds)


def answer_in(
    processes: int,
    open_vault: Callable[[], Vault],
    listening: Listening,
    *,
    limits: Limits = Limits(),  # noqa: B008  it cannot change
    owner_link: bool = False,
    ready: Callable[[str, str | None], None],
) -> None:
    """Answer for a vault in so many processes until told to end; each opens it for itself.

    `ready` is given the address and, where there is one, the link for an owner.
    """
    listening.setting(limits)
    each = limits.among(processes)
    with open_vault() as vault:
        link = _link(vault, wished=owner_link)
    with _bound(listening) as listener:
        url = _url(listening, listener)

        def serve(tell: Callable[[], None]) -> None:
            with open_vault() as vault:
                VaultServer(vault, listening, limits=each, shared=(listener, link)).answer(tell)

        run_in(processes, serve, partial(ready, url, None if link is None else url + link.path))


def give_passwords(vault: Vault, passwords: Mapping[str, str]) -> None:
    """Let people sign in at the console by these passwords."""
    from sfumato.console.sign_in import hash_password  # argon2 is slow to import

    for name, password in passwords.items():
        vault.logins.change(name, hash_password(password, password))


def _configured(app: ASGIApp, listening: Listening, limits: Limits) -> uvicorn.Config:
    """How the server under the application is set up; its own log stays empty."""
    # Its words may quote a request; what fails is in the vault's own log of failures.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    found = uvicorn.Config(
        app,
        http=limited(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=round(limits.ending_seconds),
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    try:
        found.load()
    except (OSError, ValueError) as error:  # ssl.SSLError is one of the first
        raise ParameterError(
            "certificate_unusable",
            f"Cannot encrypt with {listening.certificate} and {listening.key}: "
            f"{getattr(error, 'strerror', None) or 'they are no certificate and its key'}.",
        ) from None
    return found


def _link(vault: Vault, *, wished: bool) -> OwnerLink | None:
    """A link for an owner, where one is wished for or no token lets an owner in."""
    has_owner = any("admin" in one.scopes for one in vault.tokens.list())
    return OwnerLink() if wished or not has_owner else None


def _allow_connections() -> None:
    """Hold as many connections as the system lets this process: each is an open file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _check_clock() -> None:
    """Refuse to begin when the clock cannot be right: tokens would seem to last for ever."""
    if time.time() < _RELEASED:
        raise ParameterError(
            "clock_wrong",
            "This machine's clock shows a time before this version was made, so nothing would "
            "expire when it should. Set the clock.",
        )


def _bound(listening: Listening) -> socket.socket:
    host, port = listening.host.strip("[]"), listening.port
    if not 0 <= port <= 65535:
        raise ParameterError(
            "parameter_out_of_range",
            f"{option('port')} must be from 0 to 65535, not {port}.",
            parameter="port",
            given=port,
        )
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as undone:
            listener = undone.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            undone.pop_all()
    except OSError as error:
        raise ParameterError(
            "address_unusable",
            f"Cannot listen on {host}, port {port}: {error.strerror or error}. Choose another "
            f"{option('port')}, or 0 for any that is free.",
        ) from None
    return listener


def _url(listening: Listening, listener: socket.socket) -> str:
    scheme = "http" if listening.certificate is None else "https"
    host = f"[{listening.host}]" if ":" in listening.host.strip("[]") else listening.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _network(address: str) -> IPv4Network | IPv6Network:
    try:
        found = ip_network(address)
    except ValueError:
        found = None
    if found is None or found.prefixlen < _WIDEST_NETWORK[found.version]:
        raise ParameterError(
            "address_unusable",
            f"{option('behind_proxy')} must be the address of a proxy such as 10.0.0.5, or a "
            f"network no wider than 10.0.0.0/16 or fd00::/48, not {quoted(address)}.",
        )
    return found
