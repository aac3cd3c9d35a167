"""One table under a budget that lives as long as the process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.ledger.memory import memory_ledger
from sfumato.privacy.filters import Budget
from sfumato.query.catalogue import Private as PrivateEntry
from sfumato.vault.amounts import remaining
from sfumato.vault.answered import Answered
from sfumato.vault.config import OWNER
from sfumato.vault.curator import Curator, Price
from sfumato.vault.gatekeeper import Asker, Gatekeeper
from sfumato.vault.places import HERE, Home, Places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.privacy.units import Unit
    from sfumato.query.explain import Explanation
    from sfumato.vault.curator import Asked
    from sfumato.vault.gatekeeper import Answer
    from sfumato.vault.table import Table


class Private:
    """A table that answers only under differential privacy, until its budget is spent."""

    def __init__(self, table: Table, unit: Unit, budget: Budget) -> None:
        schema = replace(table.schema, unit=unit)
        self._name = schema.table
        self._ledger = memory_ledger()
        self._ledger.open_account(self._name, budget=budget)
        self._ledger.attach(self._name, account=self._name)
        held = replace(table, schema=schema)
        self._curator = Curator(
            {self._name: PrivateEntry(schema, unit, self._name)},
            Places({self._name: Home(HERE, lambda: held, unit)}),
            Gatekeeper(self._ledger, Answered()),
        )

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
        price = Price(epsilon=epsilon, rho=rho, delta=delta, weights=weights)
        return self._curator.query(asked, price, self._asker, request_id=request_id)

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
        price = Price(epsilon=epsilon, rho=rho, delta=delta, weights=weights)
        return self._curator.explain(asked, price, self._asker)

    def _asker(self, _: tuple[str, ...]) -> Asker:
        return Asker(OWNER, (self._name,))

    @property
    def remaining(self) -> Mapping[str, float]:
        """The largest epsilon, delta and rho that one more question may cost."""
        return remaining(self._ledger, [self._name])


def protect(
    table: Table, *, unit: Unit | None = None, epsilon: object, delta: object = 0
) -> Private:
    """Put a table under a budget, in memory; the unit is the schema's unless given here."""
    budget = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta)
    return Private(table, table.schema.unit if unit is None else unit, budget)
