"""Open candidates for a release, attack each, measure its utility, and compare them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.anonymize.measure import is_anatomy, measure
from sfumato.attack.case import Case, HeldRelease
from sfumato.attack.comparison.binned_counts import CountedRows, bins_of, published_counts
from sfumato.attack.comparison.result import Candidate, Comparison
from sfumato.attack.comparison.utility import Yardstick
from sfumato.attack.finding import Findings
from sfumato.attack.join import NAME as JOIN
from sfumato.attack.minimality import NAME as MINIMALITY
from sfumato.attack.minimality import asked_of
from sfumato.attack.options import AttackOptions
from sfumato.attack.published_counts import PUBLISHED, price, published_tables
from sfumato.attack.registry import ANSWER_ATTACKS, ATTACKS, run_all
from sfumato.attack.runner import held_people, held_release, throw_away, unread_sidecar
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import load
from sfumato.errors import CallerError, ParameterError, SchemaError, in_fields, option
from sfumato.filesystem import Scratch, temporary_folder
from sfumato.release.files_in_use import source_files
from sfumato.release.open_table import Table, source_of
from sfumato.release.release import Release
from sfumato.release.sidecar import read_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.attack.case import HeldTable
    from sfumato.attack.comparison.binned_counts import ColumnBins, Countable
    from sfumato.attack.published_counts import PublishedTable
    from sfumato.data.engines.sources import Source

    Progress = Callable[[float, float], None]
    Candidates = Sequence[Source | Table | Release] | Mapping[str, Source | Table | Release]


COMPARED = tuple(one for one in ATTACKS if one not in {*ANSWER_ATTACKS, "composition", JOIN})
"""The attacks on one release; the others attack answers, or two tables at once."""


_PRIVATE = "differential privacy"


_NO_L = "no side-car says that l-diversity was required."


_NO_ROWS = "the release has counts and no rows to look people up in."


_MEASURED = ("loss", "precision", "discernability", "suppressed")
"""Costs of rows with labels, shown beside the utility that every candidate has."""


def compare(
    candidates: Candidates,
    original: Source | Table,
    schema: str | Path | Schema | None = None,
    *,
    known: Source | Table | None = None,
    control: Source | Table | None = None,
    synthetic: Sequence[str] | str = (),
    progress: Progress | None = None,
) -> Comparison:
    """Compare candidates for a release: what attackers learn from each, and how useful it is.

    Nothing is charged. The result is computed from the original, so it is for the owner only.

    Parameters
    ----------
    candidates
        Paths, tables or releases. A mapping gives them names; otherwise files are named by their
        stem.
    original
        The table that the candidates were made from.
    schema
        The schema of the original, or its file. Leave it out if the original is an open table.
    known
        An attacker's list of people. Each candidate is also joined with it.
    control
        People like those of the original who are not in it. With them, attacks that are often right
        about anybody can be judged.
    synthetic
        Names or paths of candidates with synthetic rows, if no side-car says so.
    progress
        Called with the number of candidates that are done, as a float, and the number of all.

    Returns
    -------
    Comparison
        The candidates with risk and utility, and the best trade-offs (`frontier`).

    Raises
    ------
    ParameterError
        If there is no candidate, a name is unknown, or the original has no rows.
    SchemaError
        If no column of the original can be counted in the candidates.

    Example
    -------
    >>> import sfumato as sf
    >>> comparison = sf.compare(
    ...     ["k5.csv", "k20.csv"], original="people.csv", schema="people.toml"
    ... )  # doctest: +SKIP
    >>> comparison.frontier[0].name  # doctest: +SKIP
    """
    declared = _read_schema(original, schema)
    people = source_of(original)
    if people is None:
        raise ParameterError(
            "parameter_type_wrong",
            "original must be a table or a path, not None. Give the original.",
            parameter="original",
        )
    beside = {"known": source_of(known), "control": source_of(control)}
    made_up = arguments.names(synthetic, "synthetic", "candidates") if synthetic else ()
    return compare_releases(
        candidates, people, declared, **beside, synthetic=made_up, progress=progress
    )


def compare_releases(
    candidates: Candidates,
    original: Source,
    declared: Schema | Path,
    *,
    known: Source | None = None,
    control: Source | None = None,
    synthetic: Sequence[str] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Compare candidates for a command, which has a schema or its file."""
    schema = load(declared) if isinstance(declared, Path) else declared
    with ExitStack() as opened:
        people = opened.enter_context(held_people(original, schema))
        listed, strangers = (
            None if source is None else opened.enter_context(held_people(source, schema))
            for source in (known, control)
        )
        joined = None if known is None else opened.enter_context(held_release(known, schema))
        asked = ComparedOriginal(schema, people, listed, strangers, original, joined)
        return compare_held(candidates, asked, progress, synthetic)


