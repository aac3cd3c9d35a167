"""What a steward does with an open table, whatever it was read from: measure, ask, release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, cast

from sfumato import arguments
from sfumato.data.schema.names import count
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.criteria.closeness import Distance
    from sfumato.anonymize.criteria.request import Diversity
    from sfumato.anonymize.measure import TableMeasures
    from sfumato.anonymize.pipeline import Algorithm, CostName
    from sfumato.anonymize.worlds import AnswerBounds
    from sfumato.attack.finding import Finding, Findings
    from sfumato.attack.options import AttackKeywords
    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.schema import Schema
    from sfumato.exact_numbers import Number
    from sfumato.release.open_table import Table
    from sfumato.release.release import Release

    Progress = Callable[[float, float], None]


class TableActions(Shown):
    """The methods of a table; what it is stands in `steward.table`."""

    engine: Engine
    schema: Schema
    reasons: tuple[str, ...]
    source: Source
    declared: Schema | None
    warnings: Mapping[str, tuple[str, ...]]

    @property
    def _held(self) -> Table:
        return cast("Table", self)

    def measure(
        self,
        *,
        original: Source | Table | None = None,
        population: Source | Table | None = None,
        workload: Sequence[str] | str | Path | None = None,
    ) -> TableMeasures:
        """Measure k, every l and t, and all costs of it, alone or against its original.

        Against a population too, and by a `workload` of questions in SQL, or a file of them, which
        tells how far off their answers are.
        """
        from sfumato.anonymize.measure import measure, read_questions

        if isinstance(workload, str | Path):
            workload = read_questions(arguments.path(workload, "workload"))
        elif workload is not None:
            workload = arguments.names(workload, "workload", "questions")
        return measure(
            self.source,
            self.declared or self.schema,
            original=source_of(original),
            population=source_of(population),
            workload=workload,
        )

    def worlds(self, sql: str, *, labels: Literal["public", "tight"] = "public") -> AnswerBounds:
        """Answer a question over all tables that this release may stand for.

        With tight `labels`, both ends of a range are known to occur.
        """
        from sfumato.anonymize.measure import bound

        known = self.declared or self.schema
        return bound(self.source, arguments.text(sql, "sql"), known, labels=labels)

    def attack(
        self,
        name: str = "all",
        *,
        known: Source | Table | None = None,
        original: Source | Table | None = None,
        other: Source | Table | None = None,
        other_original: Source | Table | None = None,
        control: Source | Table | None = None,
        schema: str | Path | Schema | None = None,
        synthetic: bool = False,
        sensitive: str | None = None,
        sure: float = 1.0,
        exclude: int = 1,
        gain: float = 2.0,
        near: float = 0.25,
        l: int | None = None,  # noqa: E741  # the literature's own name
        population_size: int | None = None,
        **supposed: Unpack[AttackKeywords],
    ) -> Finding | Findings:
        """Attack it as its owner: how often is an attacker right, how often would a guess be?

        `known` is the attacker's list of people, `other` a second release of them or a table to
        join with; `original`, the table that it was made from (`other_original` that of the other
        one), says who is right, and `control` has people who are not in it. What columns are is
        said by the `schema`, else by the one that this table was read with, else by the original.
        Rows of a `synthetic` table are nobody's; its side-car says so, where there is one.
        Guessed is the worst `sensitive` column, or the one named. The rest is supposed of an
        attacker: to be `sure` of a value from a belief on, to `exclude` so many, to call a belief
        that grows by `gain` telling and numbers in a share of the range `near`; to know the `l`
        that was asked for, and the `population_size`; and what `AttackKeywords` says.
        """
        from sfumato.attack.options import attack_options
        from sfumato.attack.runner import attack

        return attack(
            name,
            self.source,
            schema if schema is not None else self.declared or known_of(original, self._held),
            known=source_of(known),
            original=source_of(original),
            other=source_of(other),
            other_original=source_of(other_original),
            control=source_of(control),
            synthetic=arguments.flag(synthetic, "synthetic"),
            options=attack_options(
                sensitive=sensitive,
                sure=sure,
                exclude=exclude,
                gain=gain,
                near=near,
                l=l,
                population_size=population_size,
                **supposed,
            ),
        )

    def anonymize(
        self,
        *criteria: Criterion,
        k: int | None = None,
        m: int | None = None,
        l: int | None = None,  # noqa: E741  # the literature's own name
        diversity: Diversity | None = None,
        c: Number | None = None,
        t: Number | None = None,
        distance: Distance | None = None,
        delta_disclosure: Number | None = None,
        beta: Number | None = None,
        presence: str | tuple[Number, Number] | None = None,
        sensitive: Sequence[str] | str = (),
        population: Source | Table | None = None,
        algorithm: Algorithm | str = "optimal",
        cost: CostName | str | None = None,
        suppress: Number = 0,
        suppressed: Literal["drop", "star"] = "drop",
        refine: bool = False,
        weights: Mapping[str, float] | None = None,
        limit_seconds: Number | None = None,
        progress: Progress | None = None,
        advice: bool = False,
        by: str | None = None,
        attacks: bool | None = None,
        require: Sequence[str] | str = (),
        publish_findings: bool = False,
    ) -> Release:
        """Release it in a syntactic form that satisfies criteria, given as objects or by number.

        `k=5` is sf.KAnonymity(5), or sf.KMap(5) where a `population` is given to hide in. `l`, `t`,
        `beta` and `delta_disclosure` are asked of every `sensitive` column, by default of all that
        are declared so; `presence` is two shares of the population. `suppress` is the share of rows
        that may be left out, such as 0.02 or "2%". With `advice` the holder learns what else would
        lose less, with `attacks` what these still get; what breaks a rule of `require`, such as
        "link<0.05", is refused. `by` is who made it. `.table` and `.save` make the same rows.
        Of a table of items, who knows `m` of a basket finds `k` that fit; see the guide of sets.
        """
        from sfumato.anonymize.criteria.request import CriteriaRequest
        from sfumato.anonymize.pipeline import decide

        numbers = CriteriaRequest(
            k=k, l=l, diversity=diversity, c=c, t=t, distance=distance, beta=beta,
            delta_disclosure=delta_disclosure, presence=presence, population=population is not None,
        )  # fmt: skip
        looking = {"algorithm": algorithm, "cost": cost, "weights": weights, "refine": refine}
        leaving = {"sensitive": sensitive, "suppress": suppress, "suppressed": suppressed}
        timing = {"limit_seconds": limit_seconds, "progress": progress}
        telling = {"advice": arguments.flag(advice, "advice"), "by": arguments.maybe_text(by, "by")}
        options: dict[str, Any] = {**looking, **leaving, **timing, **telling}
        options |= {"attacks": attacks, "require": require, "publish_findings": publish_findings}
        if m is not None:
            return _of_items(self._held, k, m, {"criteria": criteria, "l": l, "t": t, **options})
        decided = decide(self._held, criteria, numbers, population=source_of(population), **options)
        return decided.release()

    def save_schema(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write its schema to a TOML file, each column with the reason for its role."""
        from sfumato.release.open_table import save_schema

        save_schema(
            self._held,
            arguments.path(path, "path"),
            overwrite=arguments.flag(overwrite, "overwrite"),
        )

    def _card(self) -> Card:
        """What is declared and where it lies; its rows are not looked at."""
        columns = self.schema.columns
        rows = [
            (one.name, str(one.kind), str(one.role), reason)
            for one, reason in zip(columns, self.reasons, strict=True)
        ]
        return Card(
            f"{self.schema.table}, {count(len(columns), 'column')}, from {_from(self.source)}",
            {"Unit": self.schema.unit.sentence()},
            CardTable(("Column", "Kind", "Role", "Reason"), rows),
            [one for told in self.warnings.values() for one in told],
        )

    def close(self) -> None:
        """Let go of the engine, once no release is there whose rows it makes."""
        from sfumato.anonymize.result import close_after_use

        close_after_use(self.engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _from(source: Source) -> str:
    """Where a table comes from, in words."""
    if isinstance(source, str | Path):
        return without_passwords(str(source))
    library = type(source).__module__.partition(".")[0].removeprefix("builtins")
    return f"a {f'{library} {type(source).__name__}'.strip()} in memory"


def known_of(original: Source | Table | None, release: Table) -> Schema | None:
    """What columns are by an original, else by a release of which nothing was declared.

    Labels would be guessed to be values of their own; None where the original is still to be read.
    """
    if original is None:
        return release.schema
    return original.declared or original.schema if isinstance(original, TableActions) else None


def source_of(table: Source | Table | None) -> Source | None:
    """Where a table comes from that is given open, or as it lies."""
    if isinstance(table, str | Path):
        arguments.path(table, "A source")
    return table.source if isinstance(table, TableActions) else table


def _of_items(table: Table, k: int | None, m: int, asked: dict[str, Any]) -> Release:
    """The release of a table of items, by what is asked of one."""
    from sfumato.anonymize.itemsets import anonymize_items

    algorithm = asked.pop("algorithm")
    usual = {"suppressed": "drop", "progress": asked["progress"]}
    taken = {name: asked.pop(name) for name in ("suppress", "by")}
    ignored = {name: one for name, one in asked.items() if one != usual.get(name)}
    search = "apriori" if algorithm == "optimal" else algorithm
    return anonymize_items(table, k=k, m=m, algorithm=search, ignored=ignored, **taken)
