"""Run attacks on a release for its owner: open the tables and read the side-cars."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.anonymize.measure import is_anatomy, part_of, table_of
from sfumato.attack.case import Case, HeldRelease, HeldTable, cannot_run
from sfumato.attack.classes import forget_labels
from sfumato.attack.finding import Findings
from sfumato.attack.options import AttackOptions
from sfumato.attack.published_counts import price, published_tables
from sfumato.attack.registry import ALL, ANSWER_ATTACKS, ATTACKS, run, run_all
from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import load
from sfumato.errors import ParameterError, SchemaError, SourceError, option
from sfumato.release.open_table import check_columns, read
from sfumato.release.release import Release
from sfumato.release.released_table import described, open_labels, released_rows
from sfumato.release.sidecar import read_sidecar, release_of, sidecar_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction

    import pyarrow as pa

    from sfumato.attack.case import RowsAre
    from sfumato.attack.finding import Finding
    from sfumato.data.engines.sources import Source

    Progress = Callable[[float, float], None]


def attack(
    name: str,
    release: Source,
    schema: str | Path | Schema | None = None,
    *,
    known: Source | None = None,
    original: Source | None = None,
    other: Source | None = None,
    other_original: Source | None = None,
    control: Source | None = None,
    synthetic: bool = False,
    options: AttackOptions | None = None,
    progress: Progress | None = None,
) -> Finding | Findings:
    """Run one attack on a release, or all that fit.

    Parameters
    ----------
    name
        The name of an attack, or "all".
    release
        The release, or the table itself for an attack on answers.
    schema
        The schema or its file. Without one, roles are guessed from the original, or else from the
        release.
    known, original, other, other_original, control
        The attacker's list of people, the original of the release, a second release, the original
        of that, and people like those of the original who are not in it. Each attack states which
        of them it needs.
    synthetic
        Whether the rows of the release are synthetic; a side-car says so itself.
    options
        The assumptions about the attacker; see `AttackOptions`.
    progress
        Called with the number of attacks that are done, and that will run.

    Returns
    -------
    Finding or Findings
        One finding, or for "all" every finding and the reasons why other attacks did not run.

    Raises
    ------
    ParameterError
        If the attack is unknown or does not fit the tables.
    SchemaError, SourceError
        If a table does not have the declared columns, or cannot be read.
    """
    arguments.text(name, "name")
    if name in ANSWER_ATTACKS and original is None:
        original = release  # the table itself is queried; nothing was released yet
    declared = _read_schema(schema, release if original is None else original)
    asked = options or AttackOptions()
    if name in ATTACKS and ATTACKS[name].list_adds_columns and known is not None:
        declared = _with_list(declared, known)
    tables = {"known": known, "original": original, "other": other, "control": control}
    tables["other_original"] = other_original
    if name in ATTACKS and ATTACKS[name].reads_times:
        try:
            moments = _with_moments(declared, asked)
            return _attack_release(name, release, moments, tables, synthetic, asked, progress)
        except SourceError as error:
            if error.code != "kind_mismatch":  # the file holds dates, which have no time of day
                raise
    return _attack_release(name, release, declared, tables, synthetic, asked, progress)


def _attack_release(
    name: str,
    release: Source,
    schema: Schema,
    tables: Mapping[str, Source | None],
    synthetic: bool,
    options: AttackOptions,
    progress: Progress | None,
) -> Finding | Findings:
    # Counts have no rows: attacks on them read the counted table.
    if _rows_are(release) == "counts" and tables["original"] is None:
        reason = (
            "the release is published counts, not rows. Give what was counted with "
            f"{option('original')}."
        )
        if name != ALL:
            raise cannot_run(name, reason)
        return Findings((), dict.fromkeys(ATTACKS, reason))
    with ExitStack() as opened:
        second_release = tables["other"]
        case = Case(
            schema,
            _open_release(opened, release, schema, tables["original"], synthetic),
            _maybe(opened, tables["known"], schema),
            _maybe(opened, tables["original"], schema),
            None
            if second_release is None
            else opened.enter_context(held_release(second_release, schema)),
            _maybe(opened, tables["control"], schema),
            options,
            throw_away,
            _maybe(opened, tables["other_original"], schema),
        )
        findings = run_all(case, progress) if name == ALL else run(name, case)
    unread = unread_sidecar(release)
    if isinstance(findings, Findings):
        return Findings(
            tuple(_add_remarks(finding, unread) for finding in findings), findings.refusals
        )
    return _add_remarks(findings, unread)


def _add_remarks(finding: Finding, remarks: Sequence[str]) -> Finding:
    return replace(finding, remarks=[*finding.remarks, *remarks]) if remarks else finding


@contextmanager
def throw_away(
    rows: pa.Table, schema: Schema, epsilon: Fraction
) -> Iterator[Callable[[str, Fraction], pa.Table]]:
    """Protect a table with a budget in memory, and yield a function that queries it."""
    from sfumato.vault.protection import (
        protect,  # the door stands above us, and is opened when asked
    )

    with read(rows, schema) as table:
        private = protect(table, epsilon=epsilon)
        yield lambda sql, price: private.query(sql, epsilon=price).table


def _read_schema(schema: str | Path | Schema | None, source: Source) -> Schema:
    if isinstance(schema, Schema):
        return schema
    if schema is not None:
        return load(arguments.path(schema, "schema"))
    with read(source) as table:
        return table.declared or table.schema


def _with_list(schema: Schema, known: Source) -> Schema:
    """Return the schema with the columns of a list that the release need not have."""
    names = {column.name for column in schema.columns}
    with read(known) as table:
        added = [column for column in table.schema.columns if column.name not in names]
    return Schema(
        schema.table, (*schema.columns, *added), schema.unit, schema.layout, form=schema.form
    )


def _with_moments(schema: Schema, options: AttackOptions) -> Schema:
    """Return the schema with the time column as text, because a date has no time of day."""
    name = options.columns.get("time", "time")
    columns = [Column(c.name, Kind.TEXT) if c.name == name else c for c in schema.columns]
    return Schema(schema.table, tuple(columns), schema.unit, schema.layout, form=schema.form)


def _open_release(
    opened: ExitStack, release: Source, schema: Schema, original: Source | None, synthetic: bool
) -> HeldRelease:
    """Open a release; for published counts open the table that was counted."""
    if _rows_are(release) == "counts" and original is not None:
        return HeldRelease(
            opened.enter_context(held_people(original, schema)),
            rows_are="counts",
            published=published_tables(Release.load(release_of(Path(str(release)))), schema),
            promised=_read_promise(release),
        )
    return opened.enter_context(held_release(release, schema, synthetic=synthetic))


def _maybe(opened: ExitStack, source: Source | None, schema: Schema) -> HeldTable | None:
    return None if source is None else opened.enter_context(held_people(source, schema))


@contextmanager
def held_people(source: Source, schema: Schema) -> Iterator[HeldTable]:
    """Open a table of people, with the declared columns that it has."""
    names = [column.name for column in schema.columns]
    engine = open_source(source, layout=schema.layout, declared=names)
    try:
        held = engine.columns(engine.table)
        present = tuple(column for column in schema.columns if column.name in held)
        if not present:
            raise SchemaError(
                "comparison_impossible",
                "The table has none of the columns that the schema declares; the first of them is "
                f"{names[0]!r}. Name its columns as the schema does.",
            )
        if isinstance(engine, DuckDB):
            engine.retype({column.name: column for column in present})
        check_columns(engine, Schema(schema.table, present, layout=schema.layout))
        yield HeldTable(engine, engine.table, present)
    finally:
        engine.close()


@contextmanager
def held_release(
    source: Source, schema: Schema, *, synthetic: bool = False
) -> Iterator[HeldRelease]:
    """Open a release for attacks and counts: one table, or the two of an anatomy."""
    provenance = _provenance(source)
    if synthetic or _rows_are(source) == "synthetic":
        with _labels(_only_table(source), schema, starred=False) as table:
            yield HeldRelease(
                table, provenance=provenance, rows_are="synthetic", promised=_read_promise(source)
            )
        return
    if not is_anatomy(source):
        with _labels(table_of(source), schema, _may_be_starred(source, schema)) as table:
            yield HeldRelease(table, provenance=provenance)
        return
    group = Column(GROUP, Kind.INTEGER)
    quasi = (*schema.by_role(Role.QUASI), *schema.by_role(Role.OTHER), group)
    values = (*schema.by_role(Role.SENSITIVE), group, Column(COUNT, Kind.INTEGER))
    with (
        _labels(part_of(source, "quasi"), Schema(schema.table, quasi), starred=False) as rows,
        _labels(part_of(source, "sensitive"), Schema(schema.table, values), starred=False) as cells,
    ):
        yield HeldRelease(rows, cells, provenance)


@contextmanager
def _labels(source: Source, schema: Schema, starred: bool) -> Iterator[HeldTable]:
    """Open a released table: labels are read as labels, suppressed rows are left out."""
    engine, seen = open_labels(source, schema)
    try:
        held = engine.columns(engine.table)
        check_columns(engine, Schema(seen.table, _present_columns(seen, held), layout=seen.layout))
        columns = _present_columns(schema, held)
        if not starred:
            yield HeldTable(engine, engine.table, columns)
            return
        with engine.view(released_rows(engine)) as table:
            yield HeldTable(engine, table, columns)
    finally:
        engine.close()
        forget_labels()


def _present_columns(schema: Schema, held: Mapping[str, Kind]) -> tuple[Column, ...]:
    present = tuple(column for column in schema.columns if column.name in held)
    if not present:
        raise SchemaError(
            "comparison_impossible",
            "The release has none of the columns that the schema declares; the first of them is "
            f"{schema.columns[0].name!r}. Name the schema of its original.",
        )
    return present


def _may_be_starred(source: Source, schema: Schema) -> bool:
    """Return whether blank rows may be suppressed ones; without a side-car they may."""
    release = described(source)
    return bool(schema.by_role(Role.SENSITIVE)) if release is None else release.starred


def _sidecar(source: Source) -> Mapping[str, Any]:
    """Read the side-car of a release; empty without one."""
    if not isinstance(source, str | Path) or "://" in str(source):
        return {}
    return read_sidecar(release_of(Path(source))) or {}


def unread_sidecar(source: Source) -> tuple[str, ...]:
    """Return a remark if the file in the place of a side-car cannot be read."""
    if not isinstance(source, str | Path) or "://" in str(source) or _sidecar(source):
        return ()
    beside = sidecar_file(release_of(Path(source)))
    if not beside.is_file():
        return ()
    return (f"{quoted(str(beside))} cannot be read as a side-car; the method is not known.",)


def _rows_are(source: Source) -> RowsAre:
    """Return the kind of rows of a release, by the method in its side-car."""
    method = str(_sidecar(source).get("provenance", {}).get("method", ""))
    if method == "synthesize":
        return "synthetic"
    return "counts" if method.split(" ")[0] in ("publish", "query") else "people"


def _read_promise(source: Source) -> tuple[float, float] | None:
    return price(_sidecar(source).get("guarantee", {}).get("parameters") or {})


def _only_table(source: Source) -> Source:
    """Return the table of a synthetic release in a folder; raise if there are several."""
    path = Path(str(source)) if isinstance(source, str | Path) else None
    if path is None or not path.is_dir() or not _sidecar(source):
        return source
    tables = [table for table in _sidecar(source)["tables"] if table.get("file")]
    if len(tables) == 1:
        return path if tables[0].get("parts") else path / Path(tables[0]["file"]).name
    raise ParameterError(
        "attack_cannot_run",
        f"An attack is on one table, and the release {quoted(str(source))} has {len(tables)}. "
        f"Name one of them, such as {quoted(str(path / Path(tables[0]['file']).name))}.",
    )


def _provenance(source: Source) -> Mapping[str, Any]:
    """Return the parameters of method and guarantee from the side-car."""
    sidecar = _sidecar(source)
    sections = (
        sidecar.get(section, {}).get("parameters") or {} for section in ("provenance", "guarantee")
    )
    return {name: value for parameters in sections for name, value in parameters.items()}
