"""Queries in SQL, or built from `sf.table`: planned from declarations, never from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.engines.sources import open_source
from sfumato.errors import ParameterError
from sfumato.methods.query.answer import question as answering
from sfumato.methods.query.builder import built_tree
from sfumato.methods.query.plan.plan_cache import RepeatedQuestions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.query.answer.question import Question
    from sfumato.methods.query.builder import BuiltQuestion
    from sfumato.vault.session import Facts, Offer

    Asked = str | BuiltQuestion


_REPEATED = RepeatedQuestions()


def without_files(
    _facts: Facts, /, *, asked: Asked, weights: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """The request as HTTP takes it: as SQL, also where the query was built."""
    sql = asked if isinstance(asked, str) else built_tree(asked).sql()
    return {"sql": sql, "weights": weights}


def prepare(
    facts: Facts, offer: Offer, /, *, asked: Asked, weights: Mapping[str, object] | None = None
) -> Question:
    """Plan a query at a cost.

    Raises
    ------
    ParameterError
        `cost_twice` if the query names its own cost and another is given.
    """
    planned = _REPEATED.plan(asked, facts.catalogue)
    facts.check(planned.plan.datasets)
    for name, offered, clause in (
        ("epsilon", offer.epsilon if offer.rho is None else offer.rho, planned.epsilon),
        ("delta", offer.delta, planned.delta),
    ):
        if offered is not None and clause is not None:
            raise ParameterError(
                "cost_twice",
                f"The question itself asks for {name} {float(clause):g}, and another cost was "
                "given beside it. Give one of them.",
            )
    epsilon = planned.epsilon if offer.epsilon is None else offer.epsilon
    if epsilon is None and offer.rho is None:
        epsilon = facts.usual(planned.plan.datasets)
    return answering.prepare(
        planned.plan,
        open_table=open_source,
        epsilon=epsilon,
        rho=offer.rho,
        delta=(planned.delta or 0) if offer.delta is None else offer.delta,
        weights=arguments.amounts(weights, "weights"),
        maximum=facts.maximum,
        limit=facts.limit,
    )
