"""`sfumato locate`: add noise to places of one person, on the person's own machine."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.options import Json, Overwrite, argument, option
from sfumato.text import dumps


def locate(
    file: Annotated[str, argument("FILE", "A table of one person's locations, one in each row.")],
    box: Annotated[
        str,
        option(
            "W,S,E,N", "The bounds of the map: west, south, east, north. They are public.", "--box"
        ),
    ],
    epsilon: Annotated[
        str,
        option(
            "E",
            "The epsilon for each metre of distance, spent anew for each location.",
            "--epsilon-per-metre",
        ),
    ],
    out: Annotated[str, option("OUT", "The file of noisy locations to write.", "--out", "-o")],
    at: Annotated[
        str, option("X,Y", "The columns of the coordinates: longitude (east) first.")
    ] = "lon,lat",
    unit: Annotated[str, option("UNIT", "The unit of coordinates: degrees or metres.")] = "degrees",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Add noise to your own locations, and show how much they still reveal.

    Nearby locations become hard to distinguish, distant ones stay distinguishable. The command runs
    on your machine, so nobody else sees the true locations. Each location costs epsilon again; the
    total is shown. Noise on each location does not hide a person's whole path.

    Examples:
        sfumato locate places.csv --at lon,lat --box -8.7,41.1,-8.5,41.3 \\
            --epsilon-per-metre 0.01 -o moved.csv
    """
    from sfumato.methods.trajectory.location import located
    from sfumato.release.files_in_use import source_files
    from sfumato.release.output import Output, check_outputs

    check_outputs(Output.parse(out), several=False, overwrite=overwrite, kept=source_files(file))
    release, outside = located(file, at.split(","), box.split(","), epsilon=epsilon, unit=unit)  # type: ignore[arg-type]
    release.save(out, overwrite=overwrite)
    parameters = release.guarantee.parameters
    if as_json:
        typer.echo(dumps({**parameters, "out": out}))
        return
    typer.echo(release.guarantee.statement)
    if outside:
        # A private number: it is printed for the person, and stands in no file.
        typer.echo(
            f"For you alone: {outside:,} of {parameters['places']:,} places are outside the map "
            "and were moved from its edge. No file says so."
        )
    typer.echo(
        f"At least 95 % of the noisy places are within {parameters['radius95']:.0f} metres of the "
        "true ones."
    )
    typer.echo(f"Wrote {out} and {out}.json.")
