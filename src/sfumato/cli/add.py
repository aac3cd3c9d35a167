"""`sfumato add`: put a data set under a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import DeclaredSchema, Json, VaultFolder, argument, option
from sfumato.texts import dumps

Name = Annotated[str, argument("NAME", "Its name in questions.")]
Source = Annotated[
    str,
    argument(
        "SOURCE",
        "A .csv, .csv.gz or .parquet file, duckdb:///file#table, postgresql://...#table or "
        "spark://...#table.",
    ),
]
Unit = Annotated[str | None, option("row|COLUMN", "What one person is; else as the schema says.")]
MaxRows = Annotated[int | None, option("N", "Rows of one person to use.")]
MaxGroups = Annotated[int | None, option("M", "Groups one person can be in.")]
Epsilon = Annotated[str | None, option("E", "The whole budget, for all answers ever.")]
Delta = Annotated[str, option("D", "Its delta.")]
Population = Annotated[
    str | None, option("NAME", "Data sets about the same people share one budget.")
]
Consent = Annotated[
    str | None, option("COLUMN", "Use only people whose rows all are true in this column.")
]
Public = Annotated[bool, option(None, "It is about nobody and costs nothing.", "--public")]
Unique = Annotated[
    list[str] | None, option("A,B", "Columns whose values are unique in a public table.")
]


def add(
    name: Name,
    source: Source,
    schema: DeclaredSchema,
    unit: Unit = None,
    max_rows: MaxRows = None,
    max_groups: MaxGroups = None,
    epsilon: Epsilon = None,
    delta: Delta = "0",
    population: Population = None,
    consent: Consent = None,
    public: Public = False,
    unique: Unique = None,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Add a data set to a vault, with a budget for the people in it."""
    from sfumato.vault.registration import Registration, add_public

    added: dict[str, object] = {"dataset": name, "public": public}
    if public:
        private_only = {
            "--unit": unit,
            "--epsilon": epsilon,
            "--population": population,
            "--consent": consent,
        }
        given = [option for option, value in private_only.items() if value is not None]
        if given:
            raise typer.BadParameter(f"A public table has no {', '.join(given)}; leave it out.")
        keys = {tuple(columns.split(",")): 1 for columns in unique or ()}
        add_public(vault, name=name, source=source, schema=schema, keys=keys, warn=_warn)
        sentence = "It is public."
    else:
        if unique:
            raise typer.BadParameter("--unique is for tables that are --public.")
        held = Registration(
            name=name,
            source=source,
            schema=schema,
            unit=unit,
            max_rows=max_rows,
            max_groups=max_groups,
            epsilon=epsilon,
            delta=delta,
            population=population,
            consent=consent,
            warn=_warn,
        ).add_to(vault)
        sentence = held.unit.sentence()
        added |= {"population": held.population, "unit": sentence}
    typer.echo(dumps(added) if as_json else f"Added '{name}' to the vault. {sentence}")


def _warn(warning: str) -> None:
    typer.echo(f"sfumato: {warning}", err=True)
