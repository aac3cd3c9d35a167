"""`sfumato anonymize --m`: release the baskets of a table of items."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.progress import progress
from sfumato.text import dumps
from sfumato.vault.family import Field

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KNOWN = (
    Field(
        "m",
        "Of a table of items: whoever knows M of a basket finds K that fit; by apriori, or local.",
        "M",
        type=int,
    ),
)
_BESIDE = ("report", "public_report", "require", "explore", "column")
"""What a release of items does not have, in the order in which the command hands it over."""


def release_items(
    table: str,
    schema: Path,
    out: str,
    said: dict[str, Any],
    beside: Sequence[object],
) -> None:
    """Release the baskets of a table of items, and say how."""
    from sfumato.anonymize.itemsets import anonymize_items
    from sfumato.release.files_in_use import source_files
    from sfumato.release.open_table import read
    from sfumato.release.output import Output, check_outputs

    taken = {name: said.pop(name) for name in ("k", "m", "suppress", "by")}
    algorithm, overwrite, as_json = map(said.pop, ("algorithm", "overwrite", "as_json"))
    said.pop("suppressed")  # whatever becomes of rows, there are none of what is left out
    kept = (*source_files(table), schema)
    check_outputs(Output.parse(out), several=False, overwrite=overwrite, kept=kept)
    with progress("Reading the table"):
        people = read(table, schema)
    with closing(people), progress("Searching"):
        release = anonymize_items(
            people,
            algorithm="apriori" if algorithm == "optimal" else algorithm,
            ignored={**said, **dict(zip(_BESIDE, beside, strict=True))},
            **taken,
        )
        release.save(out, overwrite=overwrite)
    figures = {**release.guarantee.parameters, **(release.holder or {})}
    if as_json:
        typer.echo(dumps(figures, ensure_ascii=False))
        return
    typer.echo(release.guarantee.statement)
    typer.echo(
        f"Released {figures['baskets']:,} of {figures['baskets_before']:,} baskets of "
        f"{figures['groups']:,} groups, as {figures['rows']:,} rows; {figures['left_out']:,} items "
        f"in baskets left out; loss {figures['loss']:.4f}."
    )
    typer.echo(f"Wrote {out} and {out}.json; {out}.holder.json stays with you.")
