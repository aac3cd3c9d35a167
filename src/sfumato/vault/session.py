"""Questions about declared data sets: planned without a look at them, answered at the gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

from sfumato.engines.sources import open_source
from sfumato.errors import ParameterError, QueryError
from sfumato.privacy.numbers import EPSILON_MAXIMUM
from sfumato.privacy.price import price
from sfumato.query.answer.explain import explain
from sfumato.query.answer.question import Question, prepare
from sfumato.query.plan.planner import plan_question
from sfumato.query.sql.tables import PrivateRows as PrivateEntry
from sfumato.schema.names import quoted, suggestion
from sfumato.vault.publishing import planned, published

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike

    from sfumato.publish.kinds import Publication
    from sfumato.query.answer.explain import Explanation
    from sfumato.query.builder import BuiltQuestion
    from sfumato.query.sql.tables import Catalogue
    from sfumato.vault.datastore import DataStore
    from sfumato.vault.gatekeeper import Answer, Asker, Gatekeeper
    from sfumato.vault.publishing import Published

    Asked = str | BuiltQuestion
    AskerOf = Callable[[tuple[str, ...]], Asker]
    """Who asks about these data sets, and who pays."""

SHARE = Fraction(1, 10)
"""The part of the whole budget that a question costs when nobody says how much."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What the caller offers for a question."""

    epsilon: object = None
    rho: object = None
    delta: object = None
    weights: Mapping[str, object] | None = None


@dataclass(frozen=True)
class Session:
    """Knows the declared data sets, where they lie, and the gatekeeper before them."""

    catalogue: Catalogue
    places: DataStore
    gatekeeper: Gatekeeper
    maximum: Fraction = EPSILON_MAXIMUM
    """The largest epsilon that one question or publication may cost."""
    kept: tuple[Path, ...] = ()
    """The files in use, which no answer may be saved over."""

    def query(
        self, asked: Asked, price: Offer, asker_of: AskerOf, *, request_id: str | None
    ) -> Answer:
        """Answer a question, or refuse it."""
        prepared = self.prepare(asked, price, asker_of)
        plan = prepared.plan
        given = self.gatekeeper.answer(
            prepared,
            asker_of(plan.datasets),
            lambda: self.places.together(plan.datasets, plan.public),
            check_data=lambda: self.places.check_readable((*plan.datasets, *plan.public)),
            request_id=request_id,
        )
        return replace(given, kept=self.kept)

    def explain(self, asked: Asked, price: Offer, asker_of: AskerOf) -> Explanation:
        """Say what a question would cost and how far its answer would be off."""
        return explain(self.prepare(asked, price, asker_of))

    def prepare(self, asked: Asked, price: Offer, asker_of: AskerOf) -> Question:
        """Plan a question at a price, from public facts alone."""
        planned = plan_question(asked, self.catalogue)
        self.places.check(planned.plan.datasets, planned.plan.public)
        epsilon, delta = price.epsilon, price.delta
        for name, given, clause in (
            ("epsilon", epsilon if price.rho is None else price.rho, planned.epsilon),
            ("delta", delta, planned.delta),
        ):
            if given is not None and clause is not None:
                raise ParameterError(
                    "cost_twice",
                    f"The question itself asks for {name} {float(clause):g}, and another cost was "
                    "given beside it. Give one of them.",
                )
        epsilon = planned.epsilon if epsilon is None else epsilon
        if epsilon is None and price.rho is None:
            epsilon = self._usual(asker_of(planned.plan.datasets))
        return prepare(
            planned.plan,
            open_table=open_source,
            epsilon=epsilon,
            rho=price.rho,
            delta=(planned.delta or 0) if delta is None else delta,
            weights=price.weights,
            maximum=self.maximum,
        )

    def publish(
        self, publication: Publication, asker_of: AskerOf, *, request_id: str | None
    ) -> Published:
        """Publish what was planned, or refuse to."""
        datasets = publication.datasets
        self.places.check(datasets, ())
        answer = self.gatekeeper.answer(
            publication,
            asker_of(datasets),
            lambda: self.places.together(datasets, ()),
            check_data=lambda: self.places.check_readable(datasets),
            request_id=request_id,
        )
        return published(replace(answer, kept=self.kept), publication)

    def plan(
        self,
        kind: str,
        dataset: str,
        offered: Offer,
        asker_of: AskerOf,
        *,
        columns: Sequence[str] | str,
        workload: ArrayLike | None,
        postprocess: Sequence[str] | str,
        options: Mapping[str, object],
    ) -> Publication:
        """Plan a publication at a price, from public facts alone."""
        entry = self.private(dataset)
        epsilon = offered.epsilon
        if epsilon is None and offered.rho is None:
            epsilon = self._usual(asker_of((dataset,)))
        return planned(
            kind,
            entry.schema,
            entry.unit,
            price(
                epsilon=epsilon,
                rho=offered.rho,
                delta=offered.delta or 0,
                maximum=self.maximum,
            ),
            columns=columns,
            workload=workload,
            postprocess=postprocess,
            options=options,
        )

    def private(self, dataset: str) -> PrivateEntry:
        """What is declared of a private data set."""
        entry = self.catalogue.get(dataset)
        if not isinstance(entry, PrivateEntry):
            names = [name for name, one in self.catalogue.items() if isinstance(one, PrivateEntry)]
            raise QueryError(
                "dataset_not_private",
                f"There is no private data set {quoted(dataset)}; {suggestion(dataset, names)}",
            )
        return entry

    def _usual(self, asker: Asker) -> Fraction:
        """A tenth of the smallest budget that pays, which is public, spent or not."""
        ledger = self.gatekeeper.ledger
        payers = (*asker.shared, *asker.own)
        return SHARE * min(ledger.account(name).budget.loss().epsilon for name in payers)


def answer_to_json(given: Answer) -> dict[str, Any]:
    """An answer in the form that programs get."""
    table = given.table
    return {
        "columns": table.column_names,
        "rows": [[_plain(value) for value in row.values()] for row in table.to_pylist()],
        "error": given.error,
        "cost": {**given.cost, "charged": given.charged},
        "remaining": given.remaining,
        "receipt": given.receipt,
    }


def _plain(value: object) -> object:
    if isinstance(value, float) and not isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
