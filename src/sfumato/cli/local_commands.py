"""`sfumato init`, `locate`, `predict` and `sandbox`: commands that use no data set of a vault."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import OUTPUT, Json, Overwrite, argument, option
from sfumato.text import dumps


def init(
    vault: Annotated[Path, argument("VAULT", "The folder to create.")],
    ledger: Annotated[
        str,
        option("FILE|URL", "The ledger database: a SQLite file in the folder, or postgresql://..."),
    ] = "ledger.sqlite",
    head: Annotated[
        Path | None,
        option(
            "FILE",
            "The file that records the ledger's last position, to detect a rollback. Keep it "
            "outside the folder, best on another disk; by default it is beside the folder.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a vault: a folder with data sets, their budgets and a ledger.

    Examples:
        sfumato init clinic
    """
    from sfumato.vault.creation import create

    new = create(vault, database=ledger, head=head)
    if as_json:
        typer.echo(dumps({"vault": str(new.folder), "head": str(new.head)}))
    else:
        typer.echo(
            f"Created the vault {new.folder}. The file {new.head} detects a ledger that was rolled "
            "back: keep it, but not in the backups of the vault."
        )


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

    # Before noise is drawn: a second run on the same locations costs epsilon again.
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
            f"For you alone: {outside:,} of {parameters['places']:,} locations are outside the "
            "map. They were moved to its edge before noise was added. No file says so."
        )
    typer.echo(
        f"At least 95 % of the noisy locations are within {parameters['radius95']:.0f} metres of "
        "the true ones."
    )
    typer.echo(f"Wrote {out} and {out}.json.")


def predict(
    model: Annotated[Path, argument("MODEL", "A model file that 'sfumato learn' wrote.")],
    table: Annotated[str, argument("TABLE", "A table with the features of the model.")],
    out: Annotated[
        Path,
        option("OUT", "A .csv, .parquet or .xlsx file.", "-o", "--out", rich_help_panel=OUTPUT),
    ],
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Add the predictions of a trained model to each row of a table.

    Costs no budget: the model is differentially private already.

    Examples:
        sfumato predict model.json people.csv -o predicted.csv
    """
    from sfumato.methods.learn.model import write_predictions

    predictions = write_predictions(model, table, out, overwrite=overwrite)
    rows, names = predictions.num_rows, predictions.column_names
    if as_json:
        typer.echo(dumps({"rows": rows, "columns": names, "out": str(out)}))
    else:
        typer.echo(f"Wrote {rows:,} rows with predictions to {out}.")


def sandbox(as_json: Json = False) -> None:
    """Test the sandboxes of this machine by trying to escape from each.

    Reads no data and costs no budget. 'sfumato run' uses the first sandbox that holds, or none.

    Examples:
        sfumato sandbox
        sfumato sandbox --json
    """
    from sfumato.errors import PolicyError
    from sfumato.methods.programs.sandbox import VARIABLE, chamber, chambers

    # All of them, not only the first that holds: an operator wants to see why the better ones fail.
    probes = {provider.name: provider.probe() for provider in chambers()}
    try:
        chosen = chamber().name
    except PolicyError:  # the operator requires one that does not hold
        chosen = None
    if as_json:
        results = [
            {"name": name, "passed": probe.passed, "findings": list(probe.findings)}
            for name, probe in probes.items()
        ]
        typer.echo(dumps({"sandbox": chosen, "tried": results}))
        return
    for name, probe in probes.items():
        verdict = "holds" if probe.passed else f"does not hold: {'; '.join(probe.findings)}"
        typer.echo(f"{name:12}{verdict}")
    if chosen:
        typer.echo(f"Programs run in {chosen}.")
    else:
        required = os.environ.get(VARIABLE)
        setting = f", and {VARIABLE} requires {required}" if required else ""
        holding = ", ".join(name for name, probe in probes.items() if probe.passed) or "no sandbox"
        typer.echo(f"Programs cannot run here: {holding} holds{setting}.")
