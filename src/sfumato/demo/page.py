"""The demo page: every method of Sfumato shown on a town that does not exist."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from importlib.resources import files
from typing import TYPE_CHECKING

import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet

from sfumato import __version__
from sfumato.data.inspection.guesses import Guess
from sfumato.demo import registers, town
from sfumato.demo.sections import SECTIONS, synthesize
from sfumato.demo.town import Town
from sfumato.errors import OutputError
from sfumato.filesystem import check_apart, whole
from sfumato.release.files_in_use import vault_files_around
from sfumato.release.open_table import read
from sfumato.report.blocks import FileLinks, Heading, Paragraph
from sfumato.report.page import generator_of, render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from sfumato.report.blocks import Block

    Progress = Callable[[float, float], None]

PAGE = "index.html"
BESIDE = {
    "town.csv": "one row per person, as the clinic has it",
    "town.parquet": "the same as a Parquet file",
    "town.toml": "what its columns mean, and which of them are private",
    "visits.csv": "one row per visit to the clinic, several for some people",
    "visits.toml": "the same about the visits, with the person as privacy unit",
    "voters.csv": "the public voter list of the same town",
    "twin.csv": "a synthetic table of town.csv: rows that belong to nobody",
}
"""The files beside the page, and what is in them."""
TABLES = tuple(name for name in BESIDE if name != "twin.csv")
"""The files that need no private release."""

_GENERATOR = "Sfumato demo"


def run(
    out: Path, progress: Progress, *, people: int = town.TOWN_SIZE, page: bool = True
) -> list[Path]:
    """Write the page and the files beside it into `out`, all or none; return their paths.

    Files of an earlier demo are replaced; any other file in the way is an error. `progress` is
    called with the steps done and the total. Without a `page` only the tables are made.
    """
    names = [PAGE, *BESIDE] if page else [*TABLES]
    _check(out, names)
    steps = len(SECTIONS) + 3 if page else 2
    with _folder(out), ExitStack() as stack:
        # The file that is opened first appears last: the page appears after the files it links to.
        paths = {name: stack.enter_context(whole(out / name, overwrite=True)) for name in names}
        progress(0, steps)
        tables = {
            "town": town.table(people),
            "visits": registers.visits_table(people),
            "voters": registers.voters_table(people),
        }
        progress(1, steps)
        if page:
            tables["twin"] = synthesize.synthesize_town(tables["town"])
        _write_files(tables, paths)
        progress(2, steps)
        if page:
            paths[PAGE].write_text(_make_page(tables, paths, progress), encoding="utf-8")
            progress(steps, steps)
    return [out / name for name in names]


def _make_page(tables: dict[str, pa.Table], paths: dict[str, Path], progress: Progress) -> str:
    """The page, section by section."""
    context = _inspect(tables, paths["town.toml"])
    blocks: list[Block] = []
    for steps_done, section in enumerate(SECTIONS, start=3):
        progress(steps_done, len(SECTIONS) + 3)
        blocks += section(context)
    return _page(blocks)


def _inspect(tables: dict[str, pa.Table], schema: Path) -> Town:
    """Inspect the town twice: without a schema, and with the schema that a person declared."""
    with read(tables["town"]) as unknown:
        guesses = tuple(map(Guess, unknown.schema.columns, unknown.reasons))
    with read(tables["town"], schema) as known:
        inspection = known.inspect()
    people, visits, voters, synthetic = (
        tables[name] for name in ("town", "visits", "voters", "twin")
    )
    return Town(people, visits, voters, guesses, inspection, synthetic)


def _page(blocks: list[Block]) -> str:
    tail: list[Block] = [
        Heading("Files beside this page"),
        Paragraph("Try the commands of Sfumato on them."),
        FileLinks(list(BESIDE.items())),
    ]
    return render(
        "A town in plain sight",
        [*blocks, *tail],
        lead="Sfumato shows what a table reveals about people, and how to release it safely. This "
        "page uses a town that does not exist.",
        footer=f"Made by Sfumato {__version__}. Every person, address and number on this page is "
        "made up.",
        generator=_GENERATOR,
    )


def _write_files(tables: dict[str, pa.Table], paths: dict[str, Path]) -> None:
    for name, path in paths.items():
        stem, _, kind = name.partition(".")
        if kind == "csv":
            # No word of the town has a separator or quote, so no value needs quotes.
            arrow_csv.write_csv(
                tables[stem],
                path,
                arrow_csv.WriteOptions(quoting_style="none", quoting_header="none"),
            )
        elif kind == "parquet":
            arrow_parquet.write_table(tables[stem], path, compression="zstd")
        elif kind == "toml":
            path.write_bytes(files("sfumato.demo").joinpath(name).read_bytes())


@contextmanager
def _folder(out: Path) -> Iterator[None]:
    """Make the directory if there is none; remove it again if writing fails."""
    if out.is_dir():
        yield
        return
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise OutputError(
            "output_unwritable",
            f"Cannot create the directory '{out}': {error.strerror}. Choose another with --out.",
        ) from None
    try:
        yield
    except BaseException:
        with suppress(OSError):
            out.rmdir()
        raise


def _check(out: Path, names: list[str]) -> None:
    """Refuse to replace files that no demo wrote, and files that a vault uses."""
    # The demo may be written into the folder of a vault, whose files it must not replace.
    used = vault_files_around(out / PAGE)
    for name in names:
        check_apart(out / name, used)
    # An earlier demo is recognized by its page; only then may its files be replaced.
    with suppress(OSError, UnicodeDecodeError):
        if generator_of((out / PAGE).read_text(encoding="utf-8")[:4096]) == _GENERATOR:
            return
    for name in names:
        if (out / name).exists():
            raise OutputError(
                "output_exists",
                f"Cannot write the demo to '{out}': '{name}' there is not from an earlier demo. "
                "Choose another directory with --out.",
            )
