"""PostgreSQL: its dialect, the identity of its tables, and the engine.

An engine has one session, so that lent tables are temporary and vanish with it. The identity of a
table is read from the catalogue, which records the relations that a view or a policy reads and the
user-made objects that it uses. It records no built-in functions: these are read from the stored
query trees. Decision `source-identity`.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import RLock, current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from sfumato.data.engines.base import (
    FolderTarget,
    TableTarget,
    Traits,
    created,
    dropped,
    engine_failed,
    everything,
    named,
    render,
    source_table,
    stream_translating_errors,
    table_missing,
    translating_errors,
)
from sfumato.data.engines.kinds import kinds_of
from sfumato.data.engines.malformed_cells import Doubt, doubted, doubts_of
from sfumato.data.engines.source_identity import Identity, unresolved
from sfumato.data.files.writers import (
    RELEASE,
    check_local,
    table_exists,
    table_in_use,
    table_not_a_release,
    table_unresolved,
    write_file,
    write_folder,
)
from sfumato.errors import EngineError, OutputError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.data.engines.base import Target
    from sfumato.data.schema.column import Kind


DIALECT = "postgres"


def rendered(tree: exp.Expr) -> str:
    """Return the SQL of a tree in the dialect of PostgreSQL."""
    # DIV() returns numeric, so it needs a cast. Where both sides are certainly BIGINT, `/` divides
    # integers, many times as fast. BIT_COUNT takes only bit strings, not integers.
    tree = tree.copy()
    for division in reversed(list(tree.find_all(exp.IntDiv))):  # the innermost first
        sides = {"this": division.this, "expression": division.expression}
        if all(map(_is_long, sides.values())):
            division.replace(exp.Paren(this=exp.Div(**sides, typed=True, safe=False)))
        else:
            division.replace(exp.cast(division.copy(), "BIGINT"))
    for counted in list(tree.find_all(exp.BitwiseCount)):
        bits = exp.cast(counted.this, "BIT(64)", dialect=DIALECT)
        counted.replace(exp.Anonymous(this="BIT_COUNT", expressions=[bits]))
    return render(tree, DIALECT)


def _is_long(tree: exp.Expr) -> bool:
    """Return whether a tree is certainly a BIGINT: a cast to it, or arithmetic of such trees."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    is_integer_division = isinstance(tree, exp.Div) and bool(tree.args.get("typed"))
    if is_integer_division or isinstance(tree, exp.Add | exp.Sub | exp.Mul):
        return _is_long(tree.this) and _is_long(tree.expression)
    return type(tree) is exp.Cast and tree.to.this is exp.DataType.Type.BIGINT


def once(query: exp.Select) -> exp.Select:
    """Add OFFSET 0, so that the planner does not inline the subquery and repeat its cells."""
    return query.offset(0)