def compare_held(
    candidates: Candidates,
    original: ComparedOriginal,
    progress: Progress | None = None,
    synthetic: Sequence[str] = (),
) -> Comparison:
    """Compare candidates with an original that is open."""
    named, schema, people = _name_candidates(candidates), original.schema, original.people
    made_up = _made_up(named, synthetic)
    if people.empty:
        raise ParameterError(
            "attack_cannot_run",
            "The original has no rows, so nothing can be compared with it. Give "
            f"{option('original')} a table with rows.",
        )
    with ExitStack() as opened:
        scratch = opened.enter_context(Scratch(temporary_folder(), "sfumato-"))
        entries = [
            opened.enter_context(
                _open_candidate(name, candidate, schema, scratch, synthetic=name in made_up)
            )
            for name, candidate in named
        ]
        columns, remarks = _bins(schema, people, entries)
        yardstick = Yardstick(CountedRows(HeldRelease(people)), columns)
        compared = []
        for number, entry in enumerate(entries):
            report_progress = (
                None if progress is None else partial(_report_step, progress, number, len(entries))
            )
            compared.append(original.candidate(entry, yardstick, report_progress))
        rows = people.counted([columns[0].column.name]).total
        sources = [original.source, *(entry.source for entry in entries)]
        files = [file for source in sources if source is not None for file in source_files(source)]
    names = tuple(column.column.name for column in columns)
    return Comparison(tuple(compared), rows, names, tuple(remarks), tuple(files))


def _report_step(
    progress: Progress, entry_number: int, of: int, steps_done: float, total: float
) -> None:
    progress(entry_number + steps_done / total, of)


def _read_schema(original: Source | Table, schema: str | Path | Schema | None) -> Schema:
    if isinstance(original, Table):
        if schema is not None:
            raise ParameterError(
                "options_conflict",
                "An open table already has a schema, and a second one cannot be used. Leave "
                f"{option('schema')} out.",
            )
        return original.declared or original.schema
    if schema is None:
        raise ParameterError(
            "schema_missing",
            "The columns of the original must be declared. Give schema='people.toml' or an "
            "sf.Schema, or open the original with sf.read first.",
        )
    return schema if isinstance(schema, Schema) else load(arguments.path(schema, "schema"))


def _name_candidates(candidates: Candidates) -> list[tuple[str, Source | Release]]:
    """Give each candidate a unique name: the given one, or the stem of its file."""
    if isinstance(candidates, Mapping):
        pairs = [
            (arguments.text(name, "A name"), candidate) for name, candidate in candidates.items()
        ]
    elif isinstance(candidates, list | tuple):
        pairs = [
            (_candidate_name(candidate, number), candidate)
            for number, candidate in enumerate(candidates, start=1)
        ]
    else:
        raise ParameterError(
            "parameter_type_wrong",
            "candidates must be a list of releases, tables or paths, such as [a, b], not "
            f"{arguments.shown(candidates)}.",
            parameter="candidates",
            given=arguments.shown(candidates),
        )
    if not pairs:
        raise ParameterError(
            "comparison_impossible", "Nothing is compared. Name at least one release."
        )
    names: list[str] = []
    for name, _ in pairs:
        namesakes = sum(source.partition(" (")[0] == name for source in names)
        names.append(f"{name} ({namesakes + 1})" if name in names else name)
    sources = []
    for name, (_, source) in zip(names, pairs, strict=True):
        held = source if isinstance(source, Release) else source_of(source)
        if held is None:
            raise ParameterError(
                "parameter_type_wrong",
                f"{name} must be a release, a table or a path, not None.",
                parameter=name,
            )
        sources.append((name, held))
    return sources


