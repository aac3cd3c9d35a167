"""What may be asked of private data: of one table under a budget, or of a whole vault's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, cast

from sfumato import given
from sfumato.cards import Card, Shown
from sfumato.errors import ParameterError, SfumatoError
from sfumato.ledger.memory import memory_ledger
from sfumato.privacy.filters import Budget
from sfumato.privacy.numbers import EPSILON_MAXIMUM, positive
from sfumato.privacy.units import UNITS
from sfumato.publish.options import KindOptions
from sfumato.query.sql.tables import PrivateRows
from sfumato.schema.names import quoted
from sfumato.steward.table import Table, read
from sfumato.vault.accounts import left_once_charged, remaining, tightest
from sfumato.vault.config import OWNER
from sfumato.vault.datastore import HERE, DataStore, Location
from sfumato.vault.families import FAMILIES
from sfumato.vault.folder import AnswerIndex
from sfumato.vault.gatekeeper import Asker, Gatekeeper
from sfumato.vault.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Unpack

    from numpy.typing import ArrayLike

    from sfumato.engines.sources import Source
    from sfumato.method import Dataset, Prepared
    from sfumato.privacy.events import Event
    from sfumato.privacy.numbers import Number
    from sfumato.privacy.units import Unit
    from sfumato.publish.kinds import Publication
    from sfumato.publish.options import KindName
    from sfumato.query.answer.explain import Explanation
    from sfumato.query.answer.question import Question
    from sfumato.schema.schema import Schema
    from sfumato.synth.forecast import SynthesisForecast
    from sfumato.synth.request import SynthesisRequest
    from sfumato.vault.answer import Answer
    from sfumato.vault.families import Family
    from sfumato.vault.publishing import Published
    from sfumato.vault.questions import Asked
    from sfumato.vault.session import AskerOf
    from sfumato.vault.synthesizing import Synthesized
    from sfumato.vault.trying import ReleaseGate


class QueryCost(TypedDict, total=False):
    """What a question may cost: a pure epsilon or a rho, a delta, and how figures share it."""

    epsilon: Number | None
    rho: Number | None
    delta: Number | None
    weights: Mapping[str, Number] | None


class QueryOptions(QueryCost, total=False):
    """What may be said of a question besides its words."""

    request_id: str | None


class PublishOptions(KindOptions, total=False):
    """What may be said of a publication besides its kind and columns."""

    epsilon: Number | None
    rho: Number | None
    delta: Number | None
    workload: ArrayLike | str | Path | None
    postprocess: Sequence[str] | str


class SynthesisOptions(TypedDict, total=False):
    """What may be said of a synthesis."""

    epsilon: Number | None
    rho: Number | None
    delta: Number | None
    method: str
    rows: int | None
    columns: Sequence[str] | str | None
    quantiles: Sequence[str] | str
    weekdays: Sequence[str] | str
    target: str | None
    workload: Sequence[Sequence[str]] | str | Path | None
    child: str | None
    key: str | None


class Questions(Shown):
    """What one principal may ask, for one purpose: every family of methods by its name."""

    def __init__(self, session: Session, asker_of: AskerOf, dataset: str = "") -> None:
        self._session, self._asker_of, self._dataset = session, asker_of, dataset

    def _card(self) -> Card:
        return Card(f"about {', '.join(self._session.catalogue)}", {})

    def query(
        self,
        asked: Asked,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        weights: Mapping[str, Number] | None = None,
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

    @given.in_python
    def explain(self, asked: Asked, **cost: Unpack[QueryCost]) -> Explanation:
        """Say what a question would cost and how far its answer would be off; spends nothing."""
        return cast("Question", self.prepare(FAMILIES["query"], asked, **cost)).explain()

    def prepare(self, family: Family, /, *positional: object, **asked: object) -> Prepared:
        """Make what is asked of a family ready to be charged and run; spends nothing."""
        facts = self._session.facts(self._asker_of, self._dataset)
        return self._session.prepare(family, family.values(*positional, **asked), facts)

    def run(
        self,
        family: Family,
        prepared: Prepared,
        *,
        request_id: str | None = None,
        gate: ReleaseGate | None = None,
    ) -> Any:
        """Charge and answer what was prepared; with a `gate` attack it before it is given."""
        if gate is not None:
            gate.check(self._session, self._asker_of, prepared)
        answer = self._session.run(family, prepared, self._asker_of, request_id=request_id)
        return answer if gate is None else gate.tried(self._session, prepared, answer)

    def left_after(self, prepared: Prepared) -> tuple[Mapping[str, float], str]:
        """What would be left once this was charged, for programs and for people."""
        ledger, asker = self._session.gatekeeper.ledger, self._asker_of(prepared.datasets)
        return left_once_charged(ledger, asker.own or asker.shared, prepared.event)

    def check_all(self, wanted: Sequence[Prepared]) -> Event | None:
        """What several of these cost the owner together, or a refusal; nothing is charged."""
        return self._session.check_all(wanted, self._asker_of)

    def owners_rows(self) -> AbstractContextManager[Dataset]:
        """The rows themselves, for the owner's own look; refused to any other principal."""
        return self._session.owners_rows(self._dataset, self._asker_of)

    @given.in_python
    def _ask(
        self, name: str, /, *positional: object, request_id: str | None = None, **asked: object
    ) -> Any:
        """Answer what a family is asked; its module says what comes back."""
        family = FAMILIES[name]
        return self.run(family, self.prepare(family, *positional, **asked), request_id=request_id)

    if not TYPE_CHECKING:  # else every misspelt method would pass for one

        def __getattr__(self, name: str) -> Any:
            """The method of a family that has no words of its own here."""
            if name not in FAMILIES:
                raise AttributeError(f"{type(self).__name__!r} has no method {name!r}")
            return FAMILIES[name].method(self._ask)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *FAMILIES})


