"""`sfumato collect`: bring batch files of randomized reports to their round."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Json, argument
from sfumato.text import dumps


def collect(
    file: Annotated[Path, argument("FILE", "The round (TOML).")],
    reports: Annotated[list[Path], argument("REPORTS...", "Batch files of randomized reports.")],
    as_json: Json = False,
) -> None:
    """Take in reports that devices wrote to files instead of sending them.

    Each file is taken whole or not at all. A report that came before, in this file or another, is
    counted once, so bringing a file again does no harm.

    Examples:
        sfumato collect mood.toml monday.jsonl
        sfumato collect mood.toml monday.jsonl tuesday.jsonl --json
    """
    from sfumato.methods.local.collection import Collection

    with closing(Collection(file)) as collection:
        files = [(path, collection.collect_file(path)) for path in reports]
    accepted = sum(delivery.accepted for _, delivery in files)
    rejected: dict[str, int] = {}
    for _, delivery in files:
        for reason, count in delivery.reasons.items():
            rejected[reason] = rejected.get(reason, 0) + count
    if as_json:
        told = {"accepted": accepted, "rejected": sum(rejected.values())}
        typer.echo(dumps({**told, "rejected_by_reason": rejected}))
        return
    typer.echo(f"{accepted:,} reports taken.")
    for path, delivery in files:
        for reason, count in sorted(delivery.reasons.items()):
            first = next(place for place, why in delivery.rejected if why == reason)
            typer.echo(f"{path}: {count:,} rejected as {reason}, first in line {first + 2}.")
