"""`sfumato serve`: the vault as a service, until it is told to end."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Json, VaultFolder, option
from sfumato.errors import ParameterError
from sfumato.text import dumps

_REACHED = "Who reaches it"


def _reached(metavar: str, told: str) -> Any:
    return option(metavar, told, rich_help_panel=_REACHED)


_NAMES = "A name by which others reach it, such as data.example.org; repeatable."
_PROXY = "Be reached from this proxy alone, which encrypts; repeatable."
_PROCESSES = "In how many processes to answer; about one for each core."
_DATA = "A folder from which an owner may add data sets by a request; else none may be added so."
_MOST_PROCESSES = 64
_REPORTS = "Survey reports that a round takes from one address in an hour."
_CHECK = "Only say whether it could start, and leave."
_LINK = "Print a link for the owner though one has a token."


def serve(
    host: Annotated[str, _reached("ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, _reached("PORT", "On which port; 0 for any that is free.")] = 8321,
    allow_host: Annotated[list[str] | None, _reached("NAME", _NAMES)] = None,
    cert: Annotated[Path | None, _reached("FILE", "A certificate, to encrypt with.")] = None,
    key: Annotated[Path | None, _reached("FILE", "The certificate's key.")] = None,
    behind_proxy: Annotated[list[str] | None, _reached("ADDRESS", _PROXY)] = None,
    data: Annotated[Path | None, option("DIR", _DATA)] = None,
    owner_link: Annotated[bool, option(None, _LINK, "--owner-link")] = False,
    processes: Annotated[int, option("N", _PROCESSES)] = 1,
    reports_per_hour: Annotated[int, option("N", _REPORTS)] = 300,
    check: Annotated[bool, option(None, _CHECK, "--check")] = False,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Answer questions about a vault over HTTP, to everybody who has a token.

    It listens on this machine alone unless told otherwise, and prints its address and, for the
    first owner, a link that is good once. Ctrl-C ends it when what it works on is done.

    Examples:
        sfumato serve --vault clinic
        sfumato serve --vault clinic --port 0 --check
        sfumato serve --vault clinic --port 0 --processes 2 --check
    """
    gate = serving()
    from sfumato.vault.vault import open_vault

    listening = gate.Listening(
        host=host,
        port=port,
        allow_hosts=tuple(allow_host or ()),
        behind_proxy=tuple(behind_proxy or ()),
        certificate=cert,
        key=key,
        data=data,
    )
    limits = gate.Limits(reports_per_hour=reports_per_hour)
    _check_processes(processes)
    if processes > 1 and not check:
        gate.answer_in(
            processes,
            partial(open_vault, vault),
            listening,
            limits=limits,
            owner_link=owner_link,
            ready=partial(_tell, vault, as_json=as_json),
        )
        return
    with open_vault(vault) as opened:
        server = gate.VaultServer(opened, listening, limits=limits, owner_link=owner_link)

        def ready() -> None:
            _tell(vault, server.url, server.owner_link, as_json=as_json)

        if check:
            server.close()
            _tell(vault, server.url, None, as_json=as_json)
        else:
            server.answer(ready)


def _check_processes(processes: int) -> None:
    if not 1 <= processes <= _MOST_PROCESSES:
        raise ParameterError(
            "parameter_out_of_range",
            f"--processes must be from 1 to {_MOST_PROCESSES}, not {processes}. About one for each "
            "core is best.",
        )


def _tell(vault: Path, url: str, link: str | None, *, as_json: bool) -> None:
    if as_json:
        typer.echo(dumps({"url": url, "owner_link": link}))
        return
    typer.echo(f"Serving {vault.resolve()} at {url}. Ctrl-C ends it.")
    if link is not None:
        typer.echo(f"For its first owner, good once: {link}")


def serving() -> Any:
    """The server, which needs packages that nothing else does."""
    try:
        from sfumato.server import serve as found
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from None
    return found


def not_installed(missing: ModuleNotFoundError) -> ParameterError:
    """That a package is not there which only servers need."""
    return ParameterError(
        "package_missing",
        f"Serving needs the package {missing.name!r}. Run: pip install 'sfumato[serve]'.",
    )
