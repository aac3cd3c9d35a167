"""WITH: every use of a common table expression becomes a subquery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.refusal import part

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPANSIONS = 64

Named = tuple[exp.Select, int]
"""What a name stands for, and how many uses of names it is made of."""


def inline_ctes(select: exp.Select) -> exp.Select:
    """Put the meaning of every name of WITH where it is used."""
    whole = select.copy()
    _inline(whole, {})
    return whole


def _inline(select: exp.Select, outer: Mapping[str, Named]) -> int:
    """Expand names inside a SELECT in place; give the number of expansions."""
    names, spent = dict(outer), 0
    clause = select.args.get("with_")
    if clause is not None:
        if clause.args.get("recursive"):
            raise QueryError(
                "cte_recursive", f"Cannot use WITH RECURSIVE in {part(select)}. Write it out."
            )
        for entry in clause.expressions:
            names[entry.alias.casefold()] = _named(entry, names)
        select.set("with_", None)
    for node in _own(select):
        if isinstance(node, exp.Select):
            spent += _inline(node, names)
        elif isinstance(node, exp.Table) and not node.args.get("db"):
            meaning = names.get(node.name.casefold())
            if meaning is not None:
                spent += 1 + meaning[1]
                _check(spent)
                alias = exp.to_identifier(node.alias_or_name, quoted=True)
                joins = node.args.get("joins")
                subquery = meaning[0].copy().subquery(alias, copy=False)
                subquery.set("joins", joins)
                node.replace(subquery)
    _check(spent)
    return spent


def _named(entry: exp.Expr, names: Mapping[str, Named]) -> Named:
    """One entry of WITH, with the names before it expanded."""
    body = entry.this
    alias = entry.args["alias"]
    if not isinstance(body, exp.Select) or alias.args.get("columns"):
        raise QueryError(
            "cte_not_select",
            f"Cannot use {part(entry)}: an entry of WITH is name AS (SELECT ...).",
        )
    body = body.copy()
    return body, _inline(body, names)


def _own(select: exp.Select) -> list[exp.Expr]:
    """The tables of a SELECT and the SELECTs directly inside it, but not what is inside those."""
    found: list[exp.Expr] = []
    waiting: list[exp.Expr] = list(select.iter_expressions())
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Select | exp.Table):
            found.append(node)
        else:
            waiting.extend(node.iter_expressions())
    return found


def _check(spent: int) -> None:
    if spent > EXPANSIONS:
        raise QueryError(
            "cte_expansions",
            f"Cannot plan the question: its WITH names are used more than {EXPANSIONS} times when "
            "written out. Use them less often.",
        )
