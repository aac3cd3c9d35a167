"""`sfumato sandbox`: whether analysts' programs can be run here, and in what."""

from __future__ import annotations

import os

import typer

from sfumato.cli.options import Json
from sfumato.text import dumps


def sandbox(as_json: Json = False) -> None:
    """Try to escape from each sandbox of this machine; programs run in the first that holds.

    Nobody's rows are needed and nothing is charged. Where none holds, no program is run.

    Examples:
        sfumato sandbox
        sfumato sandbox --json
    """
    from sfumato.errors import PolicyError
    from sfumato.methods.programs.sandbox import VARIABLE, chamber, chambers

    found = [(one.name, one.probe()) for one in chambers()]
    try:
        chosen = chamber().name
    except PolicyError:
        chosen = None
    if as_json:
        tried = [
            {"name": name, "passed": one.passed, "findings": list(one.findings)}
            for name, one in found
        ]
        typer.echo(dumps({"sandbox": chosen, "tried": tried}))
        return
    for name, one in found:
        typer.echo(
            f"{name:12}{'holds' if one.passed else 'does not hold: '}{'; '.join(one.findings)}"
        )
    if chosen:
        typer.echo(f"Programs run in {chosen}.")
    else:
        asked = (
            f", and {VARIABLE} asks for {wanted}" if (wanted := os.environ.get(VARIABLE)) else ""
        )
        held = ", ".join(name for name, one in found if one.passed) or "no sandbox"
        typer.echo(f"No program is run here: {held} holds{asked}.")
