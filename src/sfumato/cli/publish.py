"""`sfumato publish`: release private statistics of a data set, from histograms to maps."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import Epsilon, Json, Overwrite, Principal, Rho, VaultFolder
from sfumato.cli.progress import progress
from sfumato.errors import CallerError, InternalError, ParameterError
from sfumato.texts import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.publish.kinds import Publication
    from sfumato.vault.private import Private
    from sfumato.vault.publishing import Published

Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="auto, histogram, marginals, tree, wavelet, fourier, quadtree, kdtree, sparse, mwem, "
        "quantiles, or another; an unknown one is answered with all.",
        show_default=False,
    ),
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A data set of the vault.", show_default=False)
]
Columns = Annotated[
    str, typer.Option(metavar="A,B", help="The columns to publish.", show_default=False)
]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="OUT", help="A .csv, .parquet or .geojson; or a folder."),
]
Delta = Annotated[
    str | None, typer.Option(metavar="D", help="Allows Gaussian noise where it is better.")
]
Workload = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The ranges that matter: a table with A_low and A_high."),
]
Steps = Annotated[
    str, typer.Option(metavar="STEPS", help="Done to noisy counts: nonnegative, integer, total.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="An option of the kind; repeatable."),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Only say choices and expected error; spends nothing.")
]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE.html", help="Write a page about the release.")
]


def publish(
    kind: Kind,
    name: Name,
    columns: Columns,
    out: Out = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    workload: Workload = None,
    postprocess: Steps = "",
    option: Options = None,
    explain: Explain = False,
    principal: Principal = "owner",
    report: Report = None,
    overwrite: Overwrite = False,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Publish statistics of a data set under differential privacy."""
    from sfumato.vault.publishing import check_targets
    from sfumato.vault.vault import open_vault

    asked: dict[str, Any] = {
        "columns": columns,
        "epsilon": epsilon,
        "rho": rho,
        "delta": delta,
        "postprocess": postprocess,
        **_options(option or []),
    }
    if out is None and not explain:
        raise ParameterError(
            "out_missing", "Say where to write the release with -o OUT, or only --explain it."
        )
    with open_vault(vault) as opened:
        private = opened.private(name, principal=principal)
        if workload is not None:
            asked["workload"] = _ranges(private, workload, columns)
        planned = private.plan(kind, **asked)
        if out is None or explain:
            _explain(planned, as_json=as_json)
            return
        kept = opened.kept if workload is None else (*opened.kept, workload)
        check_targets(planned, out, report, overwrite=overwrite, kept=kept)
        with progress("Publishing"):
            released = private.publish_planned(planned)
    with _paid():
        written = released.save(out, overwrite=overwrite)
        if report is not None:
            released.report(report, overwrite=overwrite)
            written.append(report)
    _show(kind, released, written, as_json=as_json)


def _ranges(private: Private, path: Path, columns: str) -> Any:
    """The workload of a file, read as the columns are declared."""
    from sfumato.steward.table import read_workload

    return read_workload(path, [private.schema.column(one.strip()) for one in columns.split(",")])


def _options(given: list[str]) -> dict[str, object]:
    """Options written as NAME=VALUE, with dashes or underscores."""
    found: dict[str, object] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise ParameterError(
                "option_not_pair", f"An option must be written NAME=VALUE, not {one!r}."
            )
        found[name.strip().replace("-", "_")] = value.strip()
    return found


@contextmanager
def _paid() -> Iterator[None]:
    """After the charge nothing is the caller's mistake any more: what is paid for is not lost."""
    try:
        yield
    except CallerError as error:
        message = f"{error.message} It is paid for and stored: repeat the command, which is free."
        raise InternalError(error.code, message) from None


def _explain(planned: Publication, *, as_json: bool) -> None:
    """Print how far off a publication would be, and what would be chosen for it."""
    if as_json:
        found = {"choices": planned.parameters, "error": planned.error}
        typer.echo(dumps(found, ensure_ascii=False))
        return
    from sfumato.report.terminal import in_words, named, printable

    typer.echo(f"Cost: {planned.request.price.sentence()}. Nothing was spent.")
    for name, value in planned.error.items():
        typer.echo(printable(f"Expected error, {named(name)}: {in_words(value)}"))
    for name, value in planned.method.parameters.items():
        typer.echo(printable(f"Chosen, {named(name)}: {in_words(value)}"))


def _show(kind: str, released: Published, written: list[Path], *, as_json: bool) -> None:
    """Print what was published, how far off it is, what it cost and where it lies."""
    if as_json:
        found = {
            "kind": kind,
            "tables": {name: table.num_rows for name, table in released.tables.items()},
            "choices": released.provenance.parameters["method"],
            "error": released.error,
            "cost": {**released.cost, "charged": released.charged},
            "remaining": released.remaining,
            "receipt": released.receipt,
            "written": [str(path) for path in written],
        }
        typer.echo(dumps(found, ensure_ascii=False))
        return
    from rich.console import Console

    from sfumato.cli.query import amounts
    from sfumato.report.terminal import in_words, named, printable

    console = Console(highlight=False)
    console.print(printable(released.guarantee.statement))
    for name, value in (released.error or {}).items():
        console.print(printable(f"Expected error, {named(name)}: {in_words(value)}"))
    asked = "" if released.charged else ", published before: free"
    console.print(
        f"Cost: {amounts(released.cost)}{asked}. Remaining: {amounts(released.remaining)}."
    )
    console.print(f"Receipt: {released.receipt}", soft_wrap=True)
    console.print(printable(f"Wrote {' and '.join(map(str, written))}."), soft_wrap=True)
