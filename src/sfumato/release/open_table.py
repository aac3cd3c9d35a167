"""An open table: its source and schema, and the operations of its owner.

A malformed cell is refused or read as missing: decision `malformed-cells`.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np

from sfumato import arguments
from sfumato.data.counting.frequencies import count_held
from sfumato.data.engines.base import close_after_use, everything
from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.kinds import check_cells
from sfumato.data.engines.sources import open_source
from sfumato.data.files.formats import separator_hint
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout
from sfumato.data.schema.names import count, quoted, suggestion
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import load, save
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.filesystem import check_apart
from sfumato.release.files_in_use import hierarchy_files, source_files, vault_files_around
from sfumato.release.released_table import described, open_labels, released_rows
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.criteria.closeness import Distance
    from sfumato.anonymize.criteria.request import Diversity
    from sfumato.anonymize.measure import TableMeasures
    from sfumato.anonymize.pipeline import Algorithm, CostName
    from sfumato.anonymize.worlds import AnswerBounds
    from sfumato.attack.finding import Finding, Findings
    from sfumato.attack.options import AttackKeywords
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.sources import Source
    from sfumato.data.inspection import Inspection
    from sfumato.exact_numbers import Number
    from sfumato.release.release import Release

    Progress = Callable[[float, float], None]


@dataclass(frozen=True, repr=False)
class Table(Shown):
    """A source opened in an engine, with its schema. `sf.read` opens one.

    Use it in a `with` block, or call `close`.

    Attributes
    ----------
    engine
        The engine that has the rows.
    schema
        The columns, declared or guessed, and the privacy unit.
    reasons
        For each column why it has its kind and role.
    starred, released
        Whether the table is a release, and whether it has blank suppressed rows.
    files
        The files that it is read from and described by, which no output may overwrite.
    source, declared
        The opened source, and the declared schema; for a release that of its original.
    warnings
        What the owner should know about guessed columns, by their name.
    seen
        Without a declaration: the schema with all that the owner could declare.

    Example
    -------
    >>> import sfumato as sf
    >>> with sf.read({"age": [23, 24], "illness": ["flu", "cold"]}) as people:
    ...     [column.name for column in people.schema.columns]
    ['age', 'illness']
    """

    engine: Engine
    schema: Schema
    reasons: tuple[str, ...]
    starred: bool = False
    files: tuple[Path, ...] = ()
    released: bool = False
    source: Source = field(default=(), repr=False, compare=False)
    declared: Schema | None = field(default=None, repr=False, compare=False)
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    seen: Schema | None = field(default=None, repr=False, compare=False)

    @property
    def layout(self) -> FileLayout:
        """The layout of its file: declared, or detected in the file."""
        return self.engine.layout if isinstance(self.engine, DuckDB) else DEFAULT_LAYOUT

    def inspect(
        self, *, population: Source | Table | None = None, progress: Progress | None = None
    ) -> Inspection:
        """Measure its risk: unique people, revealing columns, and chances of re-identification.

        The result is computed from the rows, so it is for the owner only.

        Parameters
        ----------
        population : path, table or frame, optional
            The table of the population from which the rows were drawn. With it, the risk from an
            attacker who looks for anybody of the population is exact.
        progress : callable, optional
            Called with the work done and the work in all.

        Returns
        -------
        Inspection

        Raises
        ------
        ParameterError
            If a population is given and the table is a release.

        Example
        -------
        >>> import sfumato as sf
        >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI)
        >>> people = sf.read({"age": [23, 24, 24]}, sf.Schema("people", (age,)))
        >>> round(people.inspect().full.unique_share, 3)
        0.333
        """
        from sfumato.data.inspection import inspect
        from sfumato.data.inspection.guesses import Guess

        people = source_of(population)
        known = None if people is None else self._counted_population(people)
        guesses = [
            Guess(column, reason, self.warnings.get(column.name, ()))
            for column, reason in zip(self.schema.columns, self.reasons, strict=True)
        ]
        unit = self.schema.unit
        with ExitStack() as views:
            table = self.engine.table
            if self.starred:
                table = views.enter_context(self.engine.view(released_rows(self.engine)))
            return inspect(
                self.engine, table, guesses, progress=progress, person=unit.column, population=known
            )

    def _counted_population(self, source: Source) -> Frequencies:
        if self.released:
            raise ParameterError(
                "table_is_release",
                "This table is a release, and inspect cannot compare its labels with a population. "
                f"Use measure with its schema and {option('population')}.",
            )
        with closing(read_population(source, self.schema)) as people:
            names = [column.name for column in people.schema.columns]
            return count_held(people.engine, people.engine.table, names)

    def measure(
        self,
        *,
        original: Source | Table | None = None,
        population: Source | Table | None = None,
        workload: Sequence[str] | str | Path | None = None,
    ) -> TableMeasures:
        """Measure k, every l and t, and all costs of the table, alone or against its original.

        Parameters
        ----------
        original : path, table or frame, optional
            The table that it was made from; entropy and distributions are compared with it.
        population : path, table or frame, optional
            The public table that an attacker would link it with.
        workload : sequence of str, or path, optional
            Aggregate queries in SQL, or a file of them, to measure the error of their answers.

        Returns
        -------
        TableMeasures

        Raises
        ------
        SchemaError
            If the schema has no quasi-identifier.
        ParameterError
            If a workload is given without the original.

        Example
        -------
        >>> import sfumato as sf
        >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, hierarchy=sf.Widths((10,)))
        >>> illness = sf.Column("illness", sf.Kind.TEXT, sf.Role.SENSITIVE)
        >>> schema = sf.Schema("people", (age, illness))
        >>> rows = {"age": [23, 24, 41, 42], "illness": ["flu", "cold", "flu", "gout"]}
        >>> people = sf.read(rows, schema)
        >>> people.measure().k
        1
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
        """Bound the answer to a query over all tables that this release may stand for.

        Parameters
        ----------
        sql : str
            One COUNT, SUM, AVG, MIN or MAX with an optional WHERE.
        labels : {"public", "tight"}
            With "tight", both ends of every range are known to occur in some row.

        Returns
        -------
        AnswerBounds
            The lowest and highest answer, and an estimate between them.

        Raises
        ------
        QueryError
            If the query cannot be read, or nothing bounds its answer.

        Example
        -------
        >>> import sfumato as sf
        >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, hierarchy=sf.Widths((10,)))
        >>> illness = sf.Column("illness", sf.Kind.TEXT, sf.Role.SENSITIVE)
        >>> schema = sf.Schema("people", (age, illness))
        >>> rows = {"age": [23, 24, 41, 42], "illness": ["flu", "cold", "flu", "gout"]}
        >>> people = sf.read(rows, schema)
        >>> people.worlds("SELECT COUNT(*) FROM people WHERE age < 40").lower
        2.0
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
        """Attack the table as its owner: how often is an attacker right, and how often a guess?

        The result is computed from the original, so it is for the owner only.

        Parameters
        ----------
        name : str
            The name of an attack, such as "link", or "all" for every attack that fits.
        known : path, table or frame, optional
            The attacker's list of people.
        original : path, table or frame, optional
            The table that this release was made from; it shows which guesses are right.
        other, other_original : path, table or frame, optional
            A second release of the same people or a table to join with, and its original.
        control : path, table or frame, optional
            People like those of the original who are not in it.
        schema : path or Schema, optional
            The schema of the original. Usually the one that this table was read with.
        synthetic : bool
            Whether rows are synthetic, if no side-car says so.
        sensitive : str, optional
            The column to guess; usually the sensitive column that leaks most.
        sure : float
            The belief from which an attacker counts as certain.
        exclude : int
            The number of values that the attacker can exclude for a victim.
        gain : float
            The factor by which a belief must grow to count.
        near : float
            The share of a column's range within which numbers are similar.
        l : int, optional
            The l-diversity that was required, if no side-car has it.
        population_size : int, optional
            The number of people from whom the released ones were drawn.
        **supposed
            Assumptions about attackers of answers and of other data; see `AttackKeywords`.

        Returns
        -------
        Finding or Findings
            One finding, or for "all" every finding and the reasons why other attacks did not run.

        Raises
        ------
        ParameterError
            If the attack is unknown or does not fit the tables, or an option is out of range.

        Example
        -------
        >>> import sfumato as sf
        >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI)
        >>> illness = sf.Column("illness", sf.Kind.TEXT, sf.Role.SENSITIVE)
        >>> schema = sf.Schema("people", (age, illness))
        >>> rows = {"age": [23, 23, 41, 42], "illness": ["flu", "flu", "flu", "gout"]}
        >>> people = sf.read(rows, schema)
        >>> people.attack("homogeneity").victims
        4
        """
        from sfumato.attack.options import attack_options
        from sfumato.attack.runner import attack

        return attack(
            name,
            self.source,
            schema if schema is not None else self.declared or known_of(original, self),
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
        """Anonymize the table so that it satisfies criteria, given as objects or as numbers.

        Parameters
        ----------
        *criteria : Criterion
            Criteria as objects, such as ``sf.KAnonymity(5)``. The numbers below add to them.
        k : int, optional
            k-anonymity, or k-map with a `population`.
        m : int, optional
            For a table of items: an attacker who knows m items of a basket finds k baskets that
            have them.
        l, diversity, c : optional
            l-diversity of every sensitive column; its kind is "distinct" (usual), "entropy",
            "folk" or "recursive", which needs `c`.
        t, distance : optional
            t-closeness of every sensitive column, by the "equal" (usual), "ordered" or
            "hierarchy" distance.
        delta_disclosure, beta : optional
            delta-disclosure privacy and beta-likeness of every sensitive column.
        presence : optional
            delta-presence: two shares of the `population`, such as "0,0.5".
        sensitive : str or sequence of str
            The columns that criteria protect; usually all that are declared sensitive.
        population : path, table or frame, optional
            The public table of the population, for k-map and delta-presence.
        algorithm : str
            The search or rearrangement: "optimal", "mondrian", "anatomy" and others.
        cost : str, optional
            The cost that the search minimises; usually that of the algorithm, mostly "loss".
        suppress : number
            The largest share of rows, or people, that may be left out, such as 0.02 or "2%".
        suppressed : {"drop", "star"}
            Whether suppressed rows are left out or released blank.
        refine : bool
            Search suppressed rows again.
        weights : mapping of str to float, optional
            The weight of each quasi-identifier in the cost; 1 if not given.
        limit_seconds : number, optional
            After this time the search ends with the best release so far.
        progress : callable, optional
            Called with the work done and the work in all.
        advice : bool
            Find other options that would lose less, and list them for the holder.
        by : str, optional
            The maker of the release, for its provenance.
        attacks : bool, optional
            Attack the release, and give the findings to the holder.
        require : str or sequence of str
            Rules such as "link<0.05"; a release that breaks one is refused.
        publish_findings : bool
            Publish the findings of the attacks with the release.

        Returns
        -------
        Release
            Its rows are computed by the engine when they are first used.

        Raises
        ------
        CriterionError
            If no release satisfies the criteria.
        ParameterError
            If an option is unknown, out of range, or not used by the algorithm.
        SchemaError
            If a quasi-identifier has no hierarchy.

        Example
        -------
        >>> import sfumato as sf
        >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, hierarchy=sf.Widths((10,)))
        >>> illness = sf.Column("illness", sf.Kind.TEXT, sf.Role.SENSITIVE)
        >>> schema = sf.Schema("people", (age, illness))
        >>> rows = {"age": [23, 24, 41, 42], "illness": ["flu", "cold", "flu", "gout"]}
        >>> people = sf.read(rows, schema)
        >>> release = people.anonymize(k=2)
        >>> release.guarantee.statement
        'Every class of released rows satisfies 2-anonymity.'
        >>> release.table.to_pylist()[0]
        {'age': '20-29', 'illness': 'cold'}
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
            return _of_items(self, k, m, {"criteria": criteria, "l": l, "t": t, **options})
        decided = decide(self, criteria, numbers, population=source_of(population), **options)
        return decided.release()

    def save_schema(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the schema to a TOML file, with the reason for the role of each column.

        Parameters
        ----------
        path : str or Path
            The file to write.
        overwrite : bool
            Whether to replace an existing file.

        Raises
        ------
        OutputError
            If the file exists, is in use, or cannot be written.
        """
        save_schema(
            self,
            arguments.path(path, "path"),
            overwrite=arguments.flag(overwrite, "overwrite"),
        )

    def _card(self) -> Card:
        """Return a card of the declared columns and the source, without reading rows."""
        columns = self.schema.columns
        rows = [
            (column.name, str(column.kind), str(column.role), reason)
            for column, reason in zip(columns, self.reasons, strict=True)
        ]
        return Card(
            f"{self.schema.table}, {count(len(columns), 'column')}, from {_from(self.source)}",
            {"Unit": self.schema.unit.sentence()},
            CardTable(("Column", "Kind", "Role", "Reason"), rows),
            [warning for warnings in self.warnings.values() for warning in warnings],
        )

    def close(self) -> None:
        """Close the engine as soon as no release needs it."""
        close_after_use(self.engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(
    source: Source,
    schema: str | Path | Schema | None = None,
    *,
    strict: bool = True,
    short_texts: bool = False,
    progress: Progress | None = None,
) -> Table:
    """Open a table: a file, a database URL, or a table in memory.

    Parameters
    ----------
    source : path, URL, frame, list of records, or dict of columns
        In memory it may be a table of pandas, polars (lazy ones too), Arrow or DuckDB.
    schema : path or Schema, optional
        The declaration of the columns. Without one, kinds and roles are guessed from the cells. For
        a release it is the schema of its original, and its labels are read as labels.
    strict : bool
        Refuse a cell that is not of its declared kind, and name it. Otherwise such a cell is read
        as NULL; a protected table must be read so, because a refusal would reveal a row.
    short_texts : bool
        If a file is copied to be read, cut texts to the length that private methods read.
    progress : callable, optional
        Called with the work done and the work in all.

    Returns
    -------
    Table

    Raises
    ------
    SchemaError
        If the table does not have the declared columns and kinds.
    SourceError
        If the source cannot be read, or is a release that was changed.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.read({"age": [23, 24], "illness": ["flu", "cold"]}).schema.table
    'people'
    """
    arguments.flag(strict, "strict")
    if not (schema is None or isinstance(schema, Schema)):
        schema = arguments.require(schema, "schema", (str, Path), "a path or an sf.Schema")
    if isinstance(source, str | Path):
        arguments.path(source, "source")
    release = described(source)
    location = source if release is None else release.table
    # Suppressed rows are blank in every column: nobody can be found among them.
    starred = release is not None and release.starred
    if schema is None:
        table = _read_unknown(location, progress, ours=release is not None)
        return replace(table, starred=starred, source=source, released=release is not None)
    known = declared = schema if isinstance(schema, Schema) else load(Path(schema))
    if release is None:
        asked = {column.name: column for column in known.columns}
        engine = open_source(
            location, kinds=asked, layout=known.layout, strict=strict, short_texts=short_texts
        )
    else:
        engine, known = open_labels(location, known, strict=strict)
    try:
        check_columns(engine, known, strict=strict)
    except BaseException:
        engine.close()
        raise
    reasons = ("declared in the schema",) * len(known.columns)
    schema_file = () if isinstance(schema, Schema) else (Path(schema),)
    files = (*source_files(source), *schema_file, *hierarchy_files(known))
    return Table(engine, known, reasons, starred, files, release is not None, source, declared)


def read_population(source: Source, schema: Schema) -> Table:
    """Open the table of a population, of which only the quasi-identifiers are read."""
    if described(source) is not None:
        raise ParameterError(
            "table_is_release",
            "The population is a release, and its labels are not the values of people. Name the "
            "table that it was made from.",
        )
    return read(source, Schema(schema.table, schema.by_role(Role.QUASI), layout=schema.layout))


def _read_unknown(source: Source, progress: Progress | None, *, ours: bool) -> Table:
    from sfumato.release.undeclared_table import (
        open_unknown,  # who declares a table waits for no guesses
    )

    undeclared = open_unknown(source, progress, ours=ours)
    return Table(
        undeclared.engine,
        undeclared.schema,
        tuple(guess.reason for guess in undeclared.guesses),
        files=source_files(source),
        warnings={
            guess.column.name: guess.warnings for guess in undeclared.guesses if guess.warnings
        },
        seen=undeclared.seen,
    )


def check_columns(engine: Engine, schema: Schema, *, strict: bool = True) -> None:
    """Check that the table has the schema's columns with their kinds; other columns are ignored.

    Only a `strict` check reads cells.
    """
    # Only names and kinds are compared here, so a refusal reveals nothing about any row.
    held = engine.columns(engine.table)
    for column in schema.columns:
        if column.name not in held:
            raise SchemaError(
                "column_unknown",
                f"The table has no column {quoted(column.name)}, which its schema declares; "
                + suggestion(column.name, held),
            )
        if held[column.name] is Kind.TEXT and column.spelling is not None:
            raise SchemaError(
                "option_not_applicable",
                f"Column {quoted(column.name)} is text in a database, and the way it is written, "
                f"{column.spelling.lines}, is read in files and DuckDB only. Cast it to "
                f"{column.kind} in a view there, and name the view.",
            )
        if held[column.name] is not column.kind:
            raise SchemaError(
                "schema_differs",
                f"Column {quoted(column.name)} is declared {column.kind} but holds "
                f"{held[column.name]}. Change its kind in the schema.",
            )
    if strict:
        check_cells(engine, {column.name: column.kind for column in schema.columns})


def save_schema(table: Table, path: Path, *, overwrite: bool = False) -> None:
    """Write the schema of a table to a TOML file, with the reason for the role of each column.

    A guessed schema also has, in lines to uncomment, all that its owner could declare. The column
    that identifies people is declared without missing values, because a privacy unit needs that.
    """
    from sfumato.data.inspection.guesses import with_people

    check_apart(path, (*table.files, *vault_files_around(path)))
    names = (column.name for column in table.schema.columns)
    notes = {
        name: ". ".join(
            [reason, *(f"Warning: {warning}" for warning in table.warnings.get(name, ()))]
        )
        for name, reason in zip(names, table.reasons, strict=True)
    }
    schema = table.schema if table.seen is None else with_people(table.schema, table.seen)
    save(schema, path, overwrite=overwrite, notes=notes, seen=table.seen)


def read_workload(path: Path, declared: Sequence[Column]) -> NDArray[Any]:
    """Read ranges from a table that has `age_low` and `age_high` for a column `age`."""
    ends = [
        Column(f"{column.name}_{end}", column.kind)
        for column in declared
        for end in ("low", "high")
    ]
    # Ranges are public, so the file is read strictly.
    with closing(read(path, Schema("workload", tuple(ends)))) as table:
        rows = table.engine.run(everything(table.engine.table))
    values = [rows.column(end.name).to_pylist() for end in ends]
    return np.array(values, dtype=object).T.reshape(-1, len(declared), 2)


def file_words(table: Table, name: str) -> list[str]:
    """Describe the layout that was found in an undeclared file, for its owner to check."""
    names = [column.name for column in table.schema.columns]
    hint = separator_hint(name, names)
    return [*table.layout.describe(names), *([hint] if hint else [])]


def _from(source: Source) -> str:
    """Name the source of a table."""
    if isinstance(source, str | Path):
        return without_passwords(str(source))
    library = type(source).__module__.partition(".")[0].removeprefix("builtins")
    return f"a {f'{library} {type(source).__name__}'.strip()} in memory"


def known_of(original: Source | Table | None, release: Table) -> Schema | None:
    """Return the schema of an open original, or else the guessed one of the release.

    Returns None if the original is not open yet: its own columns are then guessed, because guesses
    from a release would take labels for values.
    """
    if original is None:
        return release.schema
    return original.declared or original.schema if isinstance(original, Table) else None


def source_of(table: Source | Table | None) -> Source | None:
    """Return the source of a table, which may be open."""
    if isinstance(table, str | Path):
        arguments.path(table, "A source")
    return table.source if isinstance(table, Table) else table


def _of_items(table: Table, k: int | None, m: int, asked: dict[str, Any]) -> Release:
    """Anonymize a table of items; refuse options that such a release does not have."""
    from sfumato.anonymize.itemsets import anonymize_items

    algorithm = asked.pop("algorithm")
    usual = {"suppressed": "drop", "progress": asked["progress"]}
    item_options = {name: asked.pop(name) for name in ("suppress", "by")}
    ignored = {name: value for name, value in asked.items() if value != usual.get(name)}
    search = "apriori" if algorithm == "optimal" else algorithm
    return anonymize_items(table, k=k, m=m, algorithm=search, ignored=ignored, **item_options)
