"""What may be asked of private data: of one table under a budget, or of a whole vault's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, cast

from sfumato.errors import ParameterError
from sfumato.ledger.memory import memory_ledger
from sfumato.privacy.filters import Budget
from sfumato.privacy.numbers import EPSILON_MAXIMUM, positive
from sfumato.query.sql.tables import PrivateRows
from sfumato.schema.names import quoted
from sfumato.vault.accounts import remaining
from sfumato.vault.config import OWNER
from sfumato.vault.datastore import HERE, DataStore, Location
from sfumato.vault.families import FAMILIES
from sfumato.vault.folder import AnswerIndex
from sfumato.vault.gatekeeper import Asker, Gatekeeper
from sfumato.vault.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    from numpy.typing import ArrayLike

    from sfumato.method import Prepared
    from sfumato.privacy.units import Unit
    from sfumato.publish.kinds import Publication
    from sfumato.query.answer.explain import Explanation
    from sfumato.query.answer.question import Question
    from sfumato.schema.schema import Schema
    from sfumato.steward.table import Table
    from sfumato.vault.answer import Answer
    from sfumato.vault.families import Family
    from sfumato.vault.publishing import Published
    from sfumato.vault.questions import Asked
    from sfumato.vault.session import AskerOf


class QueryCost(TypedDict, total=False):
    """What a question may cost: a pure epsilon or a rho, a delta, and how figures share it."""

    epsilon: object
    rho: object
    delta: object
    weights: Mapping[str, object] | None


class QueryOptions(QueryCost, total=False):
    """What may be said of a question besides its words."""

    request_id: str | None


class Questions:
    """What one principal may ask, for one purpose: every family of methods by its name."""

    def __init__(self, session: Session, asker_of: AskerOf, dataset: str = "") -> None:
        self._session, self._asker_of, self._dataset = session, asker_of, dataset

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
        """Answer a question with noise and error bars, charged to the data sets' budgets.

        It is given in SQL or built from `sf.table`. Without epsilon and rho it costs a tenth of
        the whole budget. The identical question of the same principal is answered again from
        store, free. A request id names one question for good: repeating it is safe.
        """
        cost = {"epsilon": epsilon, "rho": rho, "delta": delta}
        found: Answer = self._ask("query", asked, **cost, weights=weights, request_id=request_id)
        return found

    def explain(self, asked: Asked, **cost: Unpack[QueryCost]) -> Explanation:
        """Say what a question would cost and how far its answer would be off; spends nothing."""
        return cast("Question", self.prepare(FAMILIES["query"], asked, **cost)).explain()

    def prepare(self, family: Family, /, *positional: object, **given: object) -> Prepared:
        """Make what is asked of a family ready to be charged and run; spends nothing."""
        facts = self._session.facts(self._asker_of, self._dataset)
        return self._session.prepare(family, family.values(*positional, **given), facts)

    def run(self, family: Family, prepared: Prepared, *, request_id: str | None = None) -> Any:
        """Charge and answer what was prepared."""
        return self._session.run(family, prepared, self._asker_of, request_id=request_id)

    def _ask(
        self, name: str, /, *positional: object, request_id: str | None = None, **given: object
    ) -> Any:
        """Answer what a family is asked; its module says what comes back."""
        family = FAMILIES[name]
        return self.run(family, self.prepare(family, *positional, **given), request_id=request_id)

    if not TYPE_CHECKING:  # else every misspelt method would pass for one

        def __getattr__(self, name: str) -> Any:
            """The method of a family that has no words of its own here."""
            if name not in FAMILIES:
                raise AttributeError(f"{type(self).__name__!r} has no method {name!r}")
            asking = partial(self._ask, name)
            asking.__doc__, asking.__signature__ = FAMILIES[name].help, FAMILIES[name].signature
            return asking


class Private(Questions):
    """A table that answers only under differential privacy, until its budget is spent."""

    def publish(
        self,
        kind: str,
        *,
        columns: Sequence[str] | str,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        workload: ArrayLike | Path | None = None,
        postprocess: Sequence[str] | str = (),
        request_id: str | None = None,
        **options: object,
    ) -> Published:
        """Publish statistics of some columns, charged to the table's budget.

        `workload` names the ranges that matter, (queries, columns, 2) in values, ends included, or
        a file of them; `options` are those of the kind. The identical publication is given again
        from store, free.
        """
        cost = {"epsilon": epsilon, "rho": rho, "delta": delta}
        asked = {"workload": workload, "postprocess": postprocess, **options}
        planned = self.plan(kind, columns=columns, **cost, **asked)
        return self.publish_planned(planned, request_id=request_id)

    def plan(self, kind: str, *, columns: Sequence[str] | str, **asked: object) -> Publication:
        """Say what `publish`, asked the same, would choose and how far off it would be, free."""
        publication = self.prepare(FAMILIES["publish"], kind, columns=columns, **asked)
        return cast("Publication", publication)

    def publish_planned(
        self, publication: Publication, *, request_id: str | None = None
    ) -> Published:
        """Publish what `plan` of this table gave, charged to its budget."""
        if publication.datasets != (self._dataset,):
            raise ParameterError(
                "plan_foreign",
                f"This plan is of {quoted(publication.datasets[0])}, not of "
                f"{quoted(self._dataset)}. Plan it again with the table that is to answer it.",
            )
        found: Published = self.run(FAMILIES["publish"], publication, request_id=request_id)
        return found

    @property
    def schema(self) -> Schema:
        """What is declared of the table, which is public."""
        return self._session.facts(self._asker_of, self._dataset).declared.schema

    @property
    def remaining(self) -> Mapping[str, float]:
        """The largest epsilon, delta and rho that one more question may cost."""
        asker = self._asker_of((self._dataset,))
        return remaining(self._session.gatekeeper.ledger, asker.own or asker.shared)


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
    session = Session(
        {name: PrivateRows(schema, schema.unit, name)},
        DataStore({name: Location(HERE, lambda: held, schema.unit)}),
        Gatekeeper(ledger, AnswerIndex()),
        maximum,
        table.files,
    )
    return Private(session, lambda _: Asker(OWNER, (name,)), name)
