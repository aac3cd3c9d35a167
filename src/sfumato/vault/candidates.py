"""A ladder of synthetic tables of one data set, all paid for, for its owner to choose from.

From an eighth of the price up to all of it, each rung twice the one before. Choosing by a look at
the original is the owner's, so all rungs are charged: what is not chosen is paid for, too. The sum
is checked before the first charge. Decision 0295.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.attack.case import HeldTable
from sfumato.attack.comparison.runner import ComparedOriginal, compare_held
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import plain
from sfumato.privacy.accounting.balance import asked as needed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sfumato.attack.comparison.result import Comparison
    from sfumato.methods.method import Prepared
    from sfumato.vault.family import Family
    from sfumato.vault.private import Private

    Progress = Callable[[float, float], None]

RUNGS = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1))


def rungs(private: Private, family: Family, asked: Mapping[str, Any]) -> dict[str, Prepared]:
    """The same request at each price, by name, from public facts alone."""
    if asked.get("child") is not None:
        raise ParameterError(
            "explore_one_table",
            f"Candidates of two linked tables are not compared. Leave {option('child')} and "
            f"{option('key')} out, or leave out {option('explore', True)}.",
        )
    whole: Any = private.prepare(family, **asked)
    name = "rho" if whole.price.epsilon is None else "epsilon"
    amount: Fraction = getattr(whole.price, name)
    found = {}
    for rung in RUNGS:
        price = {"epsilon": None, "rho": None, name: amount * rung}
        found[f"{name}-{plain(amount * rung, digits=6)}"] = private.prepare(
            family, **{**asked, **price}
        )
    return found


def cost_of_all(private: Private, found: Mapping[str, Prepared]) -> str:
    """What all rungs cost together, in words; refused if the budget does not hold it."""
    event = private.check_all(list(found.values()))
    return "nothing: all were paid for before" if event is None else needed(event)


def compare_twins(
    private: Private, places: Mapping[str, Path], progress: Progress | None = None
) -> Comparison:
    """Set synthetic tables beside the rows that they were made from, for the owner."""
    with private.owners_rows() as rows:
        held = rows.engine.columns(rows.table)
        columns = tuple(one for one in rows.schema.columns if one.name in held)
        people = HeldTable(rows.engine, rows.table, columns)
        return compare_held(dict(places), ComparedOriginal(rows.schema, people), progress)
