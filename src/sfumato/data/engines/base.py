"""The interface of all engines: run a query where the data lies. Engines know nothing of privacy.

A query is a tree that is rendered in the dialect of the engine. Messages of engines may quote data,
so every error is translated into one of ours.

Decisions `sql-trees`, `engine-errors` and `charge-order`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, ClassVar, ParamSpec, Protocol, TypeVar
from weakref import finalize

import pyarrow as pa
from sqlglot import ErrorLevel, exp
from sqlglot.errors import ParseError

from sfumato.data.engines.malformed_cells import is_changed, with_sound_cells
from sfumato.errors import EngineError, InternalError, SfumatoError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sfumato.data.schema.column import Kind


@dataclass(frozen=True)
class Traits:
    """The abilities of an engine beyond running a query."""

    creates_tables: bool
    hashed: Callable[[str, Sequence[exp.Expr]], exp.Expr]
    """A fast hash of a text and some values, of any kind or NULL: a BIGINT of at least 0.

    It may differ between engines and their versions, and it must spread evenly.
    """
    from_hex: Callable[[exp.Expr], exp.Expr]
    """The BIGINT of seven hexadecimal digits in lower case."""
    keeps_source: bool = False
    """Whether every query notices that the source changed after it was opened."""
    sums_widely: bool = True
    """Whether a SUM of BIGINT is exact beyond 64 bits, for any number of rows."""
    once: Callable[[exp.Select], exp.Select] = lambda query: query
    """Mark a subquery so that its cells are computed once per row, however often they are used."""


@dataclass(frozen=True)
class TableTarget:
    """A table in the engine to write to."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def table(self) -> exp.Table:
        """The table as a node of a query."""
        return self.beside(self.name)

    def beside(self, name: str) -> exp.Table:
        """Another table of the same schema."""
        path = {"this": name, "db": self.schema, "catalog": self.catalog}
        return exp.Table(
            **{
                level: exp.to_identifier(identifier, quoted=True)
                for level, identifier in path.items()
                if identifier
            }
        )

    def __str__(self) -> str:
        names = (name for name in (self.catalog, self.schema, self.name) if name)
        return ".".join(f'"{name}"' if "." in name else name for name in names)


@dataclass(frozen=True)
class FolderTarget:
    """A folder of Parquet files to write to; the files' names are in the order of the rows.

    The path is on this machine, or an address (`hdfs://host/folder`) that the engine reaches. Where
    the folder is moved afterwards, `known_as` is its final name, for messages.
    """

    path: str
    known_as: str = ""

    def __str__(self) -> str:
        return self.known_as or self.path

    @property
    def local(self) -> Path | None:
        """The folder on this machine; None for an address."""
        return None if "://" in self.path else Path(self.path)


Target = Path | FolderTarget | TableTarget
"""Where an engine can write: a file, to which this process writes; a folder; or a table."""


class Engine(Protocol):
    """A connection to one place where tables live.

    Queries are trees in the neutral dialect: NULL sorts before all values, `Div` divides as
    reals, `IntDiv` as integers. Integer sums must be cast to BIGINT by whoever builds the tree.
    """

    dialect: ClassVar[str]
    traits: ClassVar[Traits]

    @property
    def table(self) -> exp.Table:
        """The table the engine was opened on."""
        ...

    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """Return the columns of a table, in order, and their kinds."""
        ...

    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and fetch its whole result."""
        ...

    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and fetch its result batch by batch."""
        ...

    def lend(self, table: pa.Table) -> AbstractContextManager[exp.Table]:
        """Copy a small table into the engine as a temporary table, dropped at the end."""
        ...

    def view(self, query: exp.Query) -> AbstractContextManager[exp.Table]:
        """Make a temporary view of a query, dropped at the end."""
        ...

    def write(self, query: exp.Query, target: Target, *, overwrite: bool = False) -> None:
        """Write a query's result to a file, a folder or a table, atomically.

        Rows keep the order of the query in a file, and in a folder across the names of its files.
        """
        ...

    def check(self, target: Target, *, overwrite: bool = False) -> None:
        """Refuse a target that cannot be written to, before any work is done for it."""
        ...

    def draft(
        self, query: exp.Query, target: TableTarget, *, overwrite: bool = False
    ) -> AbstractContextManager[exp.Table]:
        """Write a query's result to a draft table that can be read and is renamed at the end.

        After a failure inside the context, an interruption included, no table is left.
        """
        ...

    def cancel(self, thread: int) -> None:
        """Stop the query, if any, that the thread with this identity is running.

        A query that begins at that moment may be missed; calling again does no harm.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def render(tree: exp.Expr, dialect: str) -> str:
    """Return the SQL of a tree in a dialect: identifiers quoted, no comments, nothing unsupported.

    Malformed cells of marked tables are read as NULL, and texts are cut to their limits.
    """
    if any(map(is_changed, tree.find_all(exp.Table))):
        tree = with_sound_cells(tree, dialect)
    return tree.sql(
        dialect=dialect, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
    )


def named(name: str) -> exp.Table:
    """A table node of an exact name."""
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def column(name: str) -> exp.Column:
    """A column node of an exact name."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def everything(table: exp.Expr) -> exp.Select:
    """Select all columns of a table."""
    return exp.select(exp.Star()).from_(table)