def _made_up(named: Sequence[tuple[str, Source | Release]], synthetic: Sequence[str]) -> set[str]:
    """Return the names of candidates that the owner calls synthetic, by name or by path."""
    synthetic_names = set()
    for asked in synthetic:
        mine = [name for name, candidate in named if asked in (name, str(candidate))]
        if not mine:
            raise ParameterError(
                "parameter_out_of_range",
                f"{option('synthetic', True)} names {quoted(asked)}, which is none of the "
                "candidates; " + suggestion(asked, [name for name, _ in named]),
                parameter="synthetic",
            )
        synthetic_names |= {*mine}
    return synthetic_names


def _candidate_name(candidate: object, position: int) -> str:
    source = candidate.source if isinstance(candidate, Table) else candidate
    if isinstance(source, str | Path):
        text = str(source)
        return text.rpartition("#")[2] if "://" in text else Path(text).stem or text
    return f"candidate {position}"


@dataclass(frozen=True, eq=False)
class _Entry:
    """An open candidate: rows to attack and to count, or counts alone."""

    name: str
    source: Source
    sidecar: Mapping[str, Any] | None
    counts: Countable
    rows: HeldRelease | None
    published: Sequence[PublishedTable] = ()

    @property
    def path(self) -> str:
        return str(self.source) if isinstance(self.source, str | Path) else self.name

    @property
    def guarantee(self) -> Mapping[str, Any]:
        return {} if self.sidecar is None else self.sidecar["guarantee"]

    @property
    def promised(self) -> tuple[float, float] | None:
        """The epsilon and delta of its guarantee."""
        return price(self.guarantee.get("parameters") or {})

    @property
    def is_private(self) -> bool:
        """Whether rows are synthetic, or counts are noisy."""
        made_up = self.rows is not None and self.rows.rows_are == "synthetic"
        return made_up or self.guarantee.get("kind") == _PRIVATE


@contextmanager
def _open_candidate(
    name: str, candidate: Source | Release, schema: Schema, scratch: Path, *, synthetic: bool
) -> Iterator[_Entry]:
    if isinstance(candidate, Release):
        # A release in memory is saved, so that all candidates are read in the same way.
        folder = scratch / str(len(list(scratch.iterdir())))
        folder.mkdir()
        *_, beside = candidate.save(folder / "release.parquet")
        source: Source = beside.parent if len(candidate.tables) > 1 else folder / "release.parquet"
    else:
        source = candidate
    sidecar = _sidecar(source)
    if sidecar is not None and str(sidecar["provenance"]["method"]).startswith(PUBLISHED):
        release = Release.load(Path(str(source)))
        tables = published_tables(release, schema)
        yield _Entry(name, source, sidecar, published_counts(release, schema), None, tables)
        return
    with held_release(source, schema, synthetic=synthetic) as held:
        yield _Entry(name, source, sidecar, CountedRows(held), held)


def _sidecar(source: Source) -> dict[str, Any] | None:
    if not isinstance(source, str | Path) or "://" in str(source):
        return None
    return read_sidecar(Path(source))


