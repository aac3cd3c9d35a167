"""Released tables as they lie in files: found by their side-car, read by what stands in them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.engines.duckdb import DuckDB
from sfumato.engines.sources import open_source
from sfumato.release import checksum, sidecar
from sfumato.schema.column import Kind, Role
from sfumato.schema.hierarchy.base import ROOT
from sfumato.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.engines.base import Engine
    from sfumato.engines.sources import Source
    from sfumato.schema.column import Column


@dataclass(frozen=True)
class Described:
    """What the side-car of a syntactic release says: its first table, and its suppressed rows."""

    table: Path
    starred: bool


def described(source: Source) -> Described | None:
    """The side-car's word on a source; None where it is no such release, or was changed since."""
    if not isinstance(source, str | Path) or "://" in str(source):
        return None
    path = Path(source)
    try:
        told = json.loads(sidecar(path).read_text(encoding="utf-8"))
        folder = path if path.is_dir() else path.parent
        files = [(folder / Path(one["file"]).name, one["sha256"]) for one in told["tables"]]
        known = told["guarantee"]["kind"] == "syntactic"
        if not known or not files or any(checksum(file) != mark for file, mark in files):
            return None
        starred = told["provenance"]["parameters"].get("suppressed") == "star"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Described(files[0][0], starred)


def open_labels(source: Source, schema: Schema, *, strict: bool = True) -> tuple[Engine, Schema]:
    """Open a released table, and say what it has of a schema.

    Quasi-identifiers are what they are there, labels or values; of them nothing is declared any
    more. Other columns are what the schema says, and those that are not there were left out.
    """
    engine = open_source(source, ours=True)
    try:
        held = engine.columns(engine.table)
        there = (c for c in schema.columns if c.name in held or c.role is Role.QUASI)
        columns = tuple(_as_held(column, held) for column in there)
        if isinstance(engine, DuckDB):
            kinds = {c.name: c.kind for c in columns if c.name in held}
            engine.retype(kinds, strict=strict)
    except BaseException:
        engine.close()
        raise
    return engine, Schema(schema.table, columns)


def _as_held(column: Column, held: Mapping[str, Kind]) -> Column:
    if column.role is not Role.QUASI:
        return column
    return replace(column, kind=held.get(column.name, column.kind), domain=None, hierarchy=None)


def released_rows(engine: Engine) -> exp.Select:
    """The rows of a table but for suppressed ones, which are blank in every column."""
    blank = []
    for name, kind in engine.columns(engine.table).items():
        cell = exp.column(name, quoted=True)
        empty: exp.Expr = cell.is_(exp.Null())
        if kind is Kind.TEXT:
            empty = exp.or_(empty, cell.copy().eq(ROOT))
        blank.append(exp.paren(empty))
    return exp.select(exp.Star()).from_(engine.table.copy()).where(exp.not_(exp.and_(*blank)))
