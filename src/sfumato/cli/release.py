"""`sfumato release`: what jobs of a vault gave, as files, and for whom."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.completion import one_of
from sfumato.cli.options import OUTPUT, Json, Overwrite, VaultFolder, decided_by, option
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.vault.releases import KeptRelease, Releases


class ReleaseAction(StrEnum):
    """What to do with releases."""

    LIST = "list"
    SHOW = "show"
    SAVE = "save"
    OPEN = "open"
    SHUT = "shut"


_NEEDS = {
    ReleaseAction.SAVE: ("--out",),
    ReleaseAction.OPEN: ("--to",),
}
SavedTo = Annotated[
    Path | None,
    option(
        "OUT",
        "save: a .csv, .parquet, .xlsx, .arrow, .geojson, .html or .zip.",
        "--out",
        "-o",
        rich_help_panel=OUTPUT,
    ),
]


def release(
    action: Annotated[
        ReleaseAction,
        typer.Argument(
            metavar="ACTION",
            help="What to do: one of the actions below.",
            show_default=False,
            autocompletion=one_of({str(one): "" for one in ReleaseAction}),
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="RELEASE", help="Which, by its name.", show_default=False),
    ] = None,
    out: SavedTo = None,
    to: Annotated[
        str | None, option("A,B", "open: to these principals, or to all by 'public'.")
    ] = None,
    operator: Annotated[str | None, option("WHO", "open, shut: who decided it; else you.")] = None,
    vault: VaultFolder = Path(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Have what jobs of a vault released, as files, and open it to others.

    A release is there for whom it was made. The owner opens it to others, which is an entry of the
    ledger; they have it without the receipt and without who had it made.

    Actions:
        list  the newest releases, and to whom each is open
        show  one release: what it guarantees, how far off it is, which files there are
        save  one release as a file, by its ending; a .zip has all of it
        open  let others have it from now on: those of --to, and nobody else
        shut  let only whom it was made for have it

    Examples:
        sfumato release list --vault clinic
    """
    from sfumato.vault.vault import open_vault

    _check_said(action, name, {"--out": out, "--to": to})
    with open_vault(vault) as opened:
        releases = opened.releases
        if action is ReleaseAction.LIST:
            found = releases.list()
            told = {"releases": [one.to_json() for one in found]}
            typer.echo(dumps(told)) if as_json else _listed(found)
        elif out is not None:
            written = [str(one) for one in releases.get(str(name)).save(out, overwrite=overwrite)]
            typer.echo(dumps({"written": written}) if as_json else f"Wrote {', '.join(written)}.")
        elif action in (ReleaseAction.OPEN, ReleaseAction.SHUT):
            _decided(releases, str(name), to, decided_by(operator), as_json=as_json)
        else:
            one = releases.get(str(name))
            typer.echo(dumps(one.described()) if as_json else _shown(one))


def _check_said(action: ReleaseAction, name: str | None, said: Mapping[str, object]) -> None:
    """Refuse an action without what it needs, and what it would ignore."""
    if (name is None) is not (action is ReleaseAction.LIST):
        raise typer.BadParameter(
            f"{action} needs the name of a RELEASE; 'list' tells them."
            if name is None
            else "list takes no name of a release."
        )
    for flag, value in said.items():
        needed = flag in _NEEDS.get(action, ())
        if (value is not None) is not needed:
            raise typer.BadParameter(f"{action} {'needs' if needed else 'takes no'} {flag}.")


def _decided(
    releases: Releases, name: str, to: str | None, operator: str, *, as_json: bool
) -> None:
    names = [] if to is None else [one.strip() for one in to.split(",") if one.strip()]
    found = releases.open_to(name, names, operator=operator)
    who = ", ".join(found.opened_to or ()) or "nobody else"
    typer.echo(dumps(found.to_json()) if as_json else f"{found.id} is open to {who}.")


def _listed(releases: Sequence[KeptRelease]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Release", "What", "Data set", "Made for", "Made", "Open to"):
        table.add_column(title, overflow="fold", no_wrap=title == "Release")
    for one in releases:
        to = ", ".join(one.opened_to or ())
        table.add_row(one.id, one.family, one.dataset, one.principal, one.made, to)
    Console(highlight=False).print(table if releases else "There are no releases.")


def _shown(kept: KeptRelease) -> str:
    told = kept.described()
    sizes = [f"{name} ({one['rows']} rows)" for name, one in told["tables"].items()]
    return "\n".join(
        [
            f"{kept.id}: {kept.family} of {kept.dataset}, made for {kept.principal}, {kept.made}",
            f"Guarantee: {told['guarantee']}",
            f"Tables: {', '.join(sizes)}",
            f"Files: {', '.join(told['files'])}",
            f"Open to: {', '.join(kept.opened_to or ()) or 'nobody else'}",
        ]
    )
