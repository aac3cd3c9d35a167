"""The identity of a PostgreSQL table, from the catalogue: the relations it reads through views.

The catalogue records which relations a view or a policy reads, and which user-made objects it uses.
It records no built-in functions: these are read from the stored query trees. Decision
`source-identity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.data.engines.source_identity import Identity, unresolved
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """The query for the relations that a name stands for; `name` is an SQL literal."""
    return _READS.format(name=name, of_values=",".join(_OF_VALUES.split()))


# The relation of a name: its oid, its kind and its comment, which marks releases.
_RELATION = """
SELECT CAST(oid AS TEXT) AS oid, CAST(relkind AS TEXT) AS kind,
  OBJ_DESCRIPTION(oid, 'pg_class') AS mark
FROM pg_class WHERE oid = CAST(TO_REGCLASS({name}) AS OID)
"""


def relation_query(name: str) -> str:
    """The query for the relation of a name; `name` is an SQL literal."""
    return _RELATION.format(name=name)


def identity_of(rows: Sequence[dict[str, Any]]) -> Identity:
    """The identity of relations; refuse them where they may read others that are not known."""
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
    """Whether everything that these relations read is known."""
    return not any(row["elsewhere"] or row["opaque"] or row["reader"] for row in rows)
