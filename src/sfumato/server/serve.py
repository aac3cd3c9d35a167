"""Servers of a vault or of one survey round: where they listen, how they start and stop."""

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
from sfumato.server.survey_app import survey_site
from sfumato.server.worker_processes import run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path
    from types import FrameType

    from starlette.types import ASGIApp

    from sfumato.methods.local.collection import Collection
    from sfumato.vault.vault import Vault

_EARLIEST_TIME = 1767225600.0
"""The first of January 2026: a clock that shows an earlier time is wrong."""
_JOB_THREADS = 2
"""The jobs that run at a time; questions have their own threads."""
_SHORTEST_PREFIX_BITS = {4: 16, 6: 48}
"""By IP version: the widest network of proxies. Callers in it are trusted to use encryption."""
# Host names that always lead to this machine, so no other site can use them (DNS rebinding).
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Listening:
    """The address of a server, and how callers reach it."""

    host: str = "127.0.0.1"
    port: int = 8321
    allow_hosts: tuple[str, ...] = ()
    """Host names of the server, besides those of this machine."""
    behind_proxy: tuple[str, ...] = ()
    """The addresses of proxies that encrypt and forward requests."""
    certificate: Path | None = None
    key: Path | None = None
    data: Path | None = None
    """The folder from which an owner may add data sets over HTTP."""

    @property
    def is_public(self) -> bool:
        """Whether other machines can reach the server."""
        try:
            return not ip_address(self.host.strip("[]")).is_loopback
        except ValueError:  # a name: only this one is sure to mean this machine
            return self.host != "localhost"

    def setting(self, limits: Limits) -> Setting:
        """Make the application's settings; refuse an address where tokens travel unencrypted."""
        if (self.certificate is None) != (self.key is None):
            raise ParameterError(
                "options_conflict",
                f"Give both the certificate and its key: {option('cert')} and {option('key')}.",
            )
        # Whoever reads the key can act as this server.
        if self.key is not None and self.key.exists() and self.key.stat().st_mode & 0o077:
            raise ParameterError(
                "secret_exposed",
                f"'{self.key}' is a secret, but others may read it. Run: chmod 600 '{self.key}'.",
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
                f"Other machines can reach {quoted(self.host)}, and tokens would travel to it "
                f"unencrypted. Add {option('cert', metavar='FILE')} "
                f"{option('key', metavar='FILE')}, or {option('behind_proxy', metavar='ADDRESS')} "
                f"of a proxy that encrypts, or leave {option('host')} out.",
            )
        if self.is_public and not self.allow_hosts:
            raise ParameterError(
                "parameter_missing",
                "Give the host name of this server, such as "
                f"{option('allow_host', 'data.example.org')}.",
                parameter="allow_host",
            )
        return Setting(
            hosts=frozenset(_LOOPBACK).union(host.lower() for host in self.allow_hosts),
            proxies=tuple(map(_network, self.behind_proxy)),
            is_encrypted=self.certificate is not None or bool(self.behind_proxy),
            limits=limits,
            data=self.data,
        )


class Server(uvicorn.Server):
    """A server that is bound to its address at once, and answers after `answer` is called.

    Parameters
    ----------
    make_application
        Makes the application from the settings of the server.
    listening
        The address of the server.
    limits
        The limits on requests.
    listener
        A socket that is bound already, which several processes share.
    """

    def __init__(
        self,
        make_application: Callable[[Setting], ASGIApp],
        listening: Listening,
        *,
        limits: Limits = Limits(),  # noqa: B008  it is immutable
        listener: socket.socket | None = None,
    ) -> None:
        _check_clock()
        app = make_application(listening.setting(limits))
        super().__init__(_configuration(app, listening, limits))
        self._listener = listener or _bind(listening)
        self._ready: Callable[[], None] = lambda: None
        self.url = _url(listening, self._listener)

    def answer(self, ready: Callable[[], None] = lambda: None) -> None:
        """Answer until a signal stops the server; `ready` is called when it accepts requests."""
        self._ready = ready
        _raise_file_limit()
        try:
            self.run([self._listener])
        finally:
            self.close()

    def close(self) -> None:
        """Release the address."""
        self._listener.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and call `ready`."""
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop after open requests; at a second Ctrl-C at once."""
        # The first signal lets open requests finish, so that no charged answer is lost.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


class VaultServer(Server):
    """The server of a vault.

    It makes a sign-in link for the owner if `owner_link` asks for one, or if no owner has a token.
    """

    def __init__(
        self,
        vault: Vault,
        listening: Listening,
        *,
        limits: Limits = Limits(),  # noqa: B008  it is immutable
        owner_link: bool = False,
        shared: tuple[socket.socket, OwnerLink | None] | None = None,
    ) -> None:
        listener, link = shared or (None, _make_owner_link(vault, requested=owner_link))
        make_application = partial(application, vault, link=link)
        super().__init__(make_application, listening, limits=limits, listener=listener)
        self.owner_link = None if link is None else self.url + link.path
        self._vault, self._ending_seconds = vault, limits.ending_seconds

    def answer(self, ready: Callable[[], None] = lambda: None) -> None:
        """Answer until a signal stops the server, and run the vault's jobs and feeds meanwhile."""
        # Started only here: a server that cannot listen must not begin to work.
        self._vault.jobs.start(_JOB_THREADS)
        self._vault.feed_registry.start()
        try:
            super().answer(ready)
        finally:
            self._vault.feed_registry.stop_working(self._ending_seconds)
            self._vault.jobs.stop(self._ending_seconds)