REAL, TEXT = "DOUBLE", "VARCHAR"
"""The SQL types of reals and of texts."""


def casting(table: exp.Expr, types: Mapping[str, str]) -> exp.Select:
    """Select the named columns, each cast to a type; `_cast` says how reals and texts are."""
    cells = (_cast(column(name), to).as_(name, quoted=True) for name, to in types.items())
    return exp.select(*cells).from_(table)


def _cast(value: exp.Expr, to: str) -> exp.Expr:
    cell = exp.cast(value, to)
    if to == TEXT:
        # Texts lose the collation of their column. With one that ignores case, Anna and anna were
        # one person, and the rows kept of one would depend on the rows of the other.
        return exp.Collate(this=cell, expression=exp.to_identifier("C", quoted=True))
    if to != REAL:
        return cell
    # Statistics in Parquet files leave NaN out of the smallest and largest real, so DuckDB takes
    # NaN for a number between them. A CASE that may give NaN keeps it from using the statistics.
    nan = exp.cast(exp.Literal.string("NaN"), to)
    return exp.case().when(exp.IsNan(this=cell), nan).else_(cell.copy())


def created(kind: str, name: str | exp.Table, query: exp.Query) -> exp.Create:
    """Return the statement that creates a view or table from a query."""
    target = named(name) if isinstance(name, str) else name
    return exp.Create(this=target, kind=kind, expression=query)


def dropped(kind: str, table: exp.Table) -> exp.Drop:
    """Return the statement that drops a view or table."""
    return exp.Drop(tables=[table.copy()], kind=kind)


def source_table(url: str, dialect: str) -> tuple[str, exp.Table]:
    """Split a URL into the address and the table after the '#'."""
    address, _, name = url.partition("#")
    try:
        table = exp.to_table(name, dialect=dialect)
    except ParseError:
        table = None
    levels = {level for level, value in table.args.items() if value} if table else set()
    if table is None or not {"this"} <= levels <= {"this", "db", "catalog"}:
        raise SourceError(
            "address_malformed",
            f"The address of a {dialect} source must end in #table or #schema.table.",
        )
    return address, table


SPARK = ("spark", "sc", "spark+parquet", "spark+delta", "spark+iceberg")
"""The schemes of Spark addresses."""

LOCAL = "spark://local"
"""The address of Spark on this machine."""

# A folder that Spark reads; a path with signs of Spark's patterns is refused.
_FOLDER = re.compile(
    r"spark\+(?P<form>parquet|delta|iceberg)://(?P<path>[^?#*\[\]{},]*[^?#*\[\]{},/:])/?"
    r"(?:\?master=(?P<master>(?:spark|sc)://[^#]+))?"
)


@dataclass(frozen=True)
class SparkAddress:
    """A parsed Spark address: the master, and a table or a folder with its format."""

    master: str
    table: str = ""
    form: str = ""
    path: str = ""


