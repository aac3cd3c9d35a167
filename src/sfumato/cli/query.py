"""`sfumato query`: ask SQL, get a private answer with error bars, or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import Epsilon, Json, Principal, Rho, VaultFolder
from sfumato.texts import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from sfumato.vault.gatekeeper import Answer


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT.", show_default=False)],
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Annotated[
        str | None,
        typer.Option(metavar="D", help="For groups that are not declared, and Gaussian noise."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Only say cost and expected error; spends nothing.")
    ] = False,
    principal: Principal = "owner",
    request: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Repeat a request safely: same id, same answer."),
    ] = None,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Ask a question about the data sets of a vault."""
    from sfumato.vault.session import answer_to_json as plain
    from sfumato.vault.vault import open_vault

    with open_vault(vault) as opened:
        if explain:
            found = opened.explain(sql, epsilon=epsilon, rho=rho, delta=delta, principal=principal)
            typer.echo(dumps(found.to_json()) if as_json else found.text())
            return
        answer = opened.query(
            sql, epsilon=epsilon, rho=rho, delta=delta, principal=principal, request_id=request
        )
    if as_json:
        typer.echo(dumps(plain(answer), ensure_ascii=False))
    else:
        _show(answer)


def _show(answer: Answer) -> None:
    """Print an answer for people: figures with their error bars, then what it cost."""
    from rich.console import Console

    from sfumato.report.terminal import printable

    console = Console(highlight=False)
    console.print(_table(answer))
    notes = [*answer.guarantee.parameters.get("notes", ()), answer.guarantee.statement]
    for note in notes:
        console.print(printable(note), style="dim")
    asked = "" if answer.charged else ", asked before: free"
    console.print(f"Cost: {amounts(answer.cost)}{asked}. Remaining: {amounts(answer.remaining)}.")
    console.print(f"Receipt: {answer.receipt}", soft_wrap=True)


def _table(answer: Answer) -> Table:
    from rich.table import Table

    from sfumato.report.terminal import printable

    table = Table(box=None, pad_edge=False, header_style="bold")
    bounds = {
        name: one["bound95"] for name, one in (answer.error or {}).items() if "bound95" in one
    }
    for name in answer.table.column_names:
        table.add_column(printable(name), overflow="fold")
        if name in bounds:
            table.add_column("± 95 %", justify="right")
    for number, row in enumerate(answer.table.to_pylist()):
        cells = []
        for name, value in row.items():
            cells.append(printable("" if value is None else _number(value)))
            if name in bounds:
                bound = bounds[name]
                one = bound[number] if isinstance(bound, list) else bound
                cells.append(printable("" if one is None else f"{one:.3g}"))
        table.add_row(*cells)
    return table


def _number(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def amounts(spent: Mapping[str, float]) -> str:
    """Amounts of privacy loss in words."""
    return ", ".join(f"{name} {amount:.6g}" for name, amount in spent.items() if amount)