class RoundServer(Server):
    """The server of one survey round: the page where people answer, and the result so far."""

    def __init__(
        self,
        collection: Collection,
        listening: Listening,
        reports_per_hour: int = Limits.reports_per_hour,
    ) -> None:
        collection.mechanisms  # noqa: B018  raises for a round that nobody can answer
        round_id = collection.round.id
        super().__init__(
            partial(survey_site, {round_id: collection}.get, home=round_id),
            listening,
            limits=Limits(reports_per_hour=reports_per_hour),
        )
        self.page = f"{self.url}/survey/{round_id}"


def answer_in(
    processes: int,
    open_vault: Callable[[], Vault],
    listening: Listening,
    *,
    limits: Limits = Limits(),  # noqa: B008  it is immutable
    owner_link: bool = False,
    ready: Callable[[str, str | None], None],
) -> None:
    """Serve a vault with several processes until a signal stops them.

    Each process opens the vault itself. `ready` is called with the address and the sign-in link of
    the owner, if there is one.
    """
    listening.setting(limits)  # an error here is shown once, not by each process
    limits_of_one = limits.among(processes)
    # One link for all processes: each of them can answer its page.
    with open_vault() as vault:
        link = _make_owner_link(vault, requested=owner_link)
    with _bind(listening) as listener:
        url = _url(listening, listener)

        def serve(listens: Callable[[], None]) -> None:
            with open_vault() as vault:
                server = VaultServer(
                    vault, listening, limits=limits_of_one, shared=(listener, link)
                )
                server.answer(listens)

        run_in(processes, serve, partial(ready, url, None if link is None else url + link.path))


def give_passwords(vault: Vault, passwords: Mapping[str, str]) -> None:
    """Set the console passwords of principals, by name."""
    from sfumato.console.sign_in import hash_password  # argon2 is slow to import

    for name, password in passwords.items():
        vault.logins.change(name, hash_password(password, password))


def _configuration(app: ASGIApp, listening: Listening, limits: Limits) -> uvicorn.Config:
    """Configure uvicorn, without logs of its own."""
    # Its messages may quote a request. The vault's own log has the failures.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    configuration = uvicorn.Config(
        app,
        http=limited(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # addresses and queries of callers are nobody's business
        proxy_headers=False,  # `authorization` reads them, and only from configured proxies
        server_header=False,  # a version would tell attackers which flaws to try
        timeout_graceful_shutdown=round(limits.ending_seconds),
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    try:
        configuration.load()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ParameterError(
            "certificate_unusable",
            f"Cannot encrypt with {listening.certificate} and {listening.key}: "
            f"{getattr(error, 'strerror', None) or 'they are not a certificate and its key'}.",
        ) from None
    return configuration


def _make_owner_link(vault: Vault, *, requested: bool) -> OwnerLink | None:
    has_owner = any("admin" in token.scopes for token in vault.tokens.list())
    return OwnerLink() if requested or not has_owner else None


def _raise_file_limit() -> None:
    """Allow as many connections as the system permits: each is an open file."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


def _check_clock() -> None:
    """Refuse to start if the clock is far behind: tokens would stay valid after they expire."""
    if time.time() < _EARLIEST_TIME:
        raise ParameterError(
            "clock_wrong",
            "This machine's clock shows a time before this version was made, so nothing would "
            "expire when it should. Set the clock.",
        )


def _bind(listening: Listening) -> socket.socket:
    host, port = listening.host.strip("[]"), listening.port
    if not 0 <= port <= 65535:
        raise ParameterError(
            "parameter_out_of_range",
            f"{option('port')} must be from 0 to 65535, not {port}.",
            parameter="port",
            given=port,
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as on_error:
            listener = on_error.enter_context(socket.socket(family, kind, protocol))
            # A restarted server must not wait until old connections are forgotten.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            on_error.pop_all()
    except OSError as error:
        raise ParameterError(
            "address_unusable",
            f"Cannot listen on {host}, port {port}: {error.strerror or error}. Choose another "
            f"{option('port')}, or 0 for any free port.",
        ) from None
    return listener


def _url(listening: Listening, listener: socket.socket) -> str:
    scheme = "http" if listening.certificate is None else "https"
    host = f"[{listening.host}]" if ":" in listening.host.strip("[]") else listening.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _network(address: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(address)
    except ValueError:
        network = None
    if network is None or network.prefixlen < _SHORTEST_PREFIX_BITS[network.version]:
        raise ParameterError(
            "address_unusable",
            f"{option('behind_proxy')} must be the address of a proxy such as 10.0.0.5, or a "
            f"network no wider than 10.0.0.0/16 or fd00::/48, not {quoted(address)}.",
        )
    return network
