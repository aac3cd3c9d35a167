"""What one principal may ask: `Questions` about all data sets of a vault, `Private` about one.

`Questions` plans and answers requests of every family; `Private` adds a method for each kind of
request about one data set, with its parameters spelled out.
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
    """Queries of one principal for one purpose, about all data sets that the principal may see."""

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
        """Answer an SQL query with noise and error bars, charged to the budgets of its data sets.

        The same query of the same principal gets the stored answer again, free of charge.

        Parameters
        ----------
        asked
            One SELECT statement, or a query built with `sf.table`.
        epsilon, rho
            The cost: an epsilon, or a rho of zero-concentrated privacy. Default: an epsilon of a
            tenth of the whole budget.
        delta
            The delta to spend; it allows Gaussian noise where that is more accurate.
        weights
            How to divide the cost among the output columns, such as `{"n": 2}`.
        request_id
            An id of your choice that makes a retry safe: the same id and request give the same
            answer and are charged once. Another request under the same id is refused.

        Returns
        -------
        Answer
            The noisy `table`, its `error` by column, its `guarantee`, and what was charged
            (`cost`).

        Raises
        ------
        QueryError
            If the query is not supported or names something unknown.
        BudgetError
            If the budget left is too small.
        ParameterError
            If an amount is out of range or another parameter is wrong.

        Example
        -------
        >>> import sfumato as sf
        >>> columns = (sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 120)),)
        >>> private = sf.protect([{"age": 40}] * 50, sf.Schema("people", columns), epsilon=1)
        >>> answer = private.query("SELECT COUNT(*) AS n FROM people", epsilon="0.1")
        >>> answer.table.column_names, answer.cost
        (['n'], {'epsilon': 0.1})
        """
        cost = {"epsilon": epsilon, "rho": rho, "delta": delta}
        answer: Answer = self._ask(
            "query", asked=asked, **cost, weights=weights, request_id=request_id
        )
        return answer

    def explain(self, asked: Asked, **cost: Unpack[QueryCost]) -> Explanation:
        """Forecast the cost and the expected error of a query; nothing is charged.

        Parameters
        ----------
        asked
            One SELECT statement, or a query built with `sf.table`.
        **cost
            `epsilon`, `rho`, `delta` and `weights`, as for `query`.

        Returns
        -------
        Explanation
            `text()` prints it; `to_json()` is for programs.

        Raises
        ------
        QueryError
            If the query is not supported or names something unknown.
        """
        return cast("Question", self._planned(FAMILIES["query"], asked=asked, **cost)).explain()

    def _planned(self, family: Family, /, **asked: object) -> Plan:
        """Plan a request to show the plan; refused if its answer could not be stored."""
        prepared = self.prepare(family, **asked)
        self._session.confirm(prepared, self._asker_of)
        return prepared

    def prepare(self, family: Family, /, **asked: object) -> Plan:
        """Plan a request to a family from public facts alone; nothing is charged.

        Only a plan of this session can be given to `answer`.
        """
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
        """Charge and answer a plan of `prepare`.

        With a `gate` the answer is attacked before it is returned.
        """
        asker_of = self._asker_of
        return self._session.run(family, prepared, asker_of, request_id=request_id, gate=gate)

    def left_after(self, prepared: Plan) -> tuple[Mapping[str, float], str]:
        """The budget that would be left after this charge, as amounts and in words."""
        return self._session.left_after(prepared, self._asker_of)

    def check_all(self, methods: Sequence[Plan]) -> list[Charged]:
        """List what several plans would charge the owner, or refuse it; nothing is charged."""
        return self._session.check_all(methods, self._asker_of)

    def owners_rows(self) -> AbstractContextManager[Dataset]:
        """The rows themselves, for the owner alone."""
        return self._session.owners_rows(self._dataset, self._asker_of)

    def _ask(self, name: str, /, *, request_id: str | None = None, **asked: object) -> Any:
        """Plan and answer a request to a family."""
        family = FAMILIES[name]
        return self.answer(family, self.prepare(family, **asked), request_id=request_id)


class Private(Questions):
    """A private table: it answers only with differential privacy, until its budget is spent.

    `sf.protect` and `vault.private(name)` return one. Every method charges the budget, except
    `plan`, `plan_synthesis`, `dry_run` and `explain`, which forecast cost and error.
    """

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

        The same request gets the stored publication again, free of charge.

        Parameters
        ----------
        kind
            The statistic, such as "histogram", "tree", "marginals" or "auto"; `sfumato publish
            --help` lists all.
        columns
            The columns to publish. Kinds for graphs, paths and itemsets take none.
        epsilon, rho
            The cost: an epsilon, or a rho of zero-concentrated privacy. Default: an epsilon of a
            tenth of the whole budget.
        delta
            The delta to spend; it allows Gaussian noise where that is more accurate.
        workload
            The ranges that matter: an array (queries, columns, 2) of values with both ends
            included, or the file of a table with columns A_low and A_high for column A.
        postprocess
            Steps on the noisy counts: "nonnegative", "integer", "total". They cost nothing.
        request_id
            An id of your choice that makes a retry safe: the same id and request give the same
            answer and are charged once. Another request under the same id is refused.
        attacks
            Whether to attack the release before it is returned; the owner reads the result in
            `findings`. Default: only if `require` or `publish_findings` is given.
        require
            The largest success that attacks may have, such as `"link<0.05"`. A release that exceeds
            it is refused, and the charge stays.
        publish_findings
            Whether the release itself states what the attacks found.
        **options
            The options of the kind; `sfumato publish KIND --help` lists them.

        Returns
        -------
        Published
            The noisy `tables` with their `error`; `ranges` estimates counts in ranges from them.

        Raises
        ------
        ParameterError
            If the kind, a column or an option is unknown or does not fit.
        BudgetError
            If the budget left is too small.

        Example
        -------
        >>> import sfumato as sf
        >>> columns = (sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 3)),)
        >>> private = sf.protect([{"age": 2}] * 50, sf.Schema("people", columns), epsilon=1)
        >>> private.publish("histogram", columns="age", epsilon="0.5").table.column_names
        ['age', 'count']
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
        """Generate a synthetic table in the form of this one, charged to its budget.

        The same request gets the stored table again, free of charge.

        Parameters
        ----------
        request_id
            An id of your choice that makes a retry safe: the same id and request give the same
            answer and are charged once. Another request under the same id is refused.
        attacks
            Whether to attack the release before it is returned; the owner reads the result in
            `findings`. Default: only if `require` or `publish_findings` is given.
        require
            The largest success that attacks may have, such as `"link<0.05"`. A release that exceeds
            it is refused, and the charge stays.
        publish_findings
            Whether the release itself states what the attacks found.
        **asked
            The options of the synthesis, all optional:

            - `epsilon`, `rho`, `delta`: the cost, as for `publish`.
            - `method`: "auto", "aim", "mst", "privbayes", "workload" or "independent".
            - `rows`: the number of rows to draw; default: an estimate of the number in the data
              set.
            - `columns`: the columns to generate; default: all.
            - `target`: a column that models will predict from the others; its pairs are preserved
              best.
            - `workload`: sets of columns that matter, or a file with one set in each line.
            - `quantiles`: columns to bin at private quantiles instead of equal widths.
            - `weekdays`: date columns whose day of the week to preserve.
            - `child`, `key`: a data set with several rows for each person, to generate together
              with this one, and the column that links the two. `rows` is then the number of rows of
              the parent.
            - `form`: "table", "graph", "paths" or "baskets"; default: the form of the schema.
            - `nodes`, `people`: for a graph, its public number of nodes, and the data set of their
              attributes.

        Returns
        -------
        Synthesized
            The synthetic `table`, and the `model` that draws more rows without further cost.

        Raises
        ------
        ParameterError
            If a column or an option is unknown or does not fit.
        BudgetError
            If the budget left is too small.

        Example
        -------
        >>> import sfumato as sf
        >>> columns = (sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 3)),)
        >>> private = sf.protect([{"age": 2}] * 50, sf.Schema("people", columns), epsilon=1)
        >>> private.synthesize(method="independent", rows=10, epsilon="0.5").table.num_rows
        10
        """
        gate = _gate(require, attacks, publish_findings)
        family = FAMILIES["synthesize"]
        request = self.prepare(family, **asked)
        synthesized: Synthesized = self.answer(family, request, request_id=request_id, gate=gate)
        return synthesized

    def plan_synthesis(self, **asked: Unpack[SynthesisOptions]) -> SynthesisForecast:
        """Forecast the error of `synthesize` by each method; nothing is charged.

        Parameters
        ----------
        **asked
            The options of `synthesize`.

        Returns
        -------
        SynthesisForecast
            `text()` prints it; `to_json()` is for programs.
        """
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
        """Train a model, charged to the table's budget.

        The same request gets the stored model again, free of charge.

        Parameters
        ----------
        kind
            The model, such as "logistic", "linear", "tree" or "kmeans"; `sfumato learn --help`
            lists all.
        features
            The columns to learn from. Their bounds are those that the schema declares, never those
            of the rows.
        target
            The column to predict, if the kind has one.
        epsilon, rho
            The cost: an epsilon, or a rho of zero-concentrated privacy. Default: an epsilon of a
            tenth of the whole budget.
        delta
            The delta to spend; it allows Gaussian noise where that is more accurate.
        request_id
            An id of your choice that makes a retry safe: the same id and request give the same
            answer and are charged once. Another request under the same id is refused.
        **options
            The options of the kind; `sfumato learn KIND --help` lists them.

        Returns
        -------
        LearnedModel
            `predict` and `score` use it; `save` writes it as JSON.

        Raises
        ------
        ParameterError
            If the kind, a column or an option is unknown or does not fit.
        BudgetError
            If the budget left is too small.

        Example
        -------
        >>> import sfumato as sf
        >>> columns = (
        ...     sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 9)),
        ...     sf.Column("smoker", sf.Kind.BOOLEAN),
        ... )
        >>> rows = [{"age": n % 10, "smoker": n % 10 > 4} for n in range(500)]
        >>> private = sf.protect(rows, sf.Schema("people", columns), epsilon=1)
        >>> model = private.learn("naive-bayes", features="age", target="smoker", epsilon=1)
        >>> len(model.predict([[1], [8]]))
        2
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
        """Run a program on blocks of rows and release a private aggregate of its outputs.

        A sandbox calls the program with the rows of one block at a time, as a pyarrow table. It is
        tried on synthetic rows before anything is charged. No output of a single block leaves the
        vault.

        Parameters
        ----------
        program
            A Python function that uses nothing from outside its body, or the path of a file with
            the `function`. It returns one number or several.
        output
            The range of each number: `[(0, 100), ...]`. Values outside are moved to its ends.
        epsilon
            The cost. Default: a tenth of the whole budget.
        function
            The name of the function in the file.
        request_id
            An id of your choice that makes a retry safe: the same id and request give the same
            answer and are charged once. Another request under the same id is refused.
        **asked
            The options of the run, all optional:

            - `blocks`: the number of blocks.
            - `people`: the public number of people, from which the number of blocks is chosen.
            - `repeats`: how many blocks each person is in.
            - `aggregate`: "mean" or "median" of all blocks.
            - `ranges`: "tight" (the ranges of `output` as they are), "loose", or "helper" with a
              `helper`, a function of the program.
            - `columns`: the columns that the program sees; default: all except identifiers.
            - `seconds`: the time limit of one block. The answer waits for all of them, so that its
              time tells nothing about a block.
            - `language`: "python" or "starlark"; default: by the extension of the file.

        Returns
        -------
        ProgramAnswer
            The aggregated numbers (`values`) and their `errors`.

        Raises
        ------
        ParameterError
            If an option does not fit, or the program failed on synthetic rows.
        BudgetError
            If the budget left is too small.
        PolicyError
            If the owner has not approved the program.
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
        """Try the program of `run` on synthetic rows and forecast its cost; nothing is charged.

        The parameters are those of `run`.
        """
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
        from sfumato.methods.programs.source import text_of  # only programs need it

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
        """List the ranges that hold more rows than a threshold (sparse vector technique).

        Only hits use up the cost, so that many ranges below the threshold cost no more than few.

        Parameters
        ----------
        columns
            The columns that the ranges are over.
        workload
            The ranges, as for `publish`.
        threshold
            A range is a hit if its noisy count is larger. A whole number.
        at_most
            Stop after this many hits; the cost pays for so many. Default: 1.
        epsilon, rho
            The cost: an epsilon, or a rho of zero-concentrated privacy. Default: an epsilon of a
            tenth of the whole budget.
        delta
            The delta to spend; it allows Gaussian noise where that is more accurate.
        request_id
            An id of your choice that makes a retry safe: the same id and request give the same
            answer and are charged once. Another request under the same id is refused.

        Returns
        -------
        Published
            A row for each range that was compared, with whether it is a hit.

        Raises
        ------
        ParameterError
            If a column is unknown or the ranges do not fit it.
        BudgetError
            If the budget left is too small.
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
        """Begin a stream of counts about people of this table; its whole cost is charged at once.

        `step` of the stream takes the rows of one period, or their counts, and returns the noisy
        count so far. A stream lives in this process; a feed of a vault takes the same parameters
        and outlives it.

        Parameters
        ----------
        method
            "auto", "tree", "honaker" or "root".
        periods
            The number of periods; by default the stream has no end.
        window
            Count only the last so many periods.
        days
            The largest number of periods in which one person counts; further ones are left out.
        by
            Count for each declared value of this column.
        epsilon, rho
            The cost: an epsilon, or a rho of zero-concentrated privacy. Default: an epsilon of a
            tenth of the whole budget.
        delta
            The delta to spend; it allows Gaussian noise where that is more accurate.
        **options
            The options of the method.

        Returns
        -------
        Stream
            The stream, before its first step.
        """
        from sfumato.vault.streams import begin_stream  # only streams need it

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
        """Plan a publication: the choices and the expected error; nothing is charged.

        Parameters
        ----------
        kind, columns, **asked
            As for `publish`.

        Returns
        -------
        Publication
            The plan; `publish_planned` publishes it, `explain()` forecasts its error.
        """
        publication = self._planned(FAMILIES["publish"], kind=kind, columns=columns, **asked)
        return cast("Publication", publication)

    def publish_planned(
        self, publication: Publication, *, request_id: str | None = None
    ) -> Published:
        """Publish a plan of `plan`, charged to the table's budget.

        Parameters
        ----------
        publication
            What `plan` of this table returned.
        request_id
            An id that makes a retry safe, as for `publish`.

        Raises
        ------
        ParameterError
            `plan_foreign` if the plan is of another table.
        """
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
        except SfumatoError:  # `repr` must not raise, also not for a closed vault
            remaining = "of a vault that is closed"
        return Card(
            f"{self._dataset}, {remaining}; columns {', '.join(columns)}",
            {"Budget": remaining, "Unit": declared.unit.sentence()},
            declared.schema.listed(),
        )

    @property
    def schema(self) -> Schema:
        """The declared schema, which is public."""
        return self._session.facts(self._asker_of, self._dataset).declared.schema

    @property
    def usual_epsilon(self) -> Fraction:
        """The cost of a request that names no cost."""
        return self._session.facts(self._asker_of, self._dataset).usual((self._dataset,))

    @property
    def largest_epsilon(self) -> Fraction:
        """The largest epsilon that one request of this principal may cost."""
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
        """The largest epsilon, delta and rho that one more request may cost."""
        amounts, _ = self._session.left((self._dataset,), self._asker_of)
        return amounts


def _gate(
    require: Sequence[str] | str, attacks: bool | None, publish_findings: bool
) -> ReleaseGate | None:
    """The gate that attacks a release before it is returned; None where nothing asks for it."""
    attacks = arguments.maybe_flag(attacks, "attacks")
    publish = arguments.flag(publish_findings, "publish_findings")
    if not (attacks or publish or require):
        return None
    from sfumato.attack.requirements import attacks_wanted  # slow to import; only for attacks
    from sfumato.vault.release_attacks import ReleaseGate

    gate = ReleaseGate.asked(require, publish=publish)
    is_wanted = attacks_wanted(attacks, gate.requirements, publish=publish, off="attacks=False")
    return gate if is_wanted else None
