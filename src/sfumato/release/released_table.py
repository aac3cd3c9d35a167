"""Released tables in files: find them by their side-car, and read their labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Kind, Role
from sfumato.data.schema.hierarchy import ROOT
from sfumato.data.schema.layout import DEFAULT_LAYOUT
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Rows
from sfumato.errors import QueryError
from sfumato.release.engine_tables import released_table
from sfumato.release.release import SYNTACTIC
from sfumato.release.sidecar import layout_in_sidecar, read_sidecar, release_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Unit


@dataclass(frozen=True)
class Described:
    """A syntactic release by its side-car: its first table, and the changes to its rows.

    Suppressed rows may be `starred` (blank); columns may be `shuffled` among rows, or `blurred` by
    noise.
    """

    table: str | Path
    starred: bool
    shuffled: frozenset[str] = frozenset()
    blurred: frozenset[str] = frozenset()
    tables: int = 1


def described(source: Source) -> Described | None:
    """Describe a source by its side-car; None if it is not a syntactic release."""
    sidecar = _sidecar_of(source)
    if sidecar is None or sidecar["guarantee"]["kind"] != SYNTACTIC:
        return None
    path = Path(str(source))
    try:
        asked = sidecar["provenance"]["parameters"]
        starred = asked.get("suppressed") == "star"
        moved = frozenset(asked.get("shuffled", ())), frozenset(asked.get("stddev", ()))
        first, tables = sidecar["tables"][0], len(sidecar["tables"])
        file = "" if first.get("parts") else Path(first["file"]).name
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    location: str | Path = (path if path.is_dir() else path.parent) / file
    if first.get("table"):
        location = str(source)
    return Described(location, starred, *moved, tables)


def _sidecar_of(source: Source) -> dict[str, Any] | None:
    """Return the side-car of a release; None if the source is not one."""
    if not isinstance(source, str | Path):
        return None
    if "://" not in str(source):
        return read_sidecar(Path(source))
    engine_table = released_table(str(source))
    return None if engine_table is None else engine_table.sidecar


def require_worlds(source: Source, names: Collection[str]) -> None:
    """Refuse a query on columns whose cells do not bound the original values.

    Shuffled values stay in their group, but the groups are not in the file. A query on one shuffled
    column alone has the same answer before and after.
    """
    if isinstance(source, str | Path) and "://" not in str(source):
        source = release_of(Path(source))
    sidecar = _sidecar_of(source)
    if sidecar is not None and sidecar["guarantee"]["kind"] != SYNTACTIC:
        raise QueryError(
            "question_not_supported",
            "This release has noise, so no bound on the original holds for certain. Use the error "
            "that its side-car states.",
        )
    # Suppressed or generalized cells bound their original; moved and shuffled ones do not.
    release = described(source)
    blurred = sorted(release.blurred & {*names}) if release else []
    shuffled = sorted(release.shuffled & {*names}) if release and len(names) > 1 else []
    if blurred:
        raise QueryError(
            "question_not_supported",
            f"Column {quoted(blurred[0])} was moved by noise in this release, so no bound on the "
            "original holds. Ask about other columns.",
        )
    if shuffled:
        raise QueryError(
            "question_not_supported",
            f"The values of column {quoted(shuffled[0])} were shuffled inside groups in this "
            "release, and the groups are not in the file, so nothing bounds them together with "
            "other columns. Ask about this column alone, or about others.",
        )


def open_labels(source: Source, schema: Schema, *, strict: bool = True) -> tuple[Engine, Schema]:
    """Open a released table; return the engine and the part of the schema that it holds.

    Quasi-identifiers have the kind of their labels, without domain and hierarchy. Other columns are
    as declared; missing ones are left out. The privacy unit is a person only if the release has the
    person's column, and not as labels.
    """
    engine = open_released(source, schema, strict=strict)
    try:
        held = engine.columns(engine.table)
        present = (c for c in schema.columns if c.name in held or c.role is Role.QUASI)
        columns = tuple(_as_held(column, held) for column in present)
        if isinstance(engine, DuckDB):
            asked = {c.name: c for c in columns if c.name in held}
            engine.retype(asked, strict=strict)
    except BaseException:
        engine.close()
        raise
    return engine, Schema(schema.table, columns, _unit(schema, held), schema.layout)


def open_released(source: Source, schema: Schema | None = None, *, strict: bool = True) -> Engine:
    """Open a released table with the layout of its side-car, else that of its schema."""
    names = () if schema is None else [column.name for column in schema.columns]
    usual = DEFAULT_LAYOUT if schema is None else schema.layout
    path = Path(source) if isinstance(source, str | Path) and "://" not in str(source) else None
    layout = None if path is None else layout_in_sidecar(path)
    return open_source(source, layout=layout or usual, declared=names, ours=True, strict=strict)


def _unit(schema: Schema, held: Collection[str]) -> Unit:
    unit = schema.unit
    if unit.column is None:
        return unit
    names_person = unit.column in held and schema.column(unit.column).role is not Role.QUASI
    return unit if names_person else Rows(relation=unit.relation)


def _as_held(column: Column, held: Mapping[str, Kind]) -> Column:
    if column.role is not Role.QUASI:
        return column
    kind = held.get(column.name, column.kind)
    if (column.kind, kind) == (Kind.REAL, Kind.INTEGER):  # all values happen to be whole
        kind = Kind.REAL
    spelling = column.spelling if kind is column.kind else None
    return replace(column, kind=kind, domain=None, hierarchy=None, spelling=spelling)


def released_rows(engine: Engine) -> exp.Select:
    """Select the rows of a table without suppressed ones, which are blank in every column."""
    blank = []
    for name, kind in engine.columns(engine.table).items():
        cell = exp.column(name, quoted=True)
        empty: exp.Expr = cell.is_(exp.Null())
        # A star in a text column is the root "*"; in other columns a suppressed cell is NULL.
        if kind is Kind.TEXT:
            empty = exp.or_(empty, cell.copy().eq(ROOT))
        blank.append(exp.paren(empty))
    return exp.select(exp.Star()).from_(engine.table.copy()).where(exp.not_(exp.and_(*blank)))
