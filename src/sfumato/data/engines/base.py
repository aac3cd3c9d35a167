"""What every engine can do: run a query where the data lives. An engine knows no privacy.

A query is a tree, put into the words of one engine. What engines say may quote data and goes no
further: errors are translated into ours.

Decision `sql-trees`. Decision `engine-errors`. Decision `charge-order`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, ParamSpec, Protocol, TypeVar

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
    """What an engine can do beyond running a query; what it cannot, it refuses by these names."""

    creates_tables: bool
    hashed: Callable[[str, Sequence[exp.Expr]], exp.Expr]
    """A quick hash of a text and some values, of any kind or NULL: a BIGINT, not negative.

    It need not be the same on two engines, nor in two versions of one; it must be spread evenly.
    """
    from_hex: Callable[[exp.Expr], exp.Expr]
    """The BIGINT that seven hexadecimal digits, in small letters, spell."""
    keeps_source: bool = False
    """Whether a source that changes after it was opened is noticed by every query."""
    sums_widely: bool = True
    """Whether a SUM of BIGINT is exact beyond 64 bits, for any number of rows."""
    once: Callable[[exp.Select], exp.Select] = lambda query: query
    """Of a query that is to be a subquery: cells made once for each row, however often used."""


@dataclass(frozen=True)
class TableTarget:
    """A table where the data lies; an existing one of that name is refused unless overwritten."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def table(self) -> exp.Table:
        """It in a query."""
        return self.beside(self.name)

    def beside(self, name: str) -> exp.Table:
        """Another table of its schema."""
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
    """A folder of Parquet files, whose names have the order of the rows.

    The path is one of this machine, or an address (`hdfs://host/folder`) that the engine reaches.
    It may be on its way to another place, by which people know it.
    """

    path: str
    known_as: str = ""

    def __str__(self) -> str:
        return self.known_as or self.path

    @property
    def local(self) -> Path | None:
        """The folder of this machine; None for one that is reached by its address."""
        return None if "://" in self.path else Path(self.path)


Target = Path | FolderTarget | TableTarget
"""Where an engine can write: a file that comes through here, or where the data lies."""


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
        """Name the columns of a table, in order, and what they hold."""
        ...

    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and bring its whole result here."""
        ...

    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and bring its result here batch by batch."""
        ...

    def lend(self, table: pa.Table) -> AbstractContextManager[exp.Table]:
        """Let queries see a small table of ours, under a name of its own, for a while."""
        ...

    def view(self, query: exp.Query) -> AbstractContextManager[exp.Table]:
        """Let queries see a query's result as it is at their time, under a name, for a while."""
        ...

    def write(self, query: exp.Query, target: Target, *, overwrite: bool = False) -> None:
        """Write a query's result to a file, a folder or a table, whole or not at all.

        In a file, and in a folder through the names of its files, rows lie in the query's order.
        """
        ...

    def check(self, target: Target, *, overwrite: bool = False) -> None:
        """Refuse early, before any work is done for it, a place that cannot be written to."""
        ...

    def draft(
        self, query: exp.Query, target: TableTarget, *, overwrite: bool = False
    ) -> AbstractContextManager[exp.Table]:
        """Write a query's result to a table that gets its name in the end, for a look until then.

        After a failure inside, an interruption included, nothing of it is left.
        """
        ...

    def cancel(self, thread: int) -> None:
        """Stop the query that a thread of this process, by its identity, is running, if any.

        A query that begins or ends at that moment may escape; it does no harm to ask again.
        """
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


def render(tree: exp.Expr, dialect: str) -> str:
    """Write a tree in a dialect: every identifier quoted, no comments, nothing unsupported.

    Malformed cells of a table that may have some are NULL, and texts are as long as it says.
    """
    if any(map(is_changed, tree.find_all(exp.Table))):
        tree = with_sound_cells(tree, dialect)
    return tree.sql(
        dialect=dialect, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
    )


