"""What the catalogue of PostgreSQL is asked: what a name stands for, and what lies there."""

from __future__ import annotations

READS = """
WITH RECURSIVE reads (oid, below) AS (
  SELECT CAST(TO_REGCLASS({name}) AS OID), FALSE
  UNION
  SELECT found.oid, found.below FROM reads CROSS JOIN LATERAL (
    SELECT d.refobjid AS oid, reads.below FROM pg_rewrite AS w
    JOIN pg_depend AS d ON d.classid = CAST('pg_rewrite' AS REGCLASS) AND d.objid = w.oid
      AND d.refclassid = CAST('pg_class' AS REGCLASS)
    WHERE w.ev_class = reads.oid
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
  BOOL_OR(met.read AND (c.relkind = 'f' OR c.oid < 16384)) AS elsewhere,
  BOOL_OR(met.read AND EXISTS (
    SELECT 1 FROM pg_rewrite AS w
    JOIN pg_depend AS d ON d.classid = CAST('pg_rewrite' AS REGCLASS) AND d.objid = w.oid
    LEFT JOIN pg_type AS t ON d.refclassid = CAST('pg_type' AS REGCLASS) AND t.oid = d.refobjid
    LEFT JOIN pg_type AS one ON one.oid = t.typelem
    WHERE w.ev_class = c.oid AND d.refobjid >= 16384
      AND d.refclassid NOT IN (CAST('pg_class' AS REGCLASS), CAST('pg_constraint' AS REGCLASS),
        CAST('pg_collation' AS REGCLASS))
      AND COALESCE('e' NOT IN (t.typtype, COALESCE(one.typtype, t.typtype)), TRUE)
  )) AS opaque,
  (SELECT CAST(system_identifier AS TEXT) FROM pg_control_system()) || '/'
    || (SELECT CAST(oid AS TEXT) FROM pg_database WHERE datname = CURRENT_DATABASE()) AS home
FROM met JOIN pg_class AS c ON c.oid = met.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
GROUP BY c.oid, n.nspname, c.relname
"""
"""What a name stands for: itself, what its views read, the children read with any of these
(`also`), and the parents through which any is read. Objects below 16384 are the server's own.

A view is opaque if it uses anything else that somebody made, an extension too: functions read what
they like, whatever they are declared as, and operators, aggregates, casts and domains call them.
Relations are followed; keys, collations and lists of values (enum) run nothing."""

THERE = """
SELECT CAST(oid AS TEXT) AS oid, CAST(relkind AS TEXT) AS kind,
  OBJ_DESCRIPTION(oid, 'pg_class') AS mark
FROM pg_class WHERE oid = CAST(TO_REGCLASS({name}) AS OID)
"""
"""A relation of a name, if there is one: what it is, and its comment, by which we know ours."""
