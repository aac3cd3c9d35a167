"""One table under a budget that lives as long as the process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.ledger.memory import memory_ledger
from sfumato.privacy.filters import Budget
from sfumato.privacy.numbers import EPSILON_MAXIMUM, positive
from sfumato.query.sql.tables import PrivateRows as PrivateEntry
from sfumato.vault.accounts import remaining
from sfumato.vault.config import OWNER
from sfumato.vault.datastore import HERE, DataStore, Location
from sfumato.vault.folder import AnswerIndex
from sfumato.vault.gatekeeper import Asker, Gatekeeper
from sfumato.vault.session import Offer, Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from sfumato.privacy.units import Unit
    from sfumato.publish.kinds import Publication
    from sfumato.query.answer.explain import Explanation
    from sfumato.schema.schema import Schema
    from sfumato.steward.table import Table
    from sfumato.vault.gatekeeper import Answer
    from sfumato.vault.publishing import Published
    from sfumato.vault.session import Asked, AskerOf


class Private:
    """A table that answers only under differential privacy, until its budget is spent."""

    def __init__(self, curator: Session, name: str, asker_of: AskerOf) -> None:
        self._curator, self._name, self._asker_of = curator, name, asker_of

    def query(
        self,
        asked: Asked,
        *,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        weights: Mapping[str, object] | None = None,
        request_id: str | None = None,
    ) -> Answer:
        """Answer a question with noise and error bars, charged to the table's budget.

        It is given in SQL or built from `sf.table`. Without epsilon and rho it costs a tenth of
        the whole budget. The identical question is answered again from store, free.
        """
        price = Offer(epsilon=epsilon, rho=rho, delta=delta, weights=weights)
        return self._curator.query(asked, price, self._asker_of, request_id=request_id)

    def explain(
        self,
        asked: Asked,
        *,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        weights: Mapping[str, object] | None = None,
    ) -> Explanation:
        """Say what a question would cost and how far its answer would be off; spends nothing."""
        price = Offer(epsilon=epsilon, rho=rho, delta=delta, weights=weights)
        return self._curator.explain(asked, price, self._asker_of)

    def publish(
        self,
        kind: str,
        *,
        columns: Sequence[str] | str,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        workload: ArrayLike | None = None,
        postprocess: Sequence[str] | str = (),
        request_id: str | None = None,
        **options: object,
    ) -> Published:
        """Publish statistics of some columns, charged to the table's budget.

        `workload` names the ranges that matter, (queries, columns, 2) in values, ends included;
        `options` are those of the kind. The identical publication is given again from store, free.
        """
        publication = self.plan(
            kind,
            columns=columns,
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            workload=workload,
            postprocess=postprocess,
            **options,
        )
        return self.publish_planned(publication, request_id=request_id)

    def publish_planned(
        self, publication: Publication, *, request_id: str | None = None
    ) -> Published:
        """Publish what `plan` gave, charged to the table's budget."""
        return self._curator.publish(publication, self._asker_of, request_id=request_id)

    def plan(
        self,
        kind: str,
        *,
        columns: Sequence[str] | str,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        workload: ArrayLike | None = None,
        postprocess: Sequence[str] | str = (),
        **options: object,
    ) -> Publication:
        """Say what `publish` would choose, and how far off it would be; spends nothing."""
        return self._curator.plan(
            kind,
            self._name,
            Offer(epsilon=epsilon, rho=rho, delta=delta),
            self._asker_of,
            columns=columns,
            workload=workload,
            postprocess=postprocess,
            options=options,
        )

    @property
    def schema(self) -> Schema:
        """What is declared of the table, which is public."""
        return self._curator.private(self._name).schema

    @property
    def remaining(self) -> Mapping[str, float]:
        """The largest epsilon, delta and rho that one more question may cost."""
        asker = self._asker_of((self._name,))
        return remaining(self._curator.gatekeeper.ledger, asker.own or asker.shared)


def protect(
    table: Table,
    *,
    unit: Unit | None = None,
    epsilon: object,
    delta: object = 0,
    max_epsilon: object = EPSILON_MAXIMUM,
) -> Private:
    """Put a table under a budget, in memory; the unit is the schema's unless given here.

    No budget and no question may be above `max_epsilon`: beyond 10 hardly anything is hidden.
    """
    maximum = positive(max_epsilon, "max_epsilon")
    budget = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta, maximum=maximum)
    schema = table.schema if unit is None else replace(table.schema, unit=unit)
    name, held = schema.table, replace(table, schema=schema)
    ledger = memory_ledger()
    ledger.open_account(name, budget=budget)
    ledger.attach(name, account=name)
    curator = Session(
        {name: PrivateEntry(schema, schema.unit, name)},
        DataStore({name: Location(HERE, lambda: held, schema.unit)}),
        Gatekeeper(ledger, AnswerIndex()),
        maximum,
        table.files,
    )
    return Private(curator, name, lambda _: Asker(OWNER, (name,)))
