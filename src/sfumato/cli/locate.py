"""`sfumato locate`: tell the places of one person, moved at random."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.options import Json, Overwrite, argument, option
from sfumato.text import dumps


def locate(
    file: Annotated[str, argument("FILE", "The places of one person, a row each.")],
    box: Annotated[str, option("W,S,E,N", "The map, which everybody may know.", "--box")],
    epsilon: Annotated[str, option("E", "For each metre and each place.", "--epsilon-per-metre")],
    out: Annotated[str, option("OUT", "Where the moved places go.", "--out", "-o")],
    at: Annotated[str, option("X,Y", "The columns of places, east first.")] = "lon,lat",
    unit: Annotated[str, option("UNIT", "What places are in: degrees or metres.")] = "degrees",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Tell places of your own, each moved at random, and what they give away.

    Near places become hard to tell apart; far ones do not. It runs on your side: nobody is
    trusted with the true places. Every place costs its epsilon again, and the meter says what all
    of them cost together: many places of one person are no private path.

    Examples:
        sfumato locate places.csv --at lon,lat --box -8.7,41.1,-8.5,41.3 \\
            --epsilon-per-metre 0.01 -o moved.csv
    """
    from sfumato.methods.trajectory.locate import located
    from sfumato.release.files_in_use import source_files
    from sfumato.release.output import Output, check_outputs

    check_outputs(Output.parse(out), several=False, overwrite=overwrite, kept=source_files(file))
    release, outside = located(file, at.split(","), box.split(","), epsilon=epsilon, unit=unit)  # type: ignore[arg-type]
    release.save(out, overwrite=overwrite)
    told = release.guarantee.parameters
    if as_json:
        typer.echo(dumps({**told, "out": out}))
        return
    typer.echo(release.guarantee.statement)
    if outside:
        typer.echo(
            f"For your eyes alone: {outside:,} of {told['places']:,} places lie outside of the map "
            "and were told as if at its edge. That stands in no file."
        )
    typer.echo(
        f"At least 95 % of places are within {told['radius95']:.0f} metres of the true ones."
    )
    typer.echo(f"Wrote {out} and {out}.json.")