def hashed(salt: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """Return the hash of a text and values, as `Traits.hashed`."""
    # PostgreSQL sums the hashes of the columns of a row; a second hash spreads the result evenly.
    row = exp.Anonymous(this="ROW", expressions=[exp.cast(exp.convert(salt), "TEXT"), *values])
    added = exp.Anonymous(this="HASH_RECORD_EXTENDED", expressions=[row, exp.convert(0)])
    signed = exp.Anonymous(this="HASHINT8EXTENDED", expressions=[added, exp.convert(0)])
    return exp.Paren(this=exp.BitwiseAnd(this=signed, expression=exp.convert(2**63 - 1)))


def from_hex(digits: exp.Expr) -> exp.Expr:
    """Return the number that hexadecimal digits stand for."""
    bits = exp.cast(exp.DPipe(this=exp.convert("x"), expression=digits), "BIT(28)")
    return exp.cast(bits, "BIGINT")


# Built-in functions that are not immutable but read only their arguments and session settings.
#
# Immutable functions, and those behind operators and casts, are allowed as well.
_OF_VALUES = """
age array_to_json array_to_string concat concat_ws convert convert_from convert_to
current_database current_schema current_schemas current_setting current_user date_add date_part
date_subtract date_trunc enum_first enum_last enum_range extract format generate_series
json_agg json_agg_strict json_build_array json_build_object json_object_agg
json_object_agg_strict json_object_agg_unique json_object_agg_unique_strict json_populate_record
json_populate_recordset json_to_record json_to_recordset json_to_tsvector jsonb_agg
jsonb_agg_strict jsonb_build_array jsonb_build_object jsonb_object_agg jsonb_object_agg_strict
jsonb_object_agg_unique jsonb_object_agg_unique_strict jsonb_path_exists_tz jsonb_path_match_tz
jsonb_path_query_array_tz jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record
jsonb_populate_recordset jsonb_to_record jsonb_to_recordset jsonb_to_tsvector length
make_timestamptz now overlaps pg_column_size pg_typeof phraseto_tsquery plainto_tsquery
quote_literal quote_nullable row_to_json session_user statement_timestamp timezone to_char to_date
to_json to_jsonb to_number to_timestamp to_tsquery to_tsvector transaction_timestamp ts_headline
websearch_to_tsquery xml_is_well_formed
"""

# Database encodings in which every stored text converts to UTF-8. *Attack*: in others, such as
# SQL_ASCII, one person's cell that does not convert would decide whether queries are answered.
_ALWAYS_UTF8 = {
    "UTF8", "LATIN1", "LATIN2", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9",
    "LATIN10", "ISO_8859_5", "KOI8R", "KOI8U", "WIN866", "WIN1256",
}  # fmt: skip

# The relations that a name stands for: itself, what its views and row policies read, the children
# read with any of these (`also`), and the parents through which any is read. Objects with an oid
# below 16384 are built in.
#
# A view is opaque if it uses any other user-made object, extensions included: functions can read
# any table, whatever they are declared as, and operators, aggregates, casts and domains call
# functions. Relations are followed; keys, collations and enum types run no code. `reader` is a
# built-in function that may read more than its arguments: some run a query from a text, others read
# files, large objects or the catalogue.
_READS = """
WITH RECURSIVE rules (relation, class, oid, tree) AS NOT MATERIALIZED (
  SELECT ev_class, CAST('pg_rewrite' AS REGCLASS), oid, CAST(ev_action AS TEXT)
  FROM pg_rewrite WHERE ev_type = '1'
  UNION ALL
  SELECT p.polrelid, CAST('pg_policy' AS REGCLASS), p.oid, CAST(p.polqual AS TEXT)
  FROM pg_policy AS p WHERE p.polcmd IN ('r', '*')
), reads (oid, below) AS (
  SELECT CAST(TO_REGCLASS({name}) AS OID), FALSE
  UNION
  SELECT found.oid, found.below FROM reads CROSS JOIN LATERAL (
    SELECT d.refobjid AS oid, reads.below FROM rules AS w
    JOIN pg_depend AS d ON d.classid = w.class AND d.objid = w.oid
      AND d.refclassid = CAST('pg_class' AS REGCLASS)
    WHERE w.relation = reads.oid
    UNION ALL
    SELECT i.inhrelid, TRUE FROM pg_inherits AS i WHERE i.inhparent = reads.oid
  ) AS found
), above (oid) AS (
  SELECT i.inhparent FROM pg_inherits AS i JOIN reads ON reads.oid = i.inhrelid
  UNION
  SELECT i.inhparent FROM pg_inherits AS i JOIN above ON above.oid = i.inhrelid
), met AS (
  SELECT oid, below AS also, TRUE AS read FROM reads
  UNION ALL
  SELECT oid, TRUE, FALSE FROM above
)
SELECT CAST(c.oid AS TEXT) AS oid, FORMAT('%I.%I', n.nspname, c.relname) AS name,
  BOOL_AND(met.also) AS also,
  BOOL_OR(met.read AND (c.relkind NOT IN ('r', 'p', 'v', 'm') OR c.oid < 16384 OR EXISTS (
    SELECT 1 FROM rules AS w
    CROSS JOIN LATERAL REGEXP_MATCHES(w.tree, ':relid ([0-9]+)', 'g') AS m
    WHERE w.relation = c.oid AND CAST(m[1] AS OID) BETWEEN 1 AND 16383
  ))) AS elsewhere,
  BOOL_OR(met.read AND EXISTS (
    SELECT 1 FROM rules AS w
    JOIN pg_depend AS d ON d.classid = w.class AND d.objid = w.oid
    LEFT JOIN pg_type AS t ON d.refclassid = CAST('pg_type' AS REGCLASS) AND t.oid = d.refobjid
    LEFT JOIN pg_type AS one ON one.oid = t.typelem
    WHERE w.relation = c.oid AND d.refobjid >= 16384
      AND d.refclassid NOT IN (CAST('pg_class' AS REGCLASS), CAST('pg_constraint' AS REGCLASS),
        CAST('pg_collation' AS REGCLASS))
      AND COALESCE('e' NOT IN (t.typtype, COALESCE(one.typtype, t.typtype)), TRUE)
  )) AS opaque,
  MAX((
    SELECT MIN(p.proname) FROM rules AS w
    CROSS JOIN LATERAL REGEXP_MATCHES(w.tree, ':(?:func|aggfno|winfno)id ([0-9]+)', 'g') AS m
    LEFT JOIN pg_proc AS p ON p.oid = CAST(m[1] AS OID)
    WHERE met.read AND w.relation = c.oid AND p.provolatile <> 'i'
      AND p.proname <> ALL (CAST('{{{of_values}}}' AS NAME[]))
      AND NOT EXISTS (SELECT 1 FROM pg_cast AS k WHERE k.castfunc = p.oid)
      AND NOT EXISTS (SELECT 1 FROM pg_operator AS o WHERE o.oprcode = p.oid)
  )) AS reader,
  (SELECT CAST(system_identifier AS TEXT) FROM pg_control_system()) || '/'
    || (SELECT CAST(oid AS TEXT) FROM pg_database WHERE datname = CURRENT_DATABASE()) AS home
FROM met JOIN pg_class AS c ON c.oid = met.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
GROUP BY c.oid, n.nspname, c.relname
"""


def check_encoding(encoding: str) -> None:
    """Refuse a database with an encoding in which a text may not convert to UTF-8."""
    if encoding not in _ALWAYS_UTF8:
        raise SourceError(
            "not_utf8",
            f"Cannot read from this database: its encoding is {encoding}, in which texts may hold "
            "bytes that are no letters. Copy the table into a database made with ENCODING 'UTF8', "
            "and name that one.",
        )


def reads_query(name: str) -> str:
    """Return the query for the relations that a name stands for; `name` is an SQL literal."""
    return _READS.format(name=name, of_values=",".join(_OF_VALUES.split()))


# The relation of a name: its oid, its kind and its comment, which marks releases.
_RELATION = """
SELECT CAST(oid AS TEXT) AS oid, CAST(relkind AS TEXT) AS kind,
  OBJ_DESCRIPTION(oid, 'pg_class') AS mark
FROM pg_class WHERE oid = CAST(TO_REGCLASS({name}) AS OID)
"""


def relation_query(name: str) -> str:
    """Return the query for the relation of a name; `name` is an SQL literal."""
    return _RELATION.format(name=name)


def identity_of(rows: Sequence[dict[str, Any]]) -> Identity:
    """Return the identity of relations; refuse relations that may read unknown others."""
    if any(row["elsewhere"] for row in rows):
        raise unresolved("it reads a foreign table, or the server's own catalogue")
    if any(row["opaque"] for row in rows):
        raise unresolved(
            "it, or a policy on its rows, uses a function, an operator, an aggregate or a type "
            "that is not the server's own, which may read any table"
        )
    readers = [row["reader"] for row in rows if row["reader"] is not None]
    if readers:
        raise unresolved(
            f"it, or a policy on its rows, calls {readers[0]}(), which may read more than it is "
            "given"
        )
    home = f"postgresql {rows[0]['home']}"
    names = [(f"{home}#{row[key]}", row["also"]) for row in rows for key in ("name", "oid")]
    return Identity(
        frozenset(name for name, also in names if not also),
        frozenset(name for name, also in names if also),
    )


def resolved(rows: Sequence[dict[str, Any]]) -> bool:
    """Return whether everything that these relations read is known."""
    return not any(row["elsewhere"] or row["opaque"] or row["reader"] for row in rows)


# The declared precision and scale of columns; a column of a domain has those of the domain.
_MODIFIERS = """
SELECT attname::TEXT AS name, CASE WHEN atttypmod = -1 THEN typtypmod ELSE atttypmod END AS modifier
FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_type ON pg_type.oid = atttypid
WHERE attrelid = pg_catalog.to_regclass({name}) AND attnum > 0 AND NOT attisdropped
"""


def _is_numeric(data_type: pa.DataType) -> bool:
    """Whether a column arrives from the driver as a numeric of PostgreSQL."""
    return isinstance(data_type, pa.OpaqueType) and data_type.type_name == "numeric"


def _decimal(modifier: int) -> pa.DataType | None:
    """The Arrow type of numeric(precision, scale); None where a decimal has no such digits.

    The modifier is 4 more than precision * 2^16 and, in 11 bits with a sign, the scale (numeric.c
    of the server). A negative scale stands for zeros before the point.
    """
    if modifier < 4:  # neither was declared
        return None
    precision, scale = (modifier - 4) >> 16, (((modifier - 4) & 0x7FF) ^ 0x400) - 0x400
    digits = max(precision - min(scale, 0), scale)
    return pa.decimal128(digits, max(scale, 0)) if digits <= _DECIMAL_DIGITS else None


_DECIMAL_DIGITS = 38
"""The most digits of an Arrow decimal of 128 bits."""

# SQLSTATE codes of the server.
_CANCELLED = "57014"
_UNDEFINED_TABLE = "42P01"
_DUPLICATE_TABLE = "42P07"

# Error codes: the target is no table, or other relations depend on it.
_NEEDED = {"42809", "2BP01"}

# Error codes: no privilege, no such schema.
_FORBIDDEN = {"42501", "3F000"}

# The server cuts longer names without an error (NAMEDATALEN - 1).
_LONGEST_BYTES = 63


def _check_name(target: TableTarget) -> None:
    """Refuse names that the server would cut, and schemas of temporary or system tables."""
    schema = target.schema or ""
    if len(target.name.encode()) > _LONGEST_BYTES:
        reason = f"PostgreSQL takes names of at most {_LONGEST_BYTES} bytes"
    elif schema.startswith("pg_") or schema == "information_schema":
        reason = f"the schema {schema!r} is the server's own"
    else:
        return
    raise OutputError(
        "output_unwritable",
        f"Cannot create the table {str(target)!r}: {reason}.",
        hint="Choose another name.",
    )


def _translate(error: Exception) -> BaseException:
    """Translate an error of the driver into one of ours."""
    detail = f"{type(error).__name__}: {error}"
    if getattr(error, "sqlstate", None) == _CANCELLED and _is_asked_for(error):
        return KeyboardInterrupt()
    if getattr(error, "sqlstate", None) == _UNDEFINED_TABLE:
        return table_missing("PostgreSQL", detail)
    if getattr(getattr(error, "status_code", None), "name", None) == "UNAUTHORIZED":
        return SourceError(
            "engine_forbidden",
            "PostgreSQL does not let this user do what is needed: read the table, and make "
            "temporary ones. Let its owner run: GRANT SELECT ON table TO user; GRANT TEMP ON "
            "DATABASE database TO user.",
            detail=detail,
        )
    return engine_failed("PostgreSQL", detail)


def _is_asked_for(error: Exception) -> bool:
    """Return whether Ctrl-C stopped a statement: the driver handles the signal and raises this.

    A timeout of the server has the same code, and so has a query that a vault cancels, which runs
    in another thread. These are failures.
    """
    return "user request" in str(error) and current_thread() is main_thread()


# Session settings that a database or a role may have changed.
_SETTINGS = {
    "client_encoding": "'UTF8'",
    # With fewer digits two different reals have one text and therefore one sealed hash. Rows with
    # equal hashes are dealt into blocks in the order of the table, so that removing one row would
    # change every block.
    "extra_float_digits": "1",
    # *Attack*: otherwise a backslash escapes a quote, so text in a query could end its literal.
    "standard_conforming_strings": "on",
}


class Postgres:
    """A PostgreSQL database, read through Arrow."""

    dialect: ClassVar[str] = DIALECT
    traits: ClassVar[Traits] = Traits(
        creates_tables=True, hashed=hashed, from_hex=from_hex, once=once
    )

    @translating_errors(_translate)
    def __init__(self, address: str, table: exp.Table) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise SourceError(
                "package_missing",
                "PostgreSQL needs packages that are not installed.",
                hint="Install them with: pip install 'sfumato[postgres]'.",
            ) from None
        try:
            self._connection = dbapi.connect(address, autocommit=True)
        except dbapi.Error as error:
            raise EngineError(
                "engine_unreachable",
                "Cannot connect to PostgreSQL.",
                hint="Check the address, the user and the password.",
                detail=str(error),
            ) from None
        self._lock = RLock()
        self._running: int | None = None
        self._table = table
        self._doubts: dict[str, Doubt] = {}
        try:
            for name, value in _SETTINGS.items():
                self._execute(f"SET {name} TO {value}")
            [row] = self._fetch("SELECT current_setting('server_encoding') AS encoding").to_pylist()
            check_encoding(row["encoding"])
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, url: str) -> Postgres:
        """Open postgresql://user@host/database#schema.table."""
        address, table = source_table(url, cls.dialect)
        return cls(address, table)

    @translating_errors(_translate)
    def look(self) -> pa.Schema:
        """Read which columns the table has now, and note which may hold malformed cells."""
        schema = self.run(everything(self._table).limit(0)).schema
        if any(_is_numeric(field.type) for field in schema):
            schema = self._with_decimals(schema)
        self._doubts = doubts_of(schema)
        return schema

    def _with_decimals(self, schema: pa.Schema) -> pa.Schema:
        """Give columns of numeric(precision, scale) the decimal type that they were declared with.

        The driver knows neither. A column of numeric without them keeps its type, which has no
        kind: its cells may have any number of digits.
        """
        name = render(exp.Literal.string(rendered(self._table)), self.dialect)
        modifiers = {row["name"]: row["modifier"] for row in self._fetch(
            _MODIFIERS.format(name=name)).to_pylist()}  # fmt: skip
        return pa.schema([
            pa.field(field.name, _decimal(modifiers[field.name]) or field.type)
            if _is_numeric(field.type) and field.name in modifiers else field
            for field in schema
        ])  # fmt: skip

    @property
    def table(self) -> exp.Table:
        """The table of the engine; its malformed cells are read as NULL."""
        return doubted(self._table, self._doubts)

    @translating_errors(_translate)
    def identity(self) -> Identity:
        """The identity of the table from the catalogue: the system identifier of the server and the
        oid of the database, with names and oids of all relations that the table reads.
        """
        name = render(exp.Literal.string(rendered(self._table)), self.dialect)
        rows = self._fetch(reads_query(name)).to_pylist()
        if not rows:
            raise table_missing("PostgreSQL", f"{name} is not in the catalogue")
        return identity_of(rows)

    @translating_errors(_translate)
    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """Return the columns of a table, in order, and their kinds."""
        if table == self._table:
            return kinds_of(self.look())
        return kinds_of(self.run(everything(table).limit(0)).schema)

    @translating_errors(_translate)
    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and fetch its whole result."""
        return self._fetch(rendered(query))

    @translating_errors(_translate)
    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and fetch its result batch by batch.

        A cursor WITH HOLD keeps the result on the server, so that other queries can run meanwhile.
        """
        name = render(exp.to_identifier(f"stream_{token_hex(8)}", quoted=True), self.dialect)
        self._execute(f"DECLARE {name} NO SCROLL CURSOR WITH HOLD FOR {rendered(query)}")

        def fetch(rows: int) -> pa.RecordBatch:
            table = self._fetch(f"FETCH FORWARD {rows} FROM {name}", uses_copy=False)
            return table.combine_chunks().to_batches()[0] if table.num_rows else None

        def close() -> None:
            self._execute(f"CLOSE {name}")

        schema = self._fetch(f"FETCH FORWARD 0 FROM {name}", uses_copy=False).schema
        return stream_translating_errors(schema, lambda: fetch(batch_rows), _translate, close)

    @contextmanager
    def lend(self, table: pa.Table) -> Iterator[exp.Table]:
        """Copy a small table into the engine as a temporary table, dropped at the end."""
        name = f"lent_{token_hex(8)}"
        self._ingest(name, table)
        with self._until_dropped("TABLE", name) as lent:
            yield lent

    @contextmanager
    def view(self, query: exp.Query) -> Iterator[exp.Table]:
        """Make a temporary view of a query, dropped at the end."""
        name = f"view_{token_hex(8)}"
        temporary = exp.Properties(expressions=[exp.TemporaryProperty()])
        statement = created("VIEW", name, query)
        statement.set("properties", temporary)
        self._statement(rendered(statement))
        with self._until_dropped("VIEW", name) as view:
            yield view

    @contextmanager
    def _until_dropped(self, kind: str, name: str) -> Iterator[exp.Table]:
        statement = render(dropped(kind, named(name)), self.dialect)
        try:
            yield named(name)
        except BaseException:
            with suppress(
                Exception
            ):  # it is dropped with the session; this must not hide the error
                self._execute(statement)
            raise
        self._statement(statement)

    @translating_errors(_translate)
    def write(self, query: exp.Query, target: Target, *, overwrite: bool = False) -> None:
        """Write a query's result to a file, a folder or a table, atomically."""
        if isinstance(target, Path):
            write_file(lambda: self.stream(query), target, overwrite=overwrite)
        elif isinstance(target, FolderTarget):
            write_folder("PostgreSQL", lambda: self.stream(query), target, overwrite=overwrite)
        else:
            with self.draft(query, target, overwrite=overwrite):
                pass

    @contextmanager
    def draft(
        self, query: exp.Query, target: TableTarget, *, overwrite: bool = False
    ) -> Iterator[exp.Table]:
        """Write a query's result to a draft table that can be read and is renamed at the end.

        All in one transaction: the server would finish a single statement after the client is gone.
        """
        self.check(target, overwrite=overwrite)
        drafted = target.beside(f"draft_{token_hex(8)}")
        with self._transaction():
            self._run_step(target, f"{rendered(created('TABLE', drafted, query))}")
            self._run_step(target, f"COMMENT ON TABLE {rendered(drafted)} IS '{RELEASE}'")
            yield drafted.copy()
            if overwrite:
                self.check(target, overwrite=True)  # again: a table made since would be lost
                self._run_step(target, f"DROP TABLE IF EXISTS {rendered(target.table)}")
            name = rendered(exp.to_identifier(target.name, quoted=True))
            self._run_step(target, f"ALTER TABLE {rendered(drafted)} RENAME TO {name}")

    @translating_errors(_translate)
    def check(self, target: Target, *, overwrite: bool = False) -> None:
        """Refuse a table that exists or, to overwrite, that the source reads."""
        if not isinstance(target, TableTarget):
            check_local("PostgreSQL", target, overwrite=overwrite)
            return
        _check_name(target)
        source, name = (
            render(exp.Literal.string(rendered(table)), self.dialect)
            for table in (self._table, target.table)
        )
        listed = self._fetch(reads_query(source)).to_pylist() if overwrite else []
        if not resolved(listed):
            raise table_unresolved(target)
        relations = self._fetch(relation_query(name)).to_pylist()
        if relations and not overwrite:
            raise table_exists(target)
        for table in relations:
            if table["kind"] != "r" or table["oid"] in {row["oid"] for row in listed}:
                raise table_in_use(target)
            if table["mark"] != RELEASE:
                raise table_not_a_release(target)

    @translating_errors(_translate)
    def _run_step(self, target: TableTarget, statement: str) -> None:
        """Run one statement of a draft; translate what prevents it."""
        try:
            self._execute(statement)
        except Exception as error:
            state = getattr(error, "sqlstate", None)
            if state == _DUPLICATE_TABLE:  # made since the check
                raise table_exists(target) from None
            if state in _NEEDED:
                raise table_in_use(target) from None
            if state in _FORBIDDEN:
                raise OutputError(
                    "output_unwritable",
                    f"Cannot create the table {str(target)!r}: there is no such schema, or this "
                    "user may not create tables in it.",
                    hint="Name another, or ask for the right.",
                ) from None
            raise

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the statements inside in one transaction."""
        session = self._connection.adbc_connection
        translating_errors(_translate)(session.set_autocommit)(False)
        try:
            yield
            translating_errors(_translate)(session.commit)()
        except BaseException:
            with suppress(
                Exception
            ):  # a lost session commits nothing; this must not hide the error
                session.rollback()
            raise
        finally:
            with suppress(Exception):  # the next statement reports a lost session
                session.set_autocommit(True)

    @translating_errors(_translate)
    def cancel(self, thread: int) -> None:
        """Stop the statement that a thread of this process is running."""
        if self._running == thread:
            self._connection.adbc_cancel()

    @translating_errors(_translate)
    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the session; note the thread, so that `cancel` stops only its statements."""
        with self._lock:
            before, self._running = self._running, get_ident()
            try:
                yield
            finally:
                self._running = before

    @translating_errors(_translate)
    def _ingest(self, name: str, table: pa.Table) -> None:
        with self._turn(), self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create", temporary=True)

    def _execute(self, statement: str) -> None:
        with self._turn(), self._connection.cursor() as cursor:
            cursor.execute(statement)

    _statement = translating_errors(_translate)(_execute)

    def _fetch(self, statement: str, *, uses_copy: bool = True) -> pa.Table:
        """Run a statement and fetch its result, by COPY unless it is a FETCH, which cannot."""
        with self._turn(), self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(
                **{"adbc.postgresql.use_copy": str(uses_copy).lower()}
            )
            cursor.execute(statement)
            table: pa.Table = cursor.fetch_arrow_table()
        return table.cast(pa.schema([field.remove_metadata() for field in table.schema]))
