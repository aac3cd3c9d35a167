"""`sfumato serve` and `sfumato survey serve`: run until they are stopped."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Json, VaultFolder, argument, option
from sfumato.errors import ParameterError
from sfumato.text import dumps


def _network_option(metavar: str, description: str) -> Any:
    return option(metavar, description, rich_help_panel="Network")


Host = Annotated[str, _network_option("ADDRESS", "The address to listen on.")]
Port = Annotated[int, _network_option("PORT", "The port; 0 takes any free one.")]
AllowHost = Annotated[
    list[str] | None,
    _network_option("NAME", "Answer to this name too, such as data.example.org; repeatable."),
]
BehindProxy = Annotated[
    list[str] | None,
    _network_option("ADDRESS", "Accept only this proxy, which encrypts; repeatable."),
]
Certificate = Annotated[
    Path | None, _network_option("FILE", "The TLS certificate (PEM), for HTTPS.")
]
Key = Annotated[Path | None, _network_option("FILE", "The private key of the certificate (PEM).")]
ReportsPerHour = Annotated[
    int, option("N", "The most survey reports that one address may send to a round in an hour.")
]
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


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8321,
    allow_host: AllowHost = None,
    cert: Certificate = None,
    key: Key = None,
    behind_proxy: BehindProxy = None,
    data: DataFolder = None,
    owner_link: OwnerLink = False,
    processes: Processes = 1,
    reports_per_hour: ReportsPerHour = 300,
    check: Check = False,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Serve a vault over HTTP, with a web console, to people who have a token.

    By default only this machine can reach the server. It prints its address and, if no owner has a
    token yet, a sign-in link for the owner that works once. Ctrl-C stops it after open requests.

    Examples:
        sfumato serve --vault clinic
        sfumato serve --vault clinic --port 0 --check
        sfumato serve --vault clinic --port 0 --processes 2 --check
    """
    server_module = load_server()
    from sfumato.vault.vault import open_vault

    listening = server_module.Listening(
        host=host,
        port=port,
        allow_hosts=tuple(allow_host or ()),
        behind_proxy=tuple(behind_proxy or ()),
        certificate=cert,
        key=key,
        data=data,
    )
    limits = server_module.Limits(reports_per_hour=reports_per_hour)
    if not 1 <= processes <= _MAX_PROCESSES:
        raise ParameterError(
            "parameter_out_of_range",
            f"processes must be from 1 to {_MAX_PROCESSES}, not {processes}.",
            parameter="processes",
            given=processes,
            allowed=f"from 1 to {_MAX_PROCESSES}",
            hint="About one for each core is best.",
        )
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
            server.close()
            _announce(vault, server.url, None, as_json=as_json)
        else:
            server.answer(lambda: _announce(vault, server.url, server.owner_link, as_json=as_json))


def serve_survey(
    file: Annotated[Path, argument("FILE", "The file of the round (TOML).")],
    host: Host = "127.0.0.1",
    port: Port = 8321,
    allow_host: AllowHost = None,
    cert: Certificate = None,
    key: Key = None,
    behind_proxy: BehindProxy = None,
    reports_per_hour: ReportsPerHour = 300,
    check: Check = False,
    as_json: Json = False,
) -> None:
    """Serve the page where people answer, and the page with the result so far.

    Examples:
        sfumato survey serve smoking.toml --port 0 --check
    """
    from sfumato.methods.local.collection import Collection

    server_module = load_server()
    from sfumato.server.serve import RoundServer

    listening = server_module.Listening(
        host=host,
        port=port,
        allow_hosts=tuple(allow_host or ()),
        behind_proxy=tuple(behind_proxy or ()),
        certificate=cert,
        key=key,
    )
    with closing(Collection(file)) as collection:
        server = RoundServer(collection, listening, reports_per_hour)

        def announce() -> None:
            results = f"{server.page}/results"
            if as_json:
                typer.echo(dumps({"url": server.url, "page": server.page, "results": results}))
                return
            typer.echo(
                f"People answer at {server.page}\nThe result so far: {results}\n"
                f"It takes at most {reports_per_hour:,} reports an hour from one address "
                "(--reports-per-hour). Ctrl-C ends it."
            )

        if check:
            server.close()
            announce()
        else:
            server.answer(announce)


def _announce(vault: Path, url: str, link: str | None, *, as_json: bool) -> None:
    if as_json:
        typer.echo(dumps({"url": url, "owner_link": link}))
        return
    typer.echo(f"Serving {vault.resolve()} at {url}. Ctrl-C ends it.")
    if link is not None:
        typer.echo(f"A link for the first owner, which works once: {link}")


def load_server() -> Any:
    """Import the server, whose packages only the extra `serve` installs."""
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
