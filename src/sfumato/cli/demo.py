"""`sfumato demo`: make up a town, and show every method on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Json, option
from sfumato.cli.serve import load_server
from sfumato.report.progress import progress
from sfumato.text import dumps


def demo(
    out: Annotated[Path, option("DIR", "The folder to write to.", "--out")] = Path("sfumato-demo"),
    tables: Annotated[
        bool,
        option(None, "Write only the tables of the town and their schemas.", "--tables"),
    ] = False,
    serve: Annotated[
        bool,
        option(None, "Serve a vault of the town, with one account of each kind.", "--serve"),
    ] = False,
    port: Annotated[int, option("PORT", "The port for --serve; 0 takes any free one.")] = 8321,
    as_json: Json = False,
) -> None:
    """Generate a sample town, show what its tables reveal, and write a page with charts.

    With --serve the town becomes a vault with a web console on this machine. The passwords of all
    accounts are random and shown once; a tour in ten steps begins at the printed address.

    Examples:
        sfumato demo
        sfumato demo --tables --out town
    """
    from sfumato.demo.page import run

    if serve:
        _serve(out, port, as_json=as_json)
        return
    with progress("Making up a town") as report:
        written = run(out, report, page=not tables)
    if as_json:
        page = None if tables else str(written[0])
        typer.echo(dumps({"page": page, "files": [str(path) for path in written]}))
    elif tables:
        typer.echo(f"Wrote {', '.join(path.name for path in written)} to {out}.")
    else:
        typer.echo(
            f"Wrote {written[0]} and {len(written) - 1} files beside it. Open it in a browser."
        )


def _serve(out: Path, port: int, *, as_json: bool) -> None:
    """Serve the vault of the town until Ctrl-C."""
    server_module = load_server()
    from sfumato.demo.guided_tour import ACCOUNTS, VAULT, check_free, password, sample_vault
    from sfumato.demo.page import run

    # Before the town is made: a vault whose budgets are spent must not be replaced.
    check_free(out)
    listening = server_module.Listening(port=port)
    with progress("Making up a town and its vault") as report:
        run(out, report, page=False)
        vault = sample_vault(out)
    with vault:
        # Random each time: a known password of a demo on a shared machine would let anyone in.
        passwords = {name: password() for name in ACCOUNTS}
        server_module.give_passwords(vault, passwords)
        server = server_module.VaultServer(vault, listening)

        def announce() -> None:
            tour = f"{server.url}/console/tour"
            if as_json:
                addresses = {"url": server.url, "tour": tour, "vault": str(out / VAULT)}
                typer.echo(dumps({**addresses, "passwords": passwords}))
                return
            accounts = [f"{name:10} {passwords[name]:45} {role}" for name, role in ACCOUNTS.items()]
            typer.echo("\n".join(["These passwords are shown once:", *accounts]))
            typer.echo(f"A tour in ten steps: {tour}. Ctrl-C stops it.")

        server.answer(announce)
