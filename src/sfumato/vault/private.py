"""What one principal may ask: of all data sets of a vault, or of one private table.

`Questions` has every family of methods by its name; `Private` adds what only one table can answer,
with the parameters of each method spelled out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, SfumatoError
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.report.display import Card, Shown
from sfumato.vault.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from fractions import Fraction
    from pathlib import Path
    from typing import Unpack

    from numpy.typing import ArrayLike

    from sfumato.data.schema.schema import Schema
    from sfumato.exact_numbers import Number
    from sfumato.methods.method import Dataset, Plan
    from sfumato.methods.programs.forecast import ProgramForecast
    from sfumato.methods.programs.request import ProgramRun
    from sfumato.methods.publish.publication import Publication
    from sfumato.methods.query.answer.explain import Explanation
    from sfumato.methods.query.answer.question import Question
    from sfumato.methods.query.sql.tables import Catalogue
    from sfumato.methods.synth.forecast import SynthesisForecast
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.vault.answer import Answer
    from sfumato.vault.families import Family
    from sfumato.vault.method_options import (
        KindName,
        KindOptions,
        LearningOptions,
        ProgramOptions,
        PublishOptions,
        QueryCost,
        SynthesisOptions,
    )
    from sfumato.vault.models import LearnedModel
    from sfumato.vault.program_runs import ProgramAnswer
    from sfumato.vault.publications import Published
    from sfumato.vault.queries import Asked
    from sfumato.vault.release_attacks import ReleaseGate
    from sfumato.vault.session import AskerOf, Asking
    from sfumato.vault.streams import Stream
    from sfumato.vault.syntheses import Synthesized


class Questions(Shown):
    """The questions of one principal for one purpose: every family of methods by its name."""

    def __init__(self, session: Asking, asker_of: AskerOf, dataset: str = "") -> None:
        self._session, self._asker_of, self._dataset = session, asker_of, dataset

    def _card(self) -> Card:
        return Card(f"about {', '.join(self.catalogue)}", {})

    @property
    def catalogue(self) -> Catalogue:
        """The declarations of the data sets that this principal may query, by name."""
        return self._session.facts(self._asker_of, self._dataset).catalogue

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
        answer: Answer = self._ask(
            "query", asked=asked, **cost, weights=weights, request_id=request_id
        )
        return answer

    def explain(self, asked: Asked, **cost: Unpack[QueryCost]) -> Explanation:
        """Say what a question would cost and how far its answer would be off; spends nothing."""
        return cast("Question", self._planned(FAMILIES["query"], asked=asked, **cost)).explain()

    def _planned(self, family: Family, /, **asked: object) -> Plan:
        """A plan to show: refused if its answer could not be stored."""
        prepared = self.prepare(family, **asked)
        self._session.confirm(prepared, self._asker_of)
        return prepared

    def prepare(self, family: Family, /, **asked: object) -> Plan:
        """Prepare a request to a family, ready to be charged and run; spends nothing."""
        facts = self._session.facts(self._asker_of, self._dataset)
        return self._session.prepare(family, asked, facts)

    def answer(
        self,
        family: Family,
        prepared: Plan,
        *,
        request_id: str | None = None,
        gate: ReleaseGate | None = None,
    ) -> Any:
        """Charge and answer what was prepared; with a `gate` attack it before it is given."""
        asker_of = self._asker_of
        return self._session.run(family, prepared, asker_of, request_id=request_id, gate=gate)

    def left_after(self, prepared: Plan) -> tuple[Mapping[str, float], str]:
        """What would be left once this was charged, for programs and for people."""
        return self._session.left_after(prepared, self._asker_of)

    def check_all(self, methods: Sequence[Plan]) -> list[Charged]:
        """List what several of these would charge the owner, or refuse it; nothing is charged."""
        return self._session.check_all(methods, self._asker_of)

    def owners_rows(self) -> AbstractContextManager[Dataset]:
        """The rows themselves, for the owner alone."""
        return self._session.owners_rows(self._dataset, self._asker_of)

    def _ask(self, name: str, /, *, request_id: str | None = None, **asked: object) -> Any:
        """Prepare and answer a request to a family."""
        family = FAMILIES[name]
        return self.answer(family, self.prepare(family, **asked), request_id=request_id)


class Private(Questions):
    """A table that answers only under differential privacy, until its budget is spent."""

    def publish(
        self,
        kind: KindName | str,
        *,
        columns: Sequence[str] | str | None = None,
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
        family = FAMILIES["publish"]
        planned = self.prepare(family, kind=kind, columns=columns, **cost, **asked)
        published: Published = self.answer(family, planned, request_id=request_id, gate=gate)
        return published

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
        their `key`; `rows` are this one's then. Of edges, points or items a graph, paths or baskets
        are made up, as `form` says, by default as the schema does: `nodes` are how many nodes a
        graph has, `people` the data set of their attributes. The cost is an epsilon or a rho, and a
        delta. The identical request is answered again from store.

        With `attacks` its owner has what attackers still get as `findings`; by `require`, such as
        "copies<0.05", what they get more from is refused, and the charge stays.
        """
        gate = _gate(require, attacks, publish_findings)
        family = FAMILIES["synthesize"]
        request = self.prepare(family, **asked)
        synthesized: Synthesized = self.answer(family, request, request_id=request_id, gate=gate)
        return synthesized

    def plan_synthesis(self, **asked: Unpack[SynthesisOptions]) -> SynthesisForecast:
        """Say how far off `synthesize`, asked the same, would be by each method; free."""
        return cast("SynthesisForecast", self._planned(FAMILIES["synthesize"], **asked).explain())

    def learn(
        self,
        kind: str,
        *,
        features: Sequence[str] | str | None = None,
        target: str | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        request_id: str | None = None,
        **options: Unpack[LearningOptions],
    ) -> LearnedModel:
        """Learn a model, charged to the table's budget; it predicts, and can be saved.

        `features` are the columns that it is made of, `target` the one that they are to tell, where
        the kind has one; `options` are those of the kind. All bounds are those that the schema
        declares. The identical request is answered again from store.
        """
        cost: QueryCost = {"epsilon": epsilon, "rho": rho, "delta": delta}
        family, asked = FAMILIES["learn"], {"features": features, "target": target, **options}
        planned = self.prepare(family, kind=kind, **asked, **cost)
        model: LearnedModel = self.answer(family, planned, request_id=request_id)
        return model

    def run(
        self,
        program: Callable[..., Any] | str | Path,
        *,
        output: Any,
        epsilon: Number | None = None,
        function: str | None = None,
        request_id: str | None = None,
        **asked: Unpack[ProgramOptions],
    ) -> ProgramAnswer:
        """Run a program on blocks of people, charged to the table's budget.

        `program` is a Python function that stands by itself, or the path of a file with such a
        `function`. It is called in a sandbox with the rows of one block, a pyarrow table, and
        gives a number or several; `output` has the range of each: [(0, 100), ...]. It is tried on
        made-up rows before anything is charged. What leaves is the `aggregate` of all blocks,
        their "mean" or "median", with noise.

        `blocks` says how many there are, `people` how many people everybody may know there are, by
        which they are chosen; with `repeats` everybody is in so many blocks. `ranges` are "tight",
        as declared, "loose" or "helper", which is then a function of the program. `columns` are
        those that it sees, `seconds` what one block may take: the answer waits for all. The
        `language` is "python" or "starlark", by the ending of a file where it is not given.
        """
        planned = self._program(program, function, output, epsilon, asked)
        answer: ProgramAnswer = self.answer(FAMILIES["run"], planned, request_id=request_id)
        return answer

    def dry_run(
        self,
        program: Callable[..., Any] | str | Path,
        *,
        output: Any,
        epsilon: Number | None = None,
        function: str | None = None,
        **asked: Unpack[ProgramOptions],
    ) -> ProgramForecast:
        """Try what `run` is asked on made-up rows, and say what it would cost; spends nothing."""
        planned = self._program(program, function, output, epsilon, asked)
        return self._session.dry_run(cast("ProgramRun", planned), self._asker_of)

    def _program(
        self,
        program: Callable[..., Any] | str | Path,
        function: str | None,
        output: object,
        epsilon: Number | None,
        asked: ProgramOptions,
    ) -> Plan:
        from sfumato.methods.programs.source import text_of  # most questions do without

        text, name, language = text_of(program, function)
        options: dict[str, Any] = {"language": language, **asked}
        family = FAMILIES["run"]
        return self.prepare(
            family, program=text, function=name, output=output, epsilon=epsilon, **options
        )

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
        published: Published = self._ask("above", request_id=request_id, at_most=at_most, **asked)
        return published

    def stream(
        self,
        method: str = "auto",
        *,
        periods: int | None = None,
        window: int | None = None,
        days: int | None = None,
        by: str | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        **options: object,
    ) -> Stream:
        """Begin a stream of counts about people of this table, charged to its budget as a whole.

        `step` of what comes back takes the rows of one period after the other, or their counts, and
        tells the rows so far, or those of the last `window` periods; for each declared value of the
        column `by`. It ends after so many `periods`, or never. A person counts in so many `days`
        of them at most. `method` is auto, tree, honaker or root. What must outlive its process is a
        feed of a vault, which takes the same.
        """
        from sfumato.vault.streams import begin_stream  # most questions do without

        asked = {"periods": periods, "window": window, "days": days, "by": by, **options}
        offer = {"epsilon": epsilon, "rho": rho, "delta": delta}
        return begin_stream(self._session, self._asker_of, self._dataset, method, offer, asked)

    def plan(
        self,
        kind: KindName | str,
        *,
        columns: Sequence[str] | str | None = None,
        **asked: Unpack[PublishOptions],
    ) -> Publication:
        """Say what `publish`, asked the same, would choose and how far off it would be, free."""
        publication = self._planned(FAMILIES["publish"], kind=kind, columns=columns, **asked)
        return cast("Publication", publication)

    def publish_planned(
        self, publication: Publication, *, request_id: str | None = None
    ) -> Published:
        """Publish what `plan` of this table gave, charged to its budget."""
        if not hasattr(publication, "datasets"):
            raise ParameterError(
                "parameter_type_wrong",
                f"publication must be what plan(...) gave, not {arguments.shown(publication)}.",
                parameter="publication",
                given=arguments.shown(publication),
            )
        if publication.datasets != (self._dataset,):
            raise ParameterError(
                "plan_foreign",
                f"This plan is of {quoted(publication.datasets[0])}, not of "
                f"{quoted(self._dataset)}. Plan it again with the table that is to answer it.",
            )
        published: Published = self.answer(FAMILIES["publish"], publication, request_id=request_id)
        return published

    def _card(self) -> Card:
        declared = self._session.catalogue[self._dataset]
        assert isinstance(declared, PrivateRows)
        columns = [column.name for column in declared.schema.columns]
        try:
            _, remaining = self._session.left((self._dataset,), self._asker_of)
        except SfumatoError:  # a repr is asked for of a closed vault, too
            remaining = "of a vault that is closed"
        return Card(
            f"{self._dataset}, {remaining}; columns {', '.join(columns)}",
            {"Budget": remaining, "Unit": declared.unit.sentence()},
            declared.schema.listed(),
        )

    @property
    def schema(self) -> Schema:
        """What is declared of the table, which is public."""
        return self._session.facts(self._asker_of, self._dataset).declared.schema

    @property
    def usual_epsilon(self) -> Fraction:
        """What a question about the table costs when nobody says how much."""
        return self._session.facts(self._asker_of, self._dataset).usual((self._dataset,))

    @property
    def largest_epsilon(self) -> Fraction:
        """The most that one question about the table may cost whoever asks."""
        facts = self._session.facts(self._asker_of, self._dataset)
        own = None if facts.rights is None else facts.rights.max_epsilon
        return facts.maximum if own is None else min(own, facts.maximum)

    @property
    def balance(self) -> str:
        """The budget left, in one line."""
        _, line = self._session.left((self._dataset,), self._asker_of)
        return line

    @property
    def remaining(self) -> Mapping[str, float]:
        """The largest epsilon, delta and rho that one more question may cost."""
        amounts, _ = self._session.left((self._dataset,), self._asker_of)
        return amounts


def _gate(
    require: Sequence[str] | str, attacks: bool | None, publish_findings: bool
) -> ReleaseGate | None:
    asked = arguments.maybe_flag(attacks, "attacks")
    publish = arguments.flag(publish_findings, "publish_findings")
    if not (asked or publish or require):
        return None
    from sfumato.attack.requirements import attacks_wanted  # most releases do without
    from sfumato.vault.release_attacks import ReleaseGate

    gate = ReleaseGate.asked(require, publish=publish)
    is_wanted = attacks_wanted(asked, gate.requirements, publish=publish, off="attacks=False")
    return gate if is_wanted else None
