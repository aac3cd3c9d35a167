"""`sfumato sandbox`: test the sandboxes of this machine."""

from __future__ import annotations

import os

import typer

from sfumato.cli.options import Json
from sfumato.text import dumps


def sandbox(as_json: Json = False) -> None:
    """Test the sandboxes of this machine by trying to escape from each.

    Reads no data and costs no budget. 'sfumato run' uses the first sandbox that holds, or none.

    Examples:
        sfumato sandbox
        sfumato sandbox --json
    """
    from sfumato.errors import PolicyError
    from sfumato.methods.programs.sandbox import VARIABLE, chamber, chambers

    probes = {provider.name: provider.probe() for provider in chambers()}
    try:
        chosen = chamber().name
    except PolicyError:
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
