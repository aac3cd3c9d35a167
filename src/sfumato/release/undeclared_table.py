"""Open a table without a schema: recognise how text is written, then guess kinds and roles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.kinds import check_cells
from sfumato.data.engines.sources import open_source
from sfumato.data.files.cell_conversion import fitting_cells, fitting_kinds
from sfumato.data.files.formats import TEXT, ends_in
from sfumato.data.inspection.guesses import (
    Guess,
    guess,
    holds_no_quantity,
    kind_of,
    observed_schema,
)
from sfumato.data.inspection.profile import ColumnProfile, TextFacts, measure_texts, profile_columns
from sfumato.data.inspection.spellings import (
    DAY_DIGITS,
    Recognised,
    as_text,
    likeness_warning,
    merged_warning,
    read_as_days,
    recognise,
    recognise_reals,
    shapes_of,
    text_instead,
)
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.layout import DEFAULT_LAYOUT
from sfumato.data.schema.schema import Schema
from sfumato.release.released_table import open_released

if TYPE_CHECKING:
    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.sources import Source
    from sfumato.release.open_table import Progress


@dataclass(frozen=True)
class Unknown:
    """An open source with guessed columns, and the schema with all facts `seen` of them."""

    engine: Engine
    schema: Schema
    guesses: tuple[Guess, ...]
    seen: Schema


def open_unknown(source: Source, progress: Progress | None, *, ours: bool) -> Unknown:
    """Open a source without a schema: measure its columns, then guess kinds and roles."""
    engine = open_released(source) if ours else open_source(source)
    try:
        held = engine.columns(engine.table)
        # Unreadable cells are refused before anything is guessed from them.
        check_cells(engine, held)
        texts = [name for name, kind in held.items() if kind is Kind.TEXT]
        facts = measure_texts(engine, engine.table, texts)
        fits: dict[str, set[Kind]] = {}
        kinds, recognised = held, dict[str, Recognised]()
        if isinstance(engine, DuckDB):
            # A CSV has no types: every column is text until all its cells fit another kind. Other
            # sources declare their types.
            csv = _is_csv(source)
            fits = fitting_kinds(engine) if csv else {}
            kinds = {name: _kind(name, held[name], fits, facts) for name in held} if csv else held
            recognised = {
                name: _recognise_spelling(engine, name, kinds[name], fits.get(name), facts[name])
                for name in texts
            }
            asked = {
                name: spelling.column
                for name, spelling in recognised.items()
                if spelling.column is not None
            }
            engine.retype({**kinds, **asked})
            kinds = kinds | {name: column.kind for name, column in asked.items()}
            fits |= {name: {column.kind} for name, column in asked.items()}
        profiles = profile_columns(
            engine,
            engine.table,
            kinds,
            source_kinds=held,
            fits=fits,
            texts=facts,
            recognised=recognised,
            progress=progress,
        )
        guesses = tuple(guess(profile) for profile in profiles)
        columns = tuple(guessed.column for guessed in guesses)
        layout = engine.layout if isinstance(engine, DuckDB) else DEFAULT_LAYOUT
        schema = Schema(_name(source), columns, layout=layout)
        seen = observed_schema(schema, profiles)
    except BaseException:
        engine.close()
        raise
    return Unknown(engine, schema, guesses, seen)


def _recognise_spelling(
    engine: DuckDB, name: str, kind: Kind, fits: set[Kind] | None, fact: TextFacts
) -> Recognised:
    """Recognise how a column of text is written.

    `fits` has the kinds that all cells fit; text that also fits another kind is a code. It is None
    if the source itself declares text.
    """
    numbers = not holds_no_quantity(name)
    if kind is Kind.INTEGER and fact.shortest == fact.longest == DAY_DIGITS and numbers:
        return read_as_days(engine, engine.table, name)
    if kind not in (Kind.TEXT, Kind.REAL) or (kind is Kind.TEXT and fits and len(fits) > 1):
        return Recognised()
    shapes, present = shapes_of(engine, engine.table, name)
    if kind is Kind.REAL:
        recognised = recognise_reals(name, shapes, present)
    else:
        recognised = recognise(
            name, shapes, present, partial(fitting_cells, engine), numbers=numbers
        )
    real = recognised.column or Column(name, kind)
    if real.kind is Kind.REAL:
        lost = text_instead(engine, engine.table, real)
        recognised = lost or replace(
            recognised, warnings=(*recognised.warnings, *merged_warning(engine, engine.table, real))
        )
    elif recognised == Recognised():
        warnings = likeness_warning(engine, engine.table, name, shapes, present, numbers=numbers)
        recognised = Recognised(None, warnings)
    return as_text(recognised) if fits is None else recognised


def _kind(name: str, held: Kind, fits: dict[str, set[Kind]], facts: dict[str, TextFacts]) -> Kind:
    """Return the kind to read a text column as, judged by its text alone."""
    if held is not Kind.TEXT:
        return held
    fact = facts[name]
    sketch = ColumnProfile(
        name=name,
        kind=held,
        rows=1,
        nulls=int(fact.longest is None),
        distinct=1,
        fits=frozenset(fits[name]),
        padded=fact.padded,
        shortest=fact.shortest,
        longest=fact.longest,
    )
    return kind_of(sketch)


def _is_csv(source: Source) -> bool:
    return isinstance(source, str | Path) and ends_in(Path(source).name, TEXT)


def _name(source: Source) -> str:
    """Name a table after its source; a table in memory is "people", as "table" is an SQL word."""
    if not isinstance(source, str | Path):
        return "people"
    last = str(source).partition("?")[0].rpartition("#")[2]
    return Path(last).name.partition(".")[0] or "people"
