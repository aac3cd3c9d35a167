"""`sfumato add`: put a data set under a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Json, SchemaFile, VaultFolder, argument, form
from sfumato.cli.walkthrough import budget, completed, on_terminal
from sfumato.errors import ParameterError
from sfumato.text import dumps
from sfumato.vault.family import Field

Name = Annotated[str, argument("NAME", "Its name in questions.")]
Source = Annotated[
    str,
    argument(
        "SOURCE",
        "A .csv, .tsv, .txt, .parquet, .xlsx, .sav, .dta or .sas7bdat file, a folder or pattern of "
        "Parquet files, duckdb:///file#table, postgresql://...#table, spark://...#table, "
        "sc://...#table or spark+parquet:///folder/.",
    ),
]


@form(
    Field("unit", "What one person is; else as the schema says.", "row|COLUMN"),
    Field("max_rows", "Rows of one person to use.", "N", type=int),
    Field("max_groups", "Groups one person can be in.", "M", type=int),
    Field("epsilon", "The whole budget, for all answers ever.", "EPSILON"),
    Field("delta", "Its delta.", "DELTA", default="0"),
    Field("population", "Data sets about the same people share one budget.", "NAME"),
    Field("consent", "Use only people whose rows all are true in this column.", "COLUMN"),
    Field("purposes", "What people are asked to agree to: questions name one.", "A,B"),
    Field("public", "It is about nobody and costs nothing.", "", type=bool, default=False),
    Field("yes", "Ask nothing, also on a terminal.", "", type=bool, default=False),
    Field("unique", "Columns whose values are unique in a public table.", "A,B", type=list[str]),
)
def add(
    name: Name,
    source: Source,
    schema: SchemaFile = None,
    vault: VaultFolder = Path(),
    as_json: Json = False,
    **said: Any,
) -> None:
    """Add a data set to a vault, with a budget for the people in it.

    The vault counts what it spends itself. Keep people in one vault: another one that holds the
    same file has a budget of its own, and what both tell adds up.

    Examples:
        sfumato add people people.csv --schema people.toml --epsilon 3 --vault clinic
        sfumato add visits visits.csv --schema visits.toml --epsilon 2 --purposes care,research \\
            --vault clinic
        sfumato add towns towns.csv --schema towns.toml --public --unique town --vault clinic
    """
    from sfumato.vault.accounts import balance_of
    from sfumato.vault.registration import Registration, add_public

    public, unique, quiet = said.pop("public"), said.pop("unique"), said.pop("yes") or as_json
    asking = not (public or quiet) and on_terminal()
    if asking:
        schema = completed(source, schema, unit=said["unit"])
    if schema is None:
        raise ParameterError(
            "schema_missing",
            f"What {source} holds must be declared: give --schema FILE. Make one with 'sfumato "
            f"inspect {source} --write FILE', or add it on a terminal, where its columns are asked "
            "for one by one.",
        )
    if asking and said["epsilon"] is None and said["population"] is None:
        said["epsilon"] = budget()
    what: dict[str, Any] = {"name": name, "source": source, "schema": schema, "warn": _warn}
    added: dict[str, object] = {"dataset": name, "public": public}
    if public:
        private_only = ("unit", "epsilon", "population", "consent", "purposes")
        given = [f"--{one}" for one in private_only if said[one] is not None]
        if given:
            raise typer.BadParameter(f"A public table has no {', '.join(given)}; leave it out.")
        add_public(vault, keys={tuple(one.split(",")): 1 for one in unique or ()}, **what)
        sentence = "It is public."
    else:
        if unique:
            raise typer.BadParameter("--unique is for tables that are --public.")
        purposes = said.pop("purposes")
        listed = None if purposes is None else tuple(purposes.split(","))
        held = Registration(**what, **said, purposes=listed).add_to(vault)
        sentence = held.unit.sentence()
        added |= {"population": held.population, "unit": sentence}
        if not as_json:
            sentence = f"{sentence}\nBudget: {balance_of(vault, held.population)}."
            if held.purposes:
                sentence += (
                    "\nNobody is seen until they agree: 'sfumato consent import FILE' takes "
                    "person,purpose,agreed."
                )
    typer.echo(dumps(added) if as_json else f"Added '{name}' to the vault. {sentence}")


def _warn(warning: str) -> None:
    typer.echo(f"sfumato: {warning}", err=True)