def named(name: str) -> exp.Table:
    """Refer to a table by one exact name."""
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def column(name: str) -> exp.Column:
    """Refer to a column by its exact name."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def everything(table: exp.Expr) -> exp.Select:
    """Select all columns of a table."""
    return exp.select(exp.Star()).from_(table)


REAL, TEXT = "DOUBLE", "VARCHAR"
"""The types of reals and of texts in an engine."""


def casting(table: exp.Expr, types: Mapping[str, str]) -> exp.Select:
    """Select the named columns, each cast to a type.

    Parquet files tell the least and the greatest of their reals and leave NaN out. DuckDB then
    takes NaN for a number between them; it does not where a case may give NaN.

    Texts lose the collation of their column. One that ignores case takes Anna and anna for one
    person, so that what counts of one would depend on the rows of the other.
    """
    cells = (_cast(column(name), to).as_(name, quoted=True) for name, to in types.items())
    return exp.select(*cells).from_(table)


def _cast(value: exp.Expr, to: str) -> exp.Expr:
    cell = exp.cast(value, to)
    if to == TEXT:
        return exp.Collate(this=cell, expression=exp.to_identifier("C", quoted=True))
    if to != REAL:
        return cell
    nan = exp.cast(exp.Literal.string("NaN"), to)
    return exp.case().when(exp.IsNan(this=cell), nan).else_(cell.copy())


def created(kind: str, name: str | exp.Table, query: exp.Query) -> exp.Create:
    """Make a new view or table from a query."""
    target = named(name) if isinstance(name, str) else name
    return exp.Create(this=target, kind=kind, expression=query)


def dropped(kind: str, table: exp.Table) -> exp.Drop:
    """Remove a view or table."""
    return exp.Drop(tables=[table.copy()], kind=kind)


def source_table(url: str, dialect: str) -> tuple[str, exp.Table]:
    """Split a URL into its address and the table named after the '#'."""
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
"""How addresses of Spark's begin, before '://'."""

LOCAL = "spark://local"
"""The address of Spark on this machine."""

_FOLDER = re.compile(
    r"spark\+(?P<form>parquet|delta|iceberg)://(?P<path>[^?#*\[\]{},]*[^?#*\[\]{},/:])/?"
    r"(?:\?master=(?P<master>(?:spark|sc)://[^#]+))?"
)
"""What Spark reads patterns by is no part of a folder's name; masters are no part of a pattern."""


@dataclass(frozen=True)
class SparkAddress:
    """Where Spark runs, and which table, or which folder in which form, it is to read."""

    master: str
    table: str = ""
    form: str = ""
    path: str = ""


def spark_address(url: str) -> SparkAddress:
    """Take an address of Spark's apart."""
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
    """Make a function raise errors of ours only, with no trace of the error that caused them.

    `raise ... from None` is not enough: it hides the cause but keeps it as `__context__`, where
    any logger finds it. So the new error is raised after the handler has ended.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> R:
            failure: BaseException
            try:
                return function(*arguments, **options)
            except SfumatoError as error:
                failure = error
            except RecursionError:  # of ours, in writing the query: no engine has heard of it
                failure = InternalError(
                    "statement_too_deep",
                    "The query is nested too deeply to be written down.",
                    hint="Ask a simpler question, or of fewer columns.",
                )
            except Exception as error:  # noqa: BLE001  whatever a driver throws may quote data
                failure = KeyboardInterrupt() if _interrupted(error) else translate(error)
            failure.__cause__ = failure.__context__ = None
            raise failure

        return call

    return decorate


def _interrupted(error: BaseException) -> bool:
    """Whether an error came up while cleaning up after Ctrl-C, which it then hides."""
    context = error.__context__
    while context is not None and not isinstance(context, KeyboardInterrupt):
        context = context.__context__
    return context is not None


def engine_failed(engine: str, detail: str) -> EngineError:
    """Say that an engine could not run a query, and nothing of why: that may quote data."""
    return EngineError(
        "engine_failed",
        f"{engine} could not run the query. Its own words may quote data and are kept in the "
        "detail.",
        detail=detail,
    )


def not_utf8(detail: str) -> SourceError:
    """Say that text is in no encoding that is read, and not which."""
    return SourceError(
        "not_utf8",
        "A column of text has bytes that are not UTF-8.",
        hint="Write the files again, with the text decoded as it was meant.",
        detail=detail,
    )


def table_missing(engine: str, detail: str) -> SourceError:
    """Say that a query names a table the engine does not have."""
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
    """Read batch after batch until None, with errors of ours only; `close` runs in any case."""
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
