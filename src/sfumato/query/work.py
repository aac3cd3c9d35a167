"""What a question may cost to compute, from declarations alone: never from how long a table is.

Reading a table takes time in proportion to it, whoever's rows they are. Joins multiply: a person
with n rows has n^4 after joining a table to itself three times. So every person's rows are capped
before they are joined, at a number that follows from what is declared; what could be too much even
then is refused before anything is charged. Nothing here depends on a row.
"""

from __future__ import annotations

from math import isqrt, prod
from typing import TYPE_CHECKING

from sfumato.errors import QueryError
from sfumato.privacy.units import Entity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.query.relation import Relation
    from sfumato.query.typed import Typed

WORK = 2**16
"""Rows of one person after the joins of a SELECT, at which caps aim."""

MOST = 2**20
"""Rows of one person after the joins of a SELECT, above which a question is refused."""

SCANS = 100
"""How often the tables of a question may be read, written out."""

CHARACTERS_OF_A_ROW = 8
"""Characters of text that take as long to compute with as a row takes to join."""

CHARACTERS = 2**20
"""Characters of text in one row that a SELECT makes."""


def caps(relations: Sequence[Relation], factors: Sequence[int | None]) -> list[int | None]:
    """How many rows of a person to keep of each relation before they are joined; None: all.

    A factor says how many rows of a relation meet one of the others at most, None where a person
    may have any number of them. Where only one factor is above 1 the rows do not multiply. No cap
    is below the `max_rows` that is declared: who keeps to what is declared loses nothing.
    """
    growing = [factor for factor in factors if factor != 1]
    if not growing or growing == [None]:
        return [None] * len(relations)
    pairs = list(zip(relations, factors, strict=True))

    def reached(common: int) -> int:
        return prod(_met(relation, factor, common) for relation, factor in pairs)

    low, high = 1, WORK
    while low < high:  # the largest cap that stays within the work, or 1
        middle = (low + high + 1) // 2
        low, high = (middle, high) if reached(middle) <= WORK else (low, middle - 1)
    if reached(low) > MOST:
        raise QueryError(
            "join_too_large",
            f"Cannot join these tables: by what is declared one person may have {reached(low):,} "
            f"rows after it; at most {MOST:,} are computed. Join fewer tables at once, aggregate "
            "one by person first (SELECT person, ... GROUP BY person), or join public tables on "
            "columns of which fewer rows share a value.",
        )
    return [_cap(relation, low) for relation in relations]


def _met(relation: Relation, factor: int | None, common: int) -> int:
    """The rows of a relation that meet one of the others, after capping."""
    least = least_rows(relation)
    if least is None or factor == 1:
        assert factor is not None
        return factor
    cap = max(common, least)
    return cap if factor is None else min(factor, cap)


def _cap(relation: Relation, common: int) -> int | None:
    least = least_rows(relation)
    if least is None:
        return None
    cap = max(common, least)
    return cap if relation.most is None or relation.most > cap else None


def beside_text(most: int, characters: int) -> int:
    """A cap for rows that hold texts: of two joined relations each gives up its square root."""
    return max(1, most // isqrt(1 + characters // CHARACTERS_OF_A_ROW))


def least_rows(relation: Relation) -> int | None:
    """The declared number of rows of one person; None for relations that are never capped."""
    unit = relation.owner and relation.owner.unit
    return unit.max_rows if isinstance(unit, Entity) else None


def check_texts(values: Iterable[Typed]) -> None:
    """Refuse rows that may hold more text than is computed."""
    length = sum(value.length or 0 for value in values)
    if length > CHARACTERS:
        raise QueryError(
            "text_too_long",
            f"Cannot select these columns: by what is declared their texts may have {length:,} "
            f"characters in one row; at most {CHARACTERS:,} are computed. Select fewer, cut them "
            "with LEFT(x, n), or declare their length.",
        )


def check_scans(scans: int) -> None:
    """Refuse a question whose joins, written out with their caps, read tables too often."""
    if scans > SCANS:
        raise QueryError(
            "joins_too_deep",
            f"Cannot plan the question: with its joins inside joins it reads tables {scans} times; "
            f"at most {SCANS} are allowed. Join fewer subqueries that are joins themselves, or "
            "aggregate them by person first.",
        )
