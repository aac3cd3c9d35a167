"""A release: its tables, its guarantee, its provenance, and how it is saved and loaded.

Decision `writing-releases`.
"""

from __future__ import annotations

import json
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato import __version__, arguments
from sfumato.data.engines.kinds import kinds_of, stored_schema
from sfumato.data.engines.sources import open_file
from sfumato.data.files.column_spelling import marked, spelling_in, write_spelled
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout
from sfumato.data.schema.names import count, untaken
from sfumato.data.schema.spelling import spelling_of
from sfumato.errors import OutputError, SchemaError, SourceError
from sfumato.filesystem import check_target, whole
from sfumato.release.output import Output, check_outputs, check_places, digests_by_name
from sfumato.release.sidecar import holder_file, layout_of, read_sidecar, unreadable
from sfumato.release.writer import writing
from sfumato.report.display import Card, CardTable, Pictures, Shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import pandas as pd
    import polars as pl

    from sfumato.data.files.writers import Batches
    from sfumato.release.engine_tables import EngineRows
    from sfumato.release.sidecar import Json
    from sfumato.release.writer import ReleaseWriter
    from sfumato.report.distributions import ColumnComparison


class TablesOnDemand(Mapping[str, pa.Table]):
    """Tables by name that may still be in an engine: only `tables[name]` loads one."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Return how many rows each table has."""

    @abstractmethod
    def first(self, rows: int) -> dict[str, pa.Table]:
        """Return the first rows of each table."""

    @abstractmethod
    def streamed(self, name: str) -> AbstractContextManager[Batches]:
        """Return the rows of a table, batch by batch."""

    def beside(self) -> Sequence[ColumnComparison]:
        """Columns of the original beside the released ones, for its holder."""
        return ()

    def by_engine(self, name: str) -> AbstractContextManager[EngineRows] | None:  # noqa: ARG002
        """Return the rows of a table for their engine to write; None where no engine has them."""
        return None


class HeldTables(TablesOnDemand):
    """Tables in memory."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = tables

    def __getitem__(self, name: str) -> pa.Table:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def sizes(self) -> dict[str, int]:
        """Return how many rows each table has."""
        return {name: table.num_rows for name, table in self._tables.items()}

    def first(self, rows: int) -> dict[str, pa.Table]:
        """Return the first rows of each table."""
        return {name: table.slice(0, rows) for name, table in self._tables.items()}

    @contextmanager
    def streamed(self, name: str) -> Iterator[Batches]:
        """Yield the rows of a table, batch by batch."""
        yield self._tables[name].to_reader()


def on_demand(tables: Mapping[str, pa.Table]) -> TablesOnDemand:
    """Return tables as TablesOnDemand, whether in memory or not."""
    return tables if isinstance(tables, TablesOnDemand) else HeldTables(tables)


_FIGURE = "count"
_CELLS = ("cell", "cells")
"""The keys under which a publication states the error of its counts."""


def with_bars(release: Release, chosen: str) -> pa.Table:
    """Return a table in which `n_sd` follows each noisy `n`, or `n_ranks95` for errors in ranks."""
    table = release.tables[chosen]
    stated = _stated_errors(release, chosen)
    columns: dict[str, Any] = {}
    for name in table.column_names:
        columns[name] = table.column(name)
        error = stated.get(name) or {}
        suffix = next((unit for unit in ("sd", "ranks95") if error.get(unit) is not None), None)
        if suffix is not None:
            beside = untaken(f"{name}_{suffix}", [*table.column_names, *columns])
            columns[beside] = _spread(error[suffix], table.num_rows)
    return pa.table(columns)


def _stated_errors(release: Release, chosen: str) -> Mapping[str, Any]:
    """Return the stated error of each noisy column."""
    error = release.error or {}
    if release.guarantee.kind != "differential privacy":
        return {}
    published = release.provenance.parameters.get("columns")
    if published is None:
        return error
    of_table = (error.get("tables") or {}).get(chosen)
    errors = [stated_error for stated_error in (of_table, *map(error.get, _CELLS)) if stated_error]
    return {untaken(_FIGURE, published): errors[0]} if errors else {}


def _spread(amount: object, rows: int) -> pa.Array:
    """Return an error for every row, from one number or a list."""
    listed = amount if isinstance(amount, list) else [amount] * rows
    return pa.array(listed, pa.float64())


def saved_table(folder: Path, described: Mapping[str, Json]) -> pa.Table:
    """Read a saved table by the entry of its side-car."""
    from pyarrow import parquet

    path = folder / Path(described["file"]).name
    kinds = {name: Kind(kind) for name, kind in described["columns"].items()}
    spelled = {
        name: Column(name, kinds[name], spelling=spelling_of(kinds[name], keys))
        for name, keys in described.get("written", {}).items()
    }
    spellings = {
        name: column.spelling for name, column in spelled.items() if column.spelling is not None
    }
    if described.get("parts"):  # an engine wrote these files, without spellings
        part_tables = [parquet.read_table(folder / Path(name).name) for name in described["parts"]]
        rows = pa.concat_tables(part_tables)
        return rows.cast(marked(rows.schema, spellings))
    if path.name.lower().endswith(".parquet"):
        return parquet.read_table(path)
    with closing(open_file(path, layout_of(described), declared=kinds, ours=True)) as file:
        rows = pa.Table.from_batches(file.read({**kinds, **spelled}), stored_schema(kinds))
    return rows.cast(marked(rows.schema, spellings))


SHOWN = 10
SYNTACTIC = "syntactic"
"""The kind of a guarantee that is a property of the released rows."""


SAMPLE = 10
"""The number of rows in a report."""


def first_rows(table: pa.Table) -> pa.Table:
    """Return the first rows of a table, with dates and numbers as the text file spells them."""
    first = table.slice(0, SAMPLE)
    for index, field_ in enumerate(first.schema):
        spelling = spelling_in(field_)
        if spelling is not None:
            cells = write_spelled(first.column(index).combine_chunks(), spelling)
            first = first.set_column(index, field_.name, cells)
    return first


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of a release: a sentence for people, and parameters for programs."""

    kind: str
    statement: str
    parameters: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def syntactic(cls, statement: str, parameters: Mapping[str, Json]) -> Guarantee:
        """A guarantee that is a property of the released rows, such as k-anonymity."""
        return cls(SYNTACTIC, statement, parameters)