def _bins(
    schema: Schema, people: HeldTable, entries: Sequence[_Entry]
) -> tuple[list[ColumnBins], list[str]]:
    """Return the bins of columns, the same for all candidates, and remarks about the others."""
    apart = schema.unit.column
    compared = [
        column
        for column in people.columns
        if column.role is not Role.IDENTIFIER and column.name != apart
    ]
    bins, remarks = [], []
    for column in compared:
        labels = [label for entry in entries for label in entry.counts.labels(column.name)]
        try:
            bins.append(bins_of(column, labels, people.counted([column.name])))
        except SchemaError as error:
            remarks.append(f"{column.name} is not counted: {in_fields(error)}")
    if not bins:
        raise SchemaError(
            "comparison_impossible",
            "No column of the original can be counted in the candidates. "
            + (remarks[0] if remarks else "All of them are identifiers; declare other roles."),
        )
    return bins, remarks


@dataclass(frozen=True, eq=False)
class ComparedOriginal:
    """The original, and the other tables that candidates are compared with.

    With `source`, k, l and t of candidates are measured against the original. `joined` is the list
    of people as a table to join with.
    """

    schema: Schema
    people: HeldTable
    known: HeldTable | None = None
    control: HeldTable | None = None
    source: Source | None = None
    joined: HeldRelease | None = None

    def candidate(
        self, entry: _Entry, yardstick: Yardstick, progress: Progress | None
    ) -> Candidate:
        """Attack and measure one candidate."""
        guarantee = entry.guarantee
        epsilon, delta = entry.promised or (None, None)
        reached = self._measure_candidate(entry)
        reached["remarks"] = (*unread_sidecar(entry.source), *reached.get("remarks", ()))
        return Candidate(
            name=entry.name,
            path=entry.path,
            kind=_kind(entry),
            guarantee=guarantee.get("statement"),
            epsilon=epsilon,
            delta=delta,
            findings=self._attack_candidate(entry, progress),
            utility=yardstick.measure(entry.counts),
            **reached,
        )

    def _attack_candidate(self, entry: _Entry, progress: Progress | None) -> Findings:
        held = entry.rows or HeldRelease(
            self.people,
            rows_are="counts",
            published=entry.published,
            promised=entry.promised,
        )
        case = Case(
            self.schema,
            held,
            self.known,
            self.people,
            self.joined,
            self.control,
            AttackOptions(),
            throw_away,
        )
        names = [*COMPARED, *([] if self.joined is None else [JOIN])]
        if entry.rows is None:
            on_counts = [name for name in names if ATTACKS[name].on_counts]
            findings = run_all(case, progress, names=on_counts)
            silent = dict.fromkeys([name for name in names if name not in on_counts], _NO_ROWS)
            return Findings(findings.findings, {**silent, **findings.refusals})
        # Minimality reasons from a required l-diversity, so it fits only where one was required.
        if any(asked_of(entry.rows.provenance, column.name) for column in case.sensitive):
            return run_all(case, progress, names=names)
        findings = run_all(case, progress, names=[name for name in names if name != MINIMALITY])
        return Findings(findings.findings, {MINIMALITY: _NO_L, **findings.refusals})

    def _measure_candidate(self, entry: _Entry) -> dict[str, Any]:
        """Measure k, l and t of a candidate; synthetic rows and counts have none."""
        if entry.rows is None or entry.is_private or self.source is None:
            return {}
        try:
            measured = measure(entry.source, self.schema, original=self.source)
        except CallerError as error:
            return {"remarks": (f"k, l and t are not known: {in_fields(error)}",)}
        of_values = measured.sensitive.values()
        figures = {name: measured.cost.get(name) for name in _MEASURED}
        return {
            "k": measured.k,
            "l": min((of_value["distinct"] for of_value in of_values), default=None),
            "t": max((of_value["t_equal"] for of_value in of_values), default=None),
            "figures": {
                "rows": measured.rows,
                **{name: float(figure) for name, figure in figures.items() if figure is not None},
            },
        }


def _kind(entry: _Entry) -> str:
    if entry.rows is None:
        return "counts with noise"
    if entry.is_private:
        return "synthetic rows"
    return "two tables" if is_anatomy(entry.source) else "rows"
