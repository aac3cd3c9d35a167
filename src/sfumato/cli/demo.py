"""`sfumato demo`: every method on a made-up town, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Json, option
from sfumato.cli.progress import progress
from sfumato.cli.serve import serving
from sfumato.text import dumps


def demo(
    out: Annotated[Path, option("DIR", "Where to write.", "--out")] = Path("sfumato-demo"),
    tables: Annotated[
        bool,
        option(
            None, "Write only the town's tables and their schemas, to try things on.", "--tables"
        ),
    ] = False,
    serve: Annotated[
        bool,
        option(None, "Serve a vault of the town, with one account of each kind.", "--serve"),
    ] = False,
    port: Annotated[int, option("PORT", "serve: on which port; 0 for any that is free.")] = 8321,
    as_json: Json = False,
) -> None:
    """Make up a town, show what its table gives away, and write a page with charts.

    With --serve the town is a vault behind a web console on this machine: passwords of everybody
    who may sign in are drawn at random and shown once, and a tour leads through it in ten steps.

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
    """Serve the town's vault until told to end."""
    gate = serving()
    from sfumato.demo.guided_tour import ACCOUNTS, VAULT, check_free, password, sample_vault
    from sfumato.demo.page import run

    check_free(out)
    listening = gate.Listening(port=port)
    with progress("Making up a town and its vault") as report:
        run(out, report, page=False)
        vault = sample_vault(out)
    with vault:
        passwords = {name: password() for name in ACCOUNTS}
        gate.give_passwords(vault, passwords)
        server = gate.VaultServer(vault, listening)

        def ready() -> None:
            tour = f"{server.url}/console/tour"
            if as_json:
                told = {"url": server.url, "tour": tour, "vault": str(out / VAULT)}
                typer.echo(dumps({**told, "passwords": passwords}))
                return
            lines = [f"{name:10} {passwords[name]:45} {what}" for name, what in ACCOUNTS.items()]
            typer.echo("\n".join(["These passwords are shown once:", *lines]))
            typer.echo(f"A tour in ten steps: {tour}. Ctrl-C ends it.")

        server.answer(ready)
