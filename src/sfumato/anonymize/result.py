"""The decided release: its description, its rows on demand, and its files.

Decisions `what-travels` and `writing-releases`.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal
from weakref import ref

from sqlglot import exp

from sfumato.anonymize.distributions import distributions
from sfumato.anonymize.labels import spelled_label
from sfumato.anonymize.released_classes import NO_CLASSES, remeasure
from sfumato.anonymize.source_check import Promised, changed, mark
from sfumato.anonymize.summary import REMOVED, in_words, risk_of, unchanged_words
from sfumato.attack.requirements import NOT_TRIED, TriedAttacks
from sfumato.data.engines.base import hold_open
from sfumato.data.engines.kinds import kinds_of, stored_schema
from sfumato.data.files.column_spelling import Marked, keys_in, marked
from sfumato.data.files.formats import PARQUET, ends_in
from sfumato.data.files.workbook import labelled
from sfumato.data.schema.column import Kind, Role
from sfumato.data.schema.hierarchy import ROOT
from sfumato.errors import LargeReleaseWarning
from sfumato.release.engine_tables import EngineRows
from sfumato.release.output import Output, check_outputs
from sfumato.release.page import write_pages
from sfumato.release.recoding import blank_rows, relabelled, total_order
from sfumato.release.release import (
    SAMPLE,
    Guarantee,
    Provenance,
    Release,
    TablesOnDemand,
    first_rows,
    today,
)
from sfumato.release.writer import writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa

    from sfumato.anonymize.alternatives import Advice
    from sfumato.anonymize.released_classes import ReleasedClasses
    from sfumato.anonymize.summary import ReleaseFigures
    from sfumato.data.files.writers import Batches
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.spelling import Spelling
    from sfumato.release.open_table import Table
    from sfumato.release.recoding import Recoding
    from sfumato.release.writer import ReleaseWriter
    from sfumato.report.distributions import ColumnComparison


LARGE = 1_000_000
"""Above this number of rows, loading a release into memory warns and names a better way."""
_STAYS = 100_000
"""Tables with at most this many rows stay in memory once they were loaded."""


class DecidedTables(TablesOnDemand):
    """The decided release as tables: the same rows each time while the source is unchanged.

    A table is kept while somebody else holds it, a small one permanently.
    """

    def __init__(self, decided: Anonymized) -> None:
        self._decided = decided
        self._table: ref[pa.Table] | None = None
        self._small: pa.Table | None = None
        self._first: pa.Table | None = None
        self._warned = False
        hold_open(decided.table.engine, self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._decided.table_names)

    def __len__(self) -> int:
        return len(self._decided.table_names)

    def __getitem__(self, name: str) -> pa.Table:
        if name != self._decided.table_names[0]:
            return self._decided.further[name]
        table = self._held()
        if table is None:
            self._warn_of_size(self.sizes()[name])
            table = self._decided.rows()
            # A large table lives only as long as somebody holds it.
            self._table = ref(table)
            self._small = table if table.num_rows <= _STAYS else None
        return table

    def _held(self) -> pa.Table | None:
        """Return a table that is in memory; None otherwise."""
        if self._small is not None or self._table is None:
            return self._small
        return self._table()

    def _warn_of_size(self, rows: int) -> None:
        if rows > LARGE and not self._warned:
            self._warned = True
            warnings.warn(
                f"This release has {rows:,} rows, and all of them are brought into memory. To have "
                "them written without that, use .save(path).",
                LargeReleaseWarning,
                stacklevel=4,
            )

    def sizes(self) -> dict[str, int]:
        """Return how many rows each table has, as was decided."""
        further = {name: table.num_rows for name, table in self._decided.further.items()}
        return {self._decided.table_names[0]: self._decided.released, **further}

    def first(self, rows: int) -> dict[str, pa.Table]:
        """Return the first rows of each table; the engine is asked for no others."""
        if self._first is None or self._first.num_rows < min(rows, self._decided.released):
            held = self._held()
            self._first = self._decided.rows(limit=rows) if held is None else held.slice(0, rows)
        tables = {self._decided.table_names[0]: self._first, **self._decided.further}
        return {name: table.slice(0, rows) for name, table in tables.items()}

    @contextmanager
    def streamed(self, name: str) -> Iterator[Batches]:
        """Yield the rows of a table, batch by batch."""
        if name != self._decided.table_names[0]:
            yield self._decided.further[name].to_reader()
            return
        with self._decided.streamed() as rows:
            yield rows

    def beside(self) -> Sequence[ColumnComparison]:
        """Columns of the original beside the released ones, counted in the engine."""
        return distributions(self._decided)

    def by_engine(self, name: str) -> AbstractContextManager[EngineRows] | None:
        """Return the rows of a table for their engine to write; None for one that is held here."""
        return self._decided.by_engine() if name == self._decided.table_names[0] else None


Suppressed = Literal["drop", "star"]
_QUASI, _SENSITIVE = "quasi", "sensitive"


@dataclass(frozen=True, kw_only=True)
class Anonymized:
    """A decided release, which the engine that has the data can make.

    `recoded` are the columns that the recoding releases, with their kinds; `unchanged` the columns
    that stay. `values` is the separate table of sensitive values of an anatomy. `protected` are the
    columns of criteria, `notes` are for anyone.

    For the holder only: `before` has the costs of the original table, `reference` the distribution
    of each sensitive column that classes were compared with, `remarks` those of the search.
    `watched` are sensitive columns in which everyone of a class may share a value, and `findings`
    the warnings about that, if known. `risk` is that of the original, `advice` lists options that
    would have cost less.

    `words` describes columns whose labels do not show what happened to them; `promises` and
    `limits` explain the criteria; `by` is the maker. `mark` is the fingerprint of the table before
    counting, if its engine does not notice changes itself. `classes` are those of the release, if
    counts show them; `attacks` are the findings of attacks.
    """

    table: Table
    figures: ReleaseFigures
    statement: str
    recoding: Recoding
    recoded: Mapping[str, Kind]
    unchanged: tuple[str, ...]
    parameters: Mapping[str, Any]
    before: Mapping[str, Any]
    lost: Mapping[str, float] = field(default_factory=dict)
    reference: Mapping[str, Any] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    values: pa.Table | None = None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    suppressed: Suppressed = "drop"
    risk: Mapping[str, Any] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    promises: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    by: str | None = None
    mark: str | None = None
    classes: ReleasedClasses | None = None
    attacks: TriedAttacks = NOT_TRIED

    @property
    def unprotected(self) -> tuple[str, ...]:
        """The columns that are released unchanged and that no criterion protects."""
        roles = (Role.OTHER, Role.SENSITIVE)
        free = (c for c in self.table.schema.columns if c.name in self.unchanged)
        return tuple(c.name for c in free if c.role in roles and c.name not in self.protected)

    @property
    def columns(self) -> dict[str, Kind]:
        """The released columns with their kinds: the schema's in order, then added ones."""
        schema = self.table.schema
        unchanged_kinds = {name: schema.column(name).kind for name in self.unchanged}
        kinds = unchanged_kinds | dict(self.recoded)
        order = [column.name for column in schema.columns if column.name in kinds]
        return {name: kinds[name] for name in dict.fromkeys([*order, *kinds])}

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the released tables, first that of the rows."""
        return (self.table.schema.table,) if self.values is None else (_QUASI, _SENSITIVE)

    @property
    def further(self) -> dict[str, pa.Table]:
        """The released tables that were made with the decision."""
        if self.values is None:
            return {}
        return {_SENSITIVE: self.values.cast(self._mark_fields(self.values.schema))}

    @property
    def released(self) -> int:
        """The number of rows of the release, including starred ones."""
        starred = self.figures["suppressed"] if self.suppressed == "star" else 0
        return self.figures["released"] + starred

    def rows(self, *, limit: int | None = None, star: str | None = None) -> pa.Table:
        """Return the released rows, all or the first, brought here."""
        with self._query(star=star) as query:
            rows = self.table.engine.run(query if limit is None else query.limit(limit))
        self._check_source()
        if self._promised is not None and limit is None:
            self._promised.check_rows(rows)
        return rows.cast(self._mark_fields(rows.schema))

    @contextmanager
    def streamed(self, *, star: str | None = None) -> Iterator[Batches]:
        """Yield the released rows, batch by batch; a source that changed meanwhile is refused."""
        with self._query(star=star) as query:
            rows = self.table.engine.stream(query)
            passed = rows if self._promised is None else self._promised.watched(rows)
            yield Marked(passed, self._mark_fields(rows.schema))
        self._check_source()

    def release(self) -> Release:
        """Make the release, whose rows are made when they are asked for."""
        described, table = self._describe_release(), self.table
        tables = DecidedTables(self)
        return replace(described, tables=tables, kept=table.files, layout=table.layout)

    @contextmanager
    def by_engine(self) -> Iterator[EngineRows]:
        """The released rows, for their engine to write; one that changed meanwhile is refused."""
        spelled = keys_in(self._mark_fields(stored_schema(self.columns)))
        with self._query(star=None) as query:
            yield EngineRows(self.table.engine, query, self.columns, spelled, self._promised)
        self._check_source()

    def write(
        self,
        path: Output | Path,
        *,
        report: Path | None = None,
        public_report: Path | None = None,
        overwrite: bool = False,
    ) -> Release:
        """Write the release with side-cars and pages, all files or none.

        Returns the release without its tables, which may not fit in memory.
        """
        several, in_use = self.values is not None, self.table.files
        output = path if isinstance(path, Output) else Output(path)
        pages = (report, public_report)
        check_outputs(output, *pages, several=several, overwrite=overwrite, kept=in_use)
        with writing(output, several=several, replace=True, overwrite=overwrite) as writer:
            release = self._describe_release()
            self._write_tables(output, writer)
            if pages != (None, None):
                compare_columns = partial(distributions, self)
                write_pages(release, writer, self._sample(output), pages, compare_columns)
            writer.write_sidecars(release)
        return release

    def _sample(self, output: Output) -> dict[str, pa.Table]:
        """Return the first rows of each table, as they are written to text."""
        rows = self.rows(limit=SAMPLE, star=self._star(output))
        tables = {self.table_names[0]: rows, **self.further}
        return {name: first_rows(table) for name, table in tables.items()}

    def _star(self, output: Output) -> str | None:
        """Return the text of a suppressed cell; in Parquet it is missing."""
        typed = output.by_engine or ends_in(output.path.name, PARQUET)
        return ROOT if self.values is not None or not typed else None

    def _write_tables(self, output: Output, writer: ReleaseWriter) -> None:
        """Write the tables; rows of an engine are streamed into the file."""
        layout, main = self.table.layout, self.table_names[0]
        if output.by_engine and self.values is None:
            with self.by_engine() as engine_rows:
                writer.rows(main, engine_rows)
            return
        file = output.path.name if self.values is None else f"{main}.csv"
        with self.streamed(star=self._star(output)) as rows:
            writer.table(main, file, rows, self.columns, layout)
        for name, table in self.further.items():
            writer.table(name, f"{name}.csv", table.to_reader(), kinds_of(table.schema), layout)

    @cached_property
    def measured(self) -> ReleasedClasses:
        """The classes of the released rows; counted in the engine if not known yet."""
        if self.classes is not None:
            return self.classes
        quasi = [c.name for c in self.table.schema.by_role(Role.QUASI) if c.name in self.columns]
        labelled = [column.name for column in self.labelled]
        if not quasi or not (labelled or self.watched):
            return NO_CLASSES
        return remeasure(
            self.table.engine,
            self.spelled_recoding(),
            self.columns,
            quasi=quasi,
            labelled=labelled,
            sensitive=self.watched,
        )

    @property
    def labelled(self) -> list[Column]:
        """The columns that are released under labels."""
        quasi = self.table.schema.by_role(Role.QUASI)
        return [c for c in quasi if c.name in self.recoded and c.name not in self.words]

    def _in_words(self, classes: ReleasedClasses) -> dict[str, str]:
        """Describe the change of each column, which anyone can check in the release."""
        labelled = {column.name for column in self.labelled}
        descriptions = {}
        for column in self.table.schema.columns:
            name = column.name
            if name in labelled:
                descriptions[name] = in_words(column, classes.labels(name))
            elif name not in self.columns and column.role is Role.IDENTIFIER:
                descriptions[name] = f"{REMOVED} (identifier)"
            elif name not in self.columns:
                descriptions[name] = self.words.get(name, "left out")
            else:
                descriptions[name] = self.words.get(name, unchanged_words(column)) + self._caveat(
                    column
                )
        return descriptions | {
            name: text for name, text in self.words.items() if name not in descriptions
        }

    def _caveat(self, column: Column) -> str:
        """Return what to consider about a column that is not generalized."""
        if column.role is Role.QUASI:
            return ", people can be found by it"
        unprotected = ", not protected" if column.name in self.unprotected else ""
        return f"{', sensitive' if column.role is Role.SENSITIVE else ''}{unprotected}"

    def _describe_release(self) -> Release:
        """Return the release without its tables."""
        classes = self.measured
        if self.suppressed == "star":
            classes.refuse_blank()
        for_holder = {
            "figures": dict(self.figures),
            "reference": dict(self.reference),
            "findings": [*self.findings, *classes.findings()],
            "remarks": list(self.remarks),
            "risk": dict(self.risk),
            "advice": [advice.json() for advice in self.advice],
            **self.attacks.holder_record,
        }
        seen = {
            "table": self.table.schema.table,
            "columns": self._in_words(classes),
            "risk": self._risk_after(classes),
            **self.attacks.sidecar_record,
        }
        promised = self.guarantee
        guarantee = replace(promised, parameters={**promised.parameters, **seen})
        return Release({}, guarantee, self.provenance(), self.error, holder=for_holder)

    def _risk_after(self, classes: ReleasedClasses) -> dict[str, Any] | None:
        """Return the risk of finding a released row; None if it is unchanged."""
        if not self.labelled:
            return None
        if self.table.schema.unit.by_person and self.figures["people"] is not None:
            # Whose rows they are is not released: only what was promised can be told.
            return {"highest": 1 / k} if (k := self.figures["k"]) else None
        return risk_of(classes.sizes())

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee: it depends only on the request, on public facts and on released rows."""
        statement, figures, unit = self.statement, self.figures, self.table.schema.unit
        if self.reference:
            statement += (
                f" Shares of {', '.join(self.reference)} are compared with those in the original, "
                "which its holder keeps."
            )
        people: dict[str, Any] = {"counted": "rows"}
        if unit.by_person and figures["people"] is not None:
            people = {"counted": "people", "person": unit.column}
        parameters = {
            **people,
            "criteria": figures["criteria"],
            "k": figures["k"],
            "released": figures["released"],
            "classes": figures["classes"],
            "unprotected": list(self.unprotected),
            "compared_with_original": list(self.reference),
            "promises": list(self.promises),
            "limits": list(self.limits),
            "notes": [*self.notes, *self.attacks.notes],
        }
        return Guarantee.syntactic(statement, parameters)

    @property
    def error(self) -> dict[str, Any]:
        """The information lost: all costs, the costs before, and the loss of each column."""
        return {**self.figures["cost"], "ncp": dict(self.lost), "before": dict(self.before)}

    def provenance(self) -> Provenance:
        """Return the provenance of the release."""
        source = self.mark or mark(self.table)
        return Provenance(
            self.figures["algorithm"], self.parameters, source, made=today(), by=self.by
        )

    def _check_source(self) -> None:
        """Refuse rows of a table that is not what it was when it was counted."""
        if self.mark is not None and mark(self.table) != self.mark:
            raise changed(self.table.schema.table)

    @property
    def _promised(self) -> Promised | None:
        """The check of released rows; None if the engine itself notices changes."""
        if self.mark is None:
            return None
        figures, schema = self.figures, self.table.schema
        name, starred = schema.table, self.released - figures["released"]
        if not self.labelled:
            return Promised(name, self.released, starred)
        # Rows do not tell how many people they are of, so k cannot be checked there.
        quasi = tuple(c.name for c in schema.by_role(Role.QUASI) if c.name in self.columns)
        k = None if figures["people"] is not None else figures["k"]
        return Promised(name, self.released, starred, quasi, figures["classes"], k)

    @contextmanager
    def _query(self, *, star: str | None) -> Iterator[exp.Query]:
        """Yield the query for the released rows in order, with starred rows among them."""
        engine, starred = self.table.engine, self.suppressed == "star"
        names = [exp.column(name, quoted=True) for name in self.columns]
        with ExitStack() as lent:
            rows = lent.enter_context(self.spelled_recoding().released(engine, engine.table))
            # The order of the recoding is dropped: rows and starred rows are sorted together below.
            rows.set("order", None)
            rows = exp.select(*names).from_(rows.subquery("sf_recoded"))
            if starred and self.figures["suppressed"]:
                starring = blank_rows(self.columns, self.figures["suppressed"], star)
                blank = lent.enter_context(engine.lend(starring))
                blanks = exp.select(*(name.copy() for name in names)).from_(blank)
                rows = exp.union(rows, blanks, distinct=False)
            reals = [name for name, kind in self.columns.items() if kind is Kind.REAL]
            ordered = exp.select(*(name.copy() for name in names)).from_(rows.subquery("sf_all"))
            yield ordered.order_by(*total_order([*self.columns], reals))

    @property
    def _spellings(self) -> dict[str, Spelling]:
        """The spelling of released columns for which the schema has one."""
        columns = self.table.schema.columns
        return {column.name: column.spelling for column in columns if column.spelling is not None}

    def _mark_fields(self, schema: pa.Schema) -> pa.Schema:
        """The released schema, with the spelling or the hierarchy of each field in its metadata."""
        return labelled(marked(schema, self._spellings), self.table.schema.columns)

    def spelled_recoding(self) -> Recoding:
        """Return the recoding, with the labels of spelled columns as people write them."""
        labelled = [name for name, kind in self.recoded.items() if kind is Kind.TEXT]
        return relabelled(
            self.recoding,
            {
                name: partial(spelled_label, self.table.schema.column(name))
                for name in labelled
                if name in self._spellings
            },
        )