class Private(Questions):
    """A table that answers only under differential privacy, until its budget is spent."""

    @given.in_python
    def publish(
        self,
        kind: KindName | str,
        *,
        columns: Sequence[str] | str,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        workload: ArrayLike | str | Path | None = None,
        postprocess: Sequence[str] | str = (),
        request_id: str | None = None,
        attacks: bool | None = None,
        require: Sequence[str] | str = (),
        publish_findings: bool = False,
        **options: Unpack[KindOptions],
    ) -> Published:
        """Publish statistics of some columns, charged to the table's budget.

        `workload` names the ranges that matter, (queries, columns, 2) in values, ends included, or
        a file of them; `options` are those of the kind. The identical publication is given again
        from store, free.

        With `attacks` its owner has what attackers still get as `findings`; by `require`, such as
        "link<0.05", what they get more from is refused, and the charge stays.
        """
        gate = _gate(require, attacks, publish_findings)
        cost: QueryCost = {"epsilon": epsilon, "rho": rho, "delta": delta}
        asked: dict[str, Any] = {"workload": workload, "postprocess": postprocess, **options}
        planned = self.plan(kind, columns=columns, **cost, **asked)
        found: Published = self.run(FAMILIES["publish"], planned, request_id=request_id, gate=gate)
        return found

    @given.in_python
    def synthesize(
        self,
        *,
        request_id: str | None = None,
        attacks: bool | None = None,
        require: Sequence[str] | str = (),
        publish_findings: bool = False,
        **asked: Unpack[SynthesisOptions],
    ) -> Synthesized:
        """Make up a table in the form of this one, charged to its budget.

        `method` is auto, aim, mst, privbayes, workload or independent; `rows` how many to draw,
        `columns` those to have. `target` is a column that the others are to tell, `workload` sets
        of columns that matter, or a file of them, among which `aim` chooses; `quantiles` names
        columns to cut where rows crowd, `weekdays` dates whose day of the week is kept. `child` is
        a data set of the same people with several rows each, which comes with this one, linked by
        their `key`; `rows` are this one's then. The cost is an epsilon or a rho, and a delta. The
        identical request is answered again from store.

        With `attacks` its owner has what attackers still get as `findings`; by `require`, such as
        "copies<0.05", what they get more from is refused, and the charge stays.
        """
        gate = _gate(require, attacks, publish_findings)
        family = FAMILIES["synthesize"]
        request = self.prepare(family, **asked)
        found: Synthesized = self.run(family, request, request_id=request_id, gate=gate)
        return found

    @given.in_python
    def plan_synthesis(self, **asked: Unpack[SynthesisOptions]) -> SynthesisForecast:
        """Say how far off `synthesize`, asked the same, would be by each method; free."""
        request = self.prepare(FAMILIES["synthesize"], **asked)
        return cast("SynthesisRequest", request).explain()

    def above(
        self,
        *,
        columns: Sequence[str] | str,
        workload: ArrayLike | str | Path,
        threshold: Number,
        at_most: int | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        request_id: str | None = None,
    ) -> Published:
        """Say which ranges of a `workload` hold more rows than a threshold.

        Only hits use up the price: `at_most` so many, by default 1, are paid for.
        """
        cost = {"epsilon": epsilon, "rho": rho, "delta": delta}
        asked = {"columns": columns, "workload": workload, "threshold": threshold, **cost}
        found: Published = self._ask("above", request_id=request_id, at_most=at_most, **asked)
        return found

    @given.in_python
    def plan(
        self,
        kind: KindName | str,
        *,
        columns: Sequence[str] | str,
        **asked: Unpack[PublishOptions],
    ) -> Publication:
        """Say what `publish`, asked the same, would choose and how far off it would be, free."""
        publication = self.prepare(FAMILIES["publish"], kind, columns=columns, **asked)
        return cast("Publication", publication)

    @given.in_python
    def publish_planned(
        self, publication: Publication, *, request_id: str | None = None
    ) -> Published:
        """Publish what `plan` of this table gave, charged to its budget."""
        if not hasattr(publication, "datasets"):
            raise ParameterError(
                "type_wrong",
                f"publication must be what plan(...) gave, not {given.shown(publication)}.",
            )
        if publication.datasets != (self._dataset,):
            raise ParameterError(
                "plan_foreign",
                f"This plan is of {quoted(publication.datasets[0])}, not of "
                f"{quoted(self._dataset)}. Plan it again with the table that is to answer it.",
            )
        found: Published = self.run(FAMILIES["publish"], publication, request_id=request_id)
        return found

    def _card(self) -> Card:
        declared = self._session.facts(self._asker_of, self._dataset).declared
        columns = [column.name for column in declared.schema.columns]
        try:
            asker = self._asker_of((self._dataset,))
            left = tightest(self._session.gatekeeper.ledger, asker.own or asker.shared)
        except SfumatoError:  # a repr is asked for of a closed vault, too
            left = "of a vault that is closed"
        return Card(
            f"{self._dataset}, {left}; columns {', '.join(columns)}",
            {"Budget": left, "Unit": declared.unit.sentence()},
            declared.schema.listed(),
        )

    @property
    def schema(self) -> Schema:
        """What is declared of the table, which is public."""
        return self._session.facts(self._asker_of, self._dataset).declared.schema

    @property
    def remaining(self) -> Mapping[str, float]:
        """The largest epsilon, delta and rho that one more question may cost."""
        ledger, asker = self._session.gatekeeper.ledger, self._asker_of((self._dataset,))
        return remaining(ledger, asker.own or asker.shared)


