"""`sfumato demo`: every method on a made-up town, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Json, option
from sfumato.cli.progress import progress
from sfumato.texts import dumps


def demo(
    out: Annotated[Path, option("DIR", "Where to write.", "--out")] = Path("sfumato-demo"),
    tables: Annotated[
        bool,
        option(
            None, "Write only the town's tables and their schemas, to try things on.", "--tables"
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make up a town, show what its table gives away, and write a page with charts.

    Examples:
        sfumato demo
        sfumato demo --tables --out town
    """

    from sfumato.demo.page import run

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