def today() -> str:
    """Return today's date in UTC, for a provenance."""
    return datetime.now(UTC).date().isoformat()


@dataclass(frozen=True)
class Provenance:
    """The origin of a release: method, parameters, date in UTC, maker, version, and fingerprint.

    The fingerprint is a keyed one of the original, or empty.
    """

    method: str
    parameters: Mapping[str, Json]
    fingerprint: str
    version: str = __version__
    made: str | None = None
    by: str | None = None


@dataclass(frozen=True, repr=False)
class Release(Shown):
    """One or more tables with their guarantee, provenance, expected error and receipt.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        The released tables by name.
    guarantee : Guarantee
        The guarantee, as a sentence and as parameters.
    provenance : Provenance
        The method, its parameters, and a keyed fingerprint of the original.
    error : mapping, optional
        The expected error of noisy figures, or the costs of a syntactic release.
    receipt : str, optional
        The receipt of the budget that was charged.
    holder : mapping, optional
        Facts that only the holder of the original may see, as JSON. With them, the error and the
        fingerprint of a syntactic release are about the original too, and do not travel.

    Example
    -------
    >>> import sfumato as sf
    >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, hierarchy=sf.Widths((10,)))
    >>> illness = sf.Column("illness", sf.Kind.TEXT, sf.Role.SENSITIVE)
    >>> schema = sf.Schema("people", (age, illness))
    >>> rows = {"age": [23, 24, 41, 42], "illness": ["flu", "cold", "flu", "gout"]}
    >>> people = sf.read(rows, schema)
    >>> release = people.anonymize(k=2)
    >>> release.table.num_rows
    4
    """

    tables: Mapping[str, pa.Table]
    guarantee: Guarantee
    provenance: Provenance
    error: Mapping[str, Json] | None = None
    receipt: str | None = None
    holder: Mapping[str, Json] | None = None
    kept: tuple[Path, ...] = field(default=(), kw_only=True, compare=False, repr=False)
    """The files that it was made from, which saving must not overwrite."""
    layout: FileLayout = field(default=DEFAULT_LAYOUT, kw_only=True, compare=False, repr=False)
    """The layout of the original file, which saved text files keep."""
    layouts: Mapping[str, FileLayout] = field(
        default_factory=dict, kw_only=True, compare=False, repr=False
    )
    """The layouts of tables, by name, that were made from other files."""

    @property
    def table(self) -> pa.Table:
        """The released table; the first if there are several."""
        return self.tables[next(iter(self.tables))]

    @property
    def public(self) -> Release:
        """The release as a receiver has it, without the facts for the holder."""
        if self.holder is None:
            return self
        if self.guarantee.kind != SYNTACTIC:  # error and fingerprint are not about the original
            return replace(self, holder=None)
        unmarked = replace(self.provenance, fingerprint="")
        return replace(self, provenance=unmarked, error=None, holder=None)

    @property
    def findings(self) -> Any:
        """The `Findings` of attacks before the release left; None if none was tried.

        They are for the holder. A receiver has them only if the holder published them.
        """
        from sfumato.attack.finding import Findings

        attacks = (self.holder or {}).get("attacks") or self.guarantee.parameters.get("attacks")
        try:
            return None if attacks is None else Findings.read(attacks)
        except ValueError:  # a side-car that somebody edited
            return None

    @property
    def sample(self) -> dict[str, pa.Table]:
        """The first rows of each table, as they are written to text."""
        first = on_demand(self.tables).first(SAMPLE)
        return {name: first_rows(table) for name, table in first.items()}

    @property
    def columns_in_words(self) -> Mapping[str, str]:
        """A text for each column about what anonymizing did to it; empty for other releases."""
        return dict(self.guarantee.parameters.get("columns", {}))

    def _line(self) -> str:
        sizes = on_demand(self.tables).sizes()
        tables = [f"{name}: {count(rows, 'row')}" for name, rows in sizes.items()]
        further = f" and {len(tables) - 1} more tables" if len(tables) > 1 else ""
        facts = self._facts()
        cost = f"; cost {facts['Cost']}" if "Cost" in facts else ""
        return f"{'; '.join(tables[:1])}{further}, by {self.provenance.method}{cost}"

    def _card(self) -> Card:
        facts: dict[str, Json] = {"Guarantee": self.guarantee.statement, **self._facts()}
        rows = self._rows() if self.tables else None
        return Card(self._line(), facts, rows, self._remarks())

    def _remarks(self) -> list[str]:
        """Notes and warnings for the reader."""
        warnings = (self.holder or {}).get("findings", ())
        return [*self.guarantee.parameters.get("notes", ()), *warnings]

    def _facts(self) -> dict[str, Json]:
        """Facts beside the guarantee; kinds of release add theirs."""
        return {"Method": self.provenance.method}

    def _rows(self) -> CardTable:
        """Return the first of the released rows."""
        tables = on_demand(self.tables)
        [(name, first), *_] = tables.first(SHOWN).items()
        rows = list(zip(*(column.to_pylist() for column in first.columns), strict=True))
        return CardTable(first.column_names, rows, tables.sizes()[name] - len(rows))

    def plot(self) -> Pictures:
        """Draw the pictures of its page.

        A notebook shows them; their method `save` writes SVG.

        Raises
        ------
        ParameterError
            If the release has no numbers to draw.
        """
        from sfumato.release.plots import plot

        return plot(self)

    def to_pandas(self, *, table: str | None = None) -> pd.DataFrame:
        """Return the released table as a pandas frame, with the errors of noisy columns.

        The standard deviation of `n` is in the column `n_sd`.

        Parameters
        ----------
        table : str, optional
            The name of the table, if there are several; by default the first.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ParameterError
            If there is no table of that name.

        Example
        -------
        >>> import sfumato as sf
        >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, hierarchy=sf.Widths((10,)))
        >>> illness = sf.Column("illness", sf.Kind.TEXT, sf.Role.SENSITIVE)
        >>> schema = sf.Schema("people", (age, illness))
        >>> rows = {"age": [23, 24, 41, 42], "illness": ["flu", "cold", "flu", "gout"]}
        >>> people = sf.read(rows, schema)
        >>> people.anonymize(k=2).to_pandas().shape
        (4, 2)
        """
        return with_bars(self, self._chosen(table)).to_pandas()

    def to_polars(self, *, table: str | None = None) -> pl.DataFrame:
        """Return the released table as a polars frame, with the errors of noisy columns.

        Parameters
        ----------
        table : str, optional
            The name of the table, if there are several; by default the first.

        Returns
        -------
        polars.DataFrame

        Raises
        ------
        ParameterError
            If there is no table of that name.
        """
        import polars as pl

        frame = pl.from_arrow(with_bars(self, self._chosen(table)))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def _chosen(self, table: str | None) -> str:
        """Return the name of the requested table, else of the first; warn if there are several."""
        names = tuple(self.tables)
        if table is not None:
            arguments.one_of(table, "table", names)
            return table
        if len(names) > 1:
            warnings.warn(
                f"This release has {len(names)} tables, and this is only {names[0]!r}. Choose one "
                f"with table=...: {', '.join(map(repr, names))}.",
                UserWarning,
                stacklevel=3,
            )
        return names[0]

    def save(
        self, path: str | Path, *, overwrite: bool = False, report: str | Path | None = None
    ) -> list[Path]:
        """Write each table, and a side-car with guarantee and provenance; all files or none.

        One table goes into the file. Several go into a folder: for `x.csv` one CSV for each in the
        folder `x`; without an ending Parquet files. Facts for the holder go into a second side-car,
        `OUT.holder.json`, that only its owner can read. If an engine has the rows, it can write
        `OUT/`, a folder of Parquet files, and `table:NAME`, a table beside the data.

        Parameters
        ----------
        path : str or Path
            A file, a folder, or `table:NAME`.
        overwrite : bool
            Replace an existing release.
        report : str or Path, optional
            An HTML page to write together with the release.

        Returns
        -------
        list of Path
            The paths that travel, the side-car last.

        Raises
        ------
        OutputError
            If the target exists or cannot be written.

        Example
        -------
        >>> import tempfile, pathlib
        >>> import sfumato as sf
        >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, hierarchy=sf.Widths((10,)))
        >>> illness = sf.Column("illness", sf.Kind.TEXT, sf.Role.SENSITIVE)
        >>> schema = sf.Schema("people", (age, illness))
        >>> rows = {"age": [23, 24, 41, 42], "illness": ["flu", "cold", "flu", "gout"]}
        >>> people = sf.read(rows, schema)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = people.anonymize(k=2).save(pathlib.Path(folder) / "out.csv")
        >>> [path.name for path in paths]
        ['out.csv', 'out.csv.json']
        """
        return self._saved(path, overwrite=overwrite, report=report)

    def _saved(
        self,
        path: str | Path,
        *,
        overwrite: bool,
        report: str | Path | None,
        beside: Mapping[Path, bytes] = MappingProxyType({}),
    ) -> list[Path]:
        """Save it together with other files, all or nothing."""
        target = arguments.path(path, "path")
        output = Output.parse(path)
        if output.by_engine and len(self.tables) == 1:
            held = on_demand(self.tables).by_engine(next(iter(self.tables)))
            if held is not None or output.is_table:
                return self._save_by_engine(output, held, overwrite=overwrite, report=report)
        files = check_places(target, list(self.tables), overwrite=overwrite, kept=self.kept)
        if self.holder is not None:
            check_target(holder_file(files.path), overwrite=overwrite, kept=self.kept)
        with writing(files.path, several=files.several, overwrite=overwrite) as writer:
            for name, file in files.files.items():
                with on_demand(self.tables).streamed(name) as rows:
                    layout = self.layouts.get(name, self.layout)
                    writer.table(name, file, rows, kinds_of(rows.schema), layout)
            self._write_report(writer, report, overwrite=overwrite)
            for extra_path, content in beside.items():
                writer.beside(extra_path, content)
            writer.write_sidecars(self)
        return writer.written

    def _save_by_engine(
        self,
        output: Output,
        rows: AbstractContextManager[EngineRows] | None,
        *,
        overwrite: bool,
        report: str | Path | None,
    ) -> list[Path]:
        """Let the engine that has the rows write them, together with the side-car."""
        if rows is None:
            raise OutputError(
                "output_unwritable",
                f"Cannot create the table {str(output.target)!r}: the rows of this release are in "
                "memory, not in an engine. Write to a file or a folder, such as OUT/.",
            )
        page = None if report is None else arguments.path(report, "report")
        check_outputs(output, page, several=False, overwrite=overwrite, kept=self.kept)
        with writing(output, replace=True, overwrite=overwrite) as writer:
            with rows as engine_rows:
                engine_rows.engine.check(output.target, overwrite=overwrite)
                writer.rows(next(iter(self.tables)), engine_rows)
            self._write_report(writer, report, overwrite=overwrite)
            writer.write_sidecars(self)
        return writer.written

    def _write_report(
        self, writer: ReleaseWriter, report: str | Path | None, *, overwrite: bool
    ) -> None:
        """Write a report page together with the release."""
        if report is not None:
            from sfumato.release.page import page

            target = arguments.path(report, "report")
            check_target(target, overwrite=overwrite, kept=self.kept)
            # The page of a differentially private release is the public one: anyone may see it.
            shown = self if self.guarantee.kind == SYNTACTIC else self.public
            html = page(
                shown, files=digests_by_name(writer), beside=on_demand(self.tables).beside()
            )
            writer.beside(target, html.encode(), private=shown.holder is not None)

    def report(self, path: str | Path, *, public: bool = False, overwrite: bool = False) -> None:
        """Write an HTML page about the release: guarantee, error, and how to verify it.

        If the release has facts for the holder, the page has them too and only its owner can read
        the file.

        Parameters
        ----------
        path : str or Path
            The file to write.
        public : bool
            Leave out the facts for the holder, so that anyone may see the page.
        overwrite : bool
            Replace an existing file.

        Raises
        ------
        OutputError
            If the file exists, is in use, or cannot be written.
        """
        from sfumato.release.page import page

        target = arguments.path(path, "path")
        check_target(target, overwrite=overwrite, kept=self.kept)
        private = self.holder is not None and not public
        shown = self.public if public else self
        html = page(shown, beside=on_demand(self.tables).beside() if private else ())
        with whole(target, overwrite=overwrite, private=private) as temporary:
            temporary.write_text(html, encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a saved release; raise if its files were changed.

        Parameters
        ----------
        path : str or Path
            The file or folder, or the address of a table in an engine. The holder's side-car is
            read if it lies beside the release.

        Returns
        -------
        Release

        Raises
        ------
        SourceError
            If there is no release, or its files were changed.

        Example
        -------
        >>> import tempfile, pathlib
        >>> import sfumato as sf
        >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, hierarchy=sf.Widths((10,)))
        >>> illness = sf.Column("illness", sf.Kind.TEXT, sf.Role.SENSITIVE)
        >>> schema = sf.Schema("people", (age, illness))
        >>> rows = {"age": [23, 24, 41, 42], "illness": ["flu", "cold", "flu", "gout"]}
        >>> people = sf.read(rows, schema)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = people.anonymize(k=2).save(pathlib.Path(folder) / "out.csv")
        ...     loaded = sf.Release.load(paths[0])
        >>> loaded.guarantee.parameters["k"]
        2
        """
        rows: pa.Table | None = None
        if isinstance(path, str) and "://" in path:
            from sfumato.release.engine_tables import load_table

            engine_table, rows = load_table(path)
            target, sidecar = engine_table.path, engine_table.sidecar
        else:
            target = arguments.path(path, "path")
            _check_address(target)
            sidecar = read_sidecar(target) or {}
        if not sidecar:
            raise unreadable(target)
        # Names in a side-car are reduced to their last part, so that an edited one reads no other
        # folder.
        folder = target if target.is_dir() else target.parent
        recorded = sidecar["tables"]
        try:
            guarantee = Guarantee(**sidecar["guarantee"])
            provenance = Provenance(**sidecar["provenance"])
            tables = {
                entry["name"]: saved_table(folder, entry) if rows is None else rows
                for entry in recorded
            }
            layouts = {entry["name"]: layout_of(entry) for entry in recorded}
        except (ValueError, TypeError, KeyError, RuntimeError, AttributeError, SchemaError):
            raise unreadable(target) from None
        loaded = cls(
            tables, guarantee, provenance, sidecar["error"], sidecar["receipt"], layouts=layouts
        )
        return _with_kept(loaded, holder_file(target), {entry["sha256"] for entry in recorded})


def _check_address(path: Path) -> None:
    """Refuse the name of a table without its engine."""
    if str(path).startswith("table:"):
        raise SourceError(
            "release_unreadable",
            f"Cannot find '{path}': a table lies in an engine. Name it by its address, such as "
            "postgresql://host/database#name or spark://host:7077#name.",
        )


def _with_kept(release: Release, path: Path, checksums: set[str]) -> Release:
    """Add the holder's side-car to a release, if it is there and belongs to this release."""
    try:
        holder_facts = json.loads(path.read_text(encoding="utf-8"))
        # The side-car may belong to an earlier release of the same name; checksums tell.
        if set(holder_facts.pop("tables").values()) != checksums:
            return release
        provenance = replace(release.provenance, fingerprint=holder_facts.pop("fingerprint"))
        error = holder_facts.pop("error")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return release
    holder = {
        name: value for name, value in holder_facts.items() if name not in ("format", "stays")
    }
    return replace(release, provenance=provenance, error=error, holder=holder)