def _gate(
    require: Sequence[str] | str, attacks: bool | None, publish_findings: bool
) -> ReleaseGate | None:
    asked = given.maybe_flag(attacks, "attacks")
    publish = given.flag(publish_findings, "publish_findings")
    if not (asked or publish or require):
        return None
    from sfumato.steward.requirements import attacks_wanted  # most releases do without
    from sfumato.vault.trying import ReleaseGate

    gate = ReleaseGate.asked(require, publish=publish)
    wanted = attacks_wanted(asked, gate.requirements, publish=publish, off="attacks=False")
    return gate if wanted else None


@given.in_python
def protect(
    table: Table | Source,
    schema: str | Path | Schema | None = None,
    *,
    unit: Unit | None = None,
    epsilon: Number,
    delta: Number = 0,
    max_epsilon: Number = EPSILON_MAXIMUM,
) -> Private:
    """Put a table under a budget, in memory; the unit is the schema's unless given here.

    A table that is not open yet, a data frame or a path, comes with the schema that declares it. No
    budget and no question may be above `max_epsilon`: beyond 10 hardly anything is hidden.
    """
    if unit is not None:
        given.require(unit, "unit", UNITS, "sf.Rows() or sf.Entity(...)")
    table = _declared(table, schema)
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


def _declared(table: Table | Source, schema: str | Path | Schema | None) -> Table:
    """A table with its schema; what is declared must not be guessed from the rows."""
    if isinstance(table, Table):
        if schema is not None:
            raise ParameterError(
                "schema_twice",
                "The table has its schema already, from sf.read. Give the schema there, or protect "
                "the data frame or path itself.",
            )
        return table
    if schema is None:
        raise ParameterError(
            "schema_missing",
            "What a table under a budget holds must be declared, not guessed from its rows. Give "
            "schema='people.toml' or an sf.Schema; sf.read(table).save_schema(path) writes one to "
            "begin with.",
        )
    return read(table, schema)