def spark_address(url: str) -> SparkAddress:
    """Parse a Spark address."""
    if "+" not in url.partition("://")[0]:
        master, _, table = url.partition("#")
        return SparkAddress(master, table=table)
    match = _FOLDER.fullmatch(url)
    if match is None:
        raise SourceError(
            "address_malformed",
            "Cannot read this address as a folder that Spark reads.",
            hint=(
                "Write spark+parquet:///data/visits/ for Spark on this machine, and "
                "?master=spark://host:7077 or ?master=sc://host:15002 after it for another."
            ),
        )
    path = re.sub(r"(/\.)+(?=/|$)", "", match["path"])  # Spark takes a last '.' for hidden
    at = f"file://{path}" if path.startswith("/") else path
    return SparkAddress(match["master"] or LOCAL, form=match["form"], path=at)


P = ParamSpec("P")
R = TypeVar("R")


def translating_errors(
    translate: Callable[[Exception], BaseException],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that it raises only our errors, without the error that caused them.

    `raise ... from None` hides the cause but keeps it as `__context__`, where a logger finds the
    data that it quotes. So the new error is raised after the handler has ended.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> R:
            failure: BaseException
            try:
                return function(*arguments, **options)
            except SfumatoError as error:
                failure = error
            except RecursionError:  # raised by rendering, before the engine got the query
                failure = InternalError(
                    "statement_too_deep",
                    "The query is nested too deeply to be written down.",
                    hint="Ask a simpler question, or of fewer columns.",
                )
            except Exception as error:  # noqa: BLE001  whatever a driver throws may quote data
                failure = KeyboardInterrupt() if _is_interruption(error) else translate(error)
            failure.__cause__ = failure.__context__ = None
            raise failure

        return call

    return decorate


def _is_interruption(error: BaseException) -> bool:
    """Return whether an error was raised during the cleanup after Ctrl-C, which it would hide."""
    context = error.__context__
    while context is not None and not isinstance(context, KeyboardInterrupt):
        context = context.__context__
    return context is not None


def engine_failed(engine: str, detail: str) -> EngineError:
    """The error of a failed query; the reason may quote data, so it is only in the detail."""
    return EngineError(
        "engine_failed",
        f"{engine} could not run the query. Its own words may quote data and are kept in the "
        "detail.",
        detail=detail,
    )


def not_utf8(detail: str) -> SourceError:
    """Return the error of text that is not UTF-8, without quoting it."""
    return SourceError(
        "not_utf8",
        "A column of text has bytes that are not UTF-8.",
        hint="Write the files again, with the text decoded as it was meant.",
        detail=detail,
    )


def table_missing(engine: str, detail: str) -> SourceError:
    """Return the error of a query that names a table the engine does not have."""
    return SourceError(
        "table_missing",
        f"{engine} has no table of the name asked for.",
        hint="Check spelling, schema and case.",
        detail=detail,
    )


def stream_translating_errors(
    schema: pa.Schema,
    advance: Callable[[], pa.RecordBatch | None],
    translate: Callable[[Exception], BaseException],
    close: Callable[[], None],
) -> pa.RecordBatchReader:
    """A reader of the batches of `advance` until None; raises only our errors, always closes."""
    sheltered_advance = translating_errors(translate)(advance)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            while (batch := sheltered_advance()) is not None:
                yield batch
        except BaseException:
            with suppress(Exception):  # what cannot be closed now must not hide why
                close()
            raise
        translating_errors(translate)(close)()

    return pa.RecordBatchReader.from_batches(schema, batches())


# The users of each engine, by its id: an engine is closed when its last user is gone.


@dataclass
class _Use:
    engine: Engine
    users: int = 0
    closed: bool = False


_USES: dict[int, _Use] = {}
# Reentrant: garbage collection can run `_leave` while this thread holds the lock.
_USING = RLock()


def hold_open(engine: Engine, user: object) -> None:
    """Keep an engine open until its user is garbage collected."""
    with _USING:
        use = _USES.setdefault(id(engine), _Use(engine))
        use.users += 1
    finalize(user, _leave, use)


def close_after_use(engine: Engine) -> None:
    """Close an engine as soon as it has no users, perhaps now."""
    with _USING:
        use = _USES.get(id(engine))
        if use is not None:
            use.closed = True
            return
    engine.close()


def _leave(use: _Use) -> None:
    with _USING:
        use.users -= 1
        if use.users:
            return
        del _USES[id(use.engine)]
    if use.closed:
        use.engine.close()
