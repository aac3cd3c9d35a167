"""`sf.connect`: a vault behind a server, with the methods of a local one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.client.address import read_address, read_token, read_trust
from sfumato.client.admin import Office
from sfumato.client.connection import Connection
from sfumato.client.consent import RemoteRegistry, registries, registry_of
from sfumato.client.declarations import RemoteCatalogue
from sfumato.client.session import RemoteSession
from sfumato.client.stored_releases import RemoteJobs, RemoteReleases, RemoteShelf
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, PolicyError, SfumatoError
from sfumato.report.display import Card, CardTable
from sfumato.vault.principals import OWNER
from sfumato.vault.session import Asker
from sfumato.vault.vault_api import AnyVault

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.operations.fields import Request
    from sfumato.vault.session import AskerOf


class RemoteVault(AnyVault):
    """A vault behind a server. Safe for any number of threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._catalogue = RemoteCatalogue(self._call, lambda: connection.is_closed)
        self._session = RemoteSession(connection, self._catalogue)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of the data sets that the token may see."""
        return tuple(self._catalogue)

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files in use, which no saved answer may overwrite: none on this machine."""
        return ()

    def purposes(self, name: str) -> tuple[str, ...]:
        """The purposes of a data set. If there are any, a query about it must name one of them."""
        return self._catalogue.declared(arguments.text(name, "name")).purposes

    @property
    def consents(self) -> tuple[str, ...]:
        """The populations whose people are asked for consent; for owners."""
        return tuple(record.population for record in registries(self._call))

    def consent(self, population: str | None = None) -> RemoteRegistry:
        """The consent of a population; optional where only one is asked."""
        return registry_of(self._call, population, self._catalogue.asked_for_consent)

    @cached_property
    def jobs(self) -> RemoteJobs:
        """The jobs: their progress and their releases."""
        return RemoteJobs(self._shelf)

    @cached_property
    def releases(self) -> RemoteReleases:
        """The releases of the token's holder, and those that were opened to them."""
        return RemoteReleases(self._shelf)

    @property
    def _office(self) -> Office:
        return Office(self._connection, lambda: self._catalogue.principal)

    @property
    def _shelf(self) -> RemoteShelf:
        return RemoteShelf(self._connection, self._check_holder, self.private, self._call)

    def _call(self, request: type[Request], operator: str = OWNER, /, **values: Any) -> Any:
        from sfumato.client.operation_calls import call_remotely  # queries start faster without it
        from sfumato.operations.operation import OPERATIONS

        record = call_remotely(self._office, request, operator, **values)
        if OPERATIONS[request].method != "GET":
            self._catalogue.forget()  # data sets, declarations and budgets may have changed
        return record

    def _asking(self, principal: str | None, purpose: str | None) -> AskerOf:
        """The holder of the token; the server decides which accounts pay."""
        asker = Asker(
            self._check_holder(principal), (), purpose=arguments.maybe_text(purpose, "purpose")
        )
        return lambda _datasets: asker

    def _check_holder(self, principal: str | None) -> str:
        """The holder of the token; raises if the caller names another principal.

        The server would answer in the name of the holder and charge the wrong budget.
        """
        holder = self._catalogue.principal
        if principal is not None and arguments.text(principal, "principal") != holder:
            raise PolicyError(
                "permission_missing",
                f"The token is that of {quoted(holder)}, who asks here, not {quoted(principal)}. "
                "Leave out principal, or connect with the other token.",
            )
        return holder

    def _card(self) -> Card:
        where = str(self._connection.address)
        try:
            listed = self._catalogue.listed
        except SfumatoError:  # `repr` must not raise, also not if the server is gone
            return Card(f"{where}, which does not answer", {})
        table = CardTable(("Data set", "What it hides"), list(listed.items()))
        return Card(
            f"{where}: {', '.join(listed) or 'nothing to see'}", {}, table if listed else None
        )

    def close(self) -> None:
        """Close the connections; jobs of the server go on."""
        self._connection.close()

    def __enter__(self) -> RemoteVault:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    url: str,
    token: str,
    *,
    timeout: float = 300,
    certificates: str | Path | None = None,
) -> RemoteVault:
    """Connect to a vault behind a server; the result has the methods of `sf.open`.

    Parameters
    ----------
    url
        The address that `sfumato serve` prints. Without encryption only this machine may be named,
        so that nobody on the way can read the token.
    token
        What `sfumato token new` or the owner of the vault gave you.
    timeout
        The seconds that one request may take, with its retries. A retry is charged once.
    certificates
        A PEM file of trusted certificates, instead of those of the system.

    Returns
    -------
    RemoteVault
        The vault; close it, or use it in a `with` block.

    Raises
    ------
    ParameterError
        If the address, the token or a parameter is malformed.
    PolicyError
        If the server does not accept the token.
    InternalError
        `server_unreachable` if no server answers there.

    Example
    -------
    >>> import sfumato as sf
    >>> with sf.connect("http://127.0.0.1:8321", "sfu_...") as vault:  # doctest: +SKIP
    ...     vault.query("SELECT COUNT(*) AS n FROM people", epsilon="0.1")
    """
    address = read_address(url)
    arguments.require(timeout, "timeout", (int, float), "a number of seconds")
    if not 0 < timeout < _LONGEST:
        raise ParameterError(
            "parameter_out_of_range",
            f"timeout must be from 0 to {_LONGEST} seconds, not {timeout:g}.",
            parameter="timeout",
            given=timeout,
        )
    trust = read_trust(certificates)
    vault = RemoteVault(Connection(address, read_token(token), float(timeout), trust))
    try:
        _ = vault.datasets  # a wrong address or token raises here, not at the first query
    except BaseException:
        vault.close()
        raise
    return vault


_LONGEST = 86_400
