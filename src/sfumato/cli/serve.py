"""`sfumato serve` and `sfumato survey serve`: run until they are stopped."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Json, VaultFolder, argument, form, option, topic
from sfumato.errors import ParameterError
from sfumato.errors import option as option_name
from sfumato.operations.field import Field
from sfumato.text import dumps

NETWORK = (
    Field("host", "The address to listen on.", "ADDRESS", default="127.0.0.1"),
    Field("port", "The port; 0 takes any free one.", "PORT", type=int, default=8321),
    Field(
        "allow_host",
        "Answer to this name too, such as data.example.org; repeatable.",
        "NAME",
        type=list[str],
    ),
    Field("cert", "The TLS certificate (PEM), for HTTPS.", "FILE", type=Path),
    Field("key", "The private key of the certificate (PEM).", "FILE", type=Path),
    Field(
        "behind_proxy",
        "Accept only this proxy, which encrypts; repeatable.",
        "ADDRESS",
        type=list[str],
    ),
    Field(
        "reports_per_hour",
        "The most survey reports that one address may send to a round in an hour.",
        "N",
        type=int,
        default=300,
    ),
)
"""The options that servers of vaults and of surveys share."""
Check = Annotated[bool, option(None, "Check that the server can start, then exit.", "--check")]
DataFolder = Annotated[
    Path | None,
    option("DIR", "A folder whose files owners may add over HTTP; by default none."),
]
OwnerLink = Annotated[
    bool,
    option(
        None,
        "Print a sign-in link for the owner, even if an owner has a token already.",
        "--owner-link",
    ),
]
Processes = Annotated[int, option("N", "The number of server processes; about one for each core.")]
_MAX_PROCESSES = 64
"""Far above the cores of usual machines; a slip such as 8321 would exhaust the memory."""


@form(*topic("Network", NETWORK))
def serve(
    data: DataFolder = None,
    owner_link: OwnerLink = False,
    processes: Processes = 1,
    check: Check = False,
    vault: VaultFolder = Path(),
    as_json: Json = False,
    **network: Any,
) -> None:
    """Serve a vault over HTTP, and its web console.

    By default only this machine can reach the server. It prints its address and, if no owner has a
    token yet, a sign-in link for the owner that works once. Ctrl-C stops it when all open requests
    are answered.

    Examples:
        sfumato serve --vault clinic
        sfumato serve --vault clinic --port 0 --check
        sfumato serve --vault clinic --port 0 --processes 2 --check
    """
    server_module = load_server()
    from sfumato.vault.vault import open_vault

    limits = server_module.Limits(reports_per_hour=network.pop("reports_per_hour"))
    listening = _listening(server_module, data=data, **network)
    if not 1 <= processes <= _MAX_PROCESSES:
        raise ParameterError(
            "parameter_out_of_range",
            f"{option_name('processes')} must be from 1 to {_MAX_PROCESSES}, not {processes}.",
            parameter="processes",
            given=processes,
            allowed=f"from 1 to {_MAX_PROCESSES}",
            hint="About one for each core is best.",
        )
    # A check needs one process only, and says the same.
    if processes > 1 and not check:
        server_module.answer_in(
            processes,
            partial(open_vault, vault),
            listening,
            limits=limits,
            owner_link=owner_link,
            ready=partial(_announce, vault, as_json=as_json),
        )
        return
    with open_vault(vault) as opened:
        server = server_module.VaultServer(opened, listening, limits=limits, owner_link=owner_link)
        if check:
            # A link would be printed for a server that never runs.
            server.close()
            _announce(vault, server.url, None, as_json=as_json)
        else:
            server.answer(lambda: _announce(vault, server.url, server.owner_link, as_json=as_json))


@form(*topic("Network", NETWORK))
def serve_survey(
    file: Annotated[Path, argument("FILE", "The file of the round (TOML).")],
    check: Check = False,
    as_json: Json = False,
    **network: Any,
) -> None:
    """Serve the page where people answer a survey, and the page with the result so far.

    Examples:
        sfumato survey serve smoking.toml --port 0 --check
    """
    from sfumato.methods.local.collection import Collection

    server_module = load_server()
    reports_per_hour = network.pop("reports_per_hour")
    listening = _listening(server_module, **network)
    with closing(Collection(file)) as collection:
        server = server_module.RoundServer(collection, listening, reports_per_hour)

        def announce() -> None:
            results = f"{server.page}/results"
            if as_json:
                typer.echo(dumps({"url": server.url, "page": server.page, "results": results}))
                return
            typer.echo(
                f"People answer at {server.page}\nThe result so far: {results}\n"
                f"The server accepts at most {reports_per_hour:,} reports an hour from one address "
                "(--reports-per-hour). Ctrl-C stops it."
            )

        if check:
            server.close()
            announce()
        else:
            server.answer(announce)


def _listening(
    server_module: Any,
    *,
    allow_host: list[str] | None,
    behind_proxy: list[str] | None,
    cert: Path | None,
    **address: Any,
) -> Any:
    """Make the address of a server from the options of its command."""
    return server_module.Listening(
        allow_hosts=tuple(allow_host or ()),
        behind_proxy=tuple(behind_proxy or ()),
        certificate=cert,
        **address,
    )


def _announce(vault: Path, url: str, link: str | None, *, as_json: bool) -> None:
    if as_json:
        typer.echo(dumps({"url": url, "owner_link": link}))
        return
    typer.echo(f"Serving {vault.resolve()} at {url}. Ctrl-C stops it.")
    if link is not None:
        typer.echo(f"The sign-in link of the owner, which works once: {link}")


def load_server() -> Any:
    """Import the server, whose packages only the extra `serve` installs."""
    # Imported late: Starlette and uvicorn are slow to load, and only this command needs them.
    try:
        from sfumato.server import serve as server_module
    except ModuleNotFoundError as error:
        raise package_missing(error) from None
    return server_module


def package_missing(error: ModuleNotFoundError) -> ParameterError:
    """The error for a package that only the extra `serve` installs."""
    return ParameterError(
        "package_missing",
        f"Serving needs the package {error.name!r}. Run: pip install 'sfumato[serve]'.",
    )
