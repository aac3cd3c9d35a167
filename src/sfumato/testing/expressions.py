"""One expression or more for every rule of the SQL reference, and new ones nested from them.

Columns go by letters that tell their kind: i, j, n are integers, x, y, u reals, t, s texts, d, e
dates, b, c truth values; u, t and e are declared without bounds or values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import parse_one

from sfumato.query.expressions import RULES, compile_value
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    import numpy as np

    from sfumato.query.sql.relation import RowScope

LETTERS = {
    Kind.INTEGER: "ijn",
    Kind.REAL: "xyu",
    Kind.TEXT: "ts",
    Kind.DATE: "de",
    Kind.BOOLEAN: "bc",
}

_EXACT = """
i; j; x; y; u; t; s; d; e; b; c; n
i + j; i - j; i * j; -i; -x; x + y; x - y; x * y; x * x * y; x + 0.1; i * 0.1; i * i
i / j; x / y; x / i; i / 2; n / 3; x / 7; y / x; i DIV j; i DIV 7; i % j; i % 7; MOD(n, 5)
u > 1; u = u; x / y > 2; u IS NULL
ABS(i); ABS(x); SIGN(i); SIGN(x); FLOOR(x); CEIL(x); FLOOR(y * 10); ROUND(x); ROUND(x, 1)
ROUND(y, 3); ROUND(i, 2); FLOOR(i / 10) * 10; SQRT(x); SQRT(ABS(x)); SQRT(i)
WIDTH_BUCKET(x, 0, 10, 5); WIDTH_BUCKET(n, 100, 900, 8)
x = 2.5; x <> y; i < j; i <= 7; i >= 999999; i > 1000000; i = 1000000; x < 0.1; d < e; 5 > i
d = '2020-02-29'; d > DATE '2000-01-01'; d <= '1960-01-01'; s = 'red'; t <> 'abc'; b = c
i BETWEEN -7 AND 7; x BETWEEN y AND 3; d BETWEEN '1999-12-31' AND '2021-01-03'
i IN (0, 1, 7); x IN (2.5, 1); s IN ('red', 'blue'); t LIKE '%5%'; t LIKE '_'; t LIKE '1%'
t LIKE 'a_b_c'; s LIKE 'r%d'; NOT b; b AND c; b OR c; NOT (b AND c) OR i > 0; b IS TRUE
b IS NOT TRUE; c IS FALSE; i IS NULL; x IS NOT NULL; t IS NULL; i > 0 AND x > 0
CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' END
CASE j WHEN 0 THEN 10 WHEN 1 THEN 20 ELSE i END
CASE WHEN b THEN i ELSE x END; CASE WHEN b THEN NULL ELSE d END; IF(b, i, 5); IF(b, s, 'none')
COALESCE(i, 0); COALESCE(x, y, 0.5); COALESCE(s, 'none'); COALESCE(d, '2000-01-01'); NULLIF(i, 7)
NULLIF(s, 'red'); NULLIF(x, 0); LEAST(i, j); GREATEST(x, 0); LEAST(GREATEST(u, 0), 5); LEAST(d, e)
CAST(x AS BIGINT); CAST(y AS INTEGER); CAST(i AS DOUBLE); CAST(b AS BIGINT); CAST(i AS BOOLEAN)
CAST(i AS TEXT); CAST(d AS TEXT); CAST(b AS TEXT); CAST(t AS BIGINT); CAST(t AS DOUBLE)
TRY_CAST(t AS INTEGER) + 1; CAST(s AS TEXT); CAST('2020-01-01' AS DATE)
UPPER(t); LOWER(s); LENGTH(t); LENGTH(s); SUBSTRING(t, 2, 3); LEFT(s, 2); TRIM(t); t || s; s || 'x'
SUBSTRING(t, 1, 0); LENGTH(TRIM(t)); UPPER(LEFT(s, 1)) || LOWER(s)
YEAR(d); MONTH(d); QUARTER(e); DAY(e); EXTRACT(YEAR FROM e); EXTRACT(DOY FROM d); ISODOW(d)
EXTRACT(ISODOW FROM e); DATE_TRUNC('year', d); DATE_TRUNC('quarter', d); DATE_TRUNC('month', e)
DATE_TRUNC('week', d); DATE_TRUNC('week', e); DATE_TRUNC('day', d); d - e; DATEDIFF(e, d)
d - DATE '2000-01-01'; d + INTERVAL '7' DAY; d - INTERVAL '2' WEEK; d - '2000-01-01'
TRUE; NULLIF(1, 1); 1.5; 'text'; 42
"""
_ROUGH = """
LN(x); LN(y); LOG10(x); LOG(2, i); EXP(y); EXP(x); EXP(i / 1000); POWER(x, 2); POWER(y, 3)
"""
_COLUMN = re.compile(r"'[^']*'|\b([ijnxyutsdebc])\b(?!\()")
_KIND_OF = {letter: kind for kind, letters in LETTERS.items() for letter in letters}


def _listed(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.replace("\n", ";").split(";") if one.strip())


EXACT = _listed(_EXACT)
"""Engines agree on these to the last bit."""
ROUGH = _listed(_ROUGH)
"""Libraries agree on these only to a few units in the last place."""


def unlisted() -> set[str]:
    """The names of rules that no listed expression reaches."""
    reached = {type(node) for sql in EXACT + ROUGH for node in parse_one(sql).walk()}
    return {rule.__name__ for rule in set(RULES) - reached}


class Expressions:
    """Draws expressions of a wanted kind, by putting listed ones into the places of columns."""

    def __init__(self, scope: RowScope) -> None:
        self._listed: dict[Kind, list[str]] = {kind: [] for kind in LETTERS}
        for sql in EXACT + ROUGH:
            self._listed[compile_value(parse_one(sql), scope).kind].append(sql)

    def draw(self, draw: np.random.Generator, kind: Kind, *, of: str, depth: int) -> str:
        """An expression over the columns of the table `of`, nested so deep at most."""
        letters = LETTERS[kind]
        if depth == 0 or draw.random() < 0.3:
            return f"{of}.{letters[draw.integers(len(letters))]}"
        listed = self._listed[kind]

        def nested(found: re.Match[str]) -> str:
            letter = found[1]
            if letter is None:
                return found[0]
            return f"({self.draw(draw, _KIND_OF[letter], of=of, depth=depth - 1)})"

        return _COLUMN.sub(nested, listed[draw.integers(len(listed))])
