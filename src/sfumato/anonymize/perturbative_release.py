"""Perturbative releases: anatomy, permutation and noise on sensitive values.

All other columns are released unchanged. Decisions `partitions`, `criteria` and `what-travels`.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import ceil, isinf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.anonymize.buckets import GROUP, ReleasedCodes, alike, anatomize, deal, permute, rows_of
from sfumato.anonymize.criteria import DistinctDiversity, EntropyDiversity, FolkDiversity
from sfumato.anonymize.problem import counted_whole, person_of, pose
from sfumato.anonymize.released_classes import shared_by_all
from sfumato.anonymize.result import Anonymized
from sfumato.anonymize.search import people_unknown, run
from sfumato.anonymize.summary import (
    costs_of_untouched,
    figures_of_classes,
    figures_of_outcome,
    in_plain_words,
    risk_before,
    unchanged_words,
)
from sfumato.data.counting.axes import Grid
from sfumato.data.counting.memory_limit import SizeCounts
from sfumato.data.schema.column import Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.hierarchy import stands_for_itself
from sfumato.data.schema.names import count as in_number
from sfumato.data.schema.names import quoted
from sfumato.data.schema.toml_document import add_line
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.exact_numbers import positive
from sfumato.privacy.noise.discrete import discrete_gaussian
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.exact_numbers import Number
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.open_table import Table
    from sfumato.release.recoding import ByRow

    Draw = Callable[[Fraction, int], IntArray]

_NEAR = Fraction(1, 1_000_000)
# Beyond 12 standard deviations a Gaussian has less than 1e-31 of its mass.
_FINE, _FAR = 1000, 12
"""Moments are summed over steps of at least a thousandth of the deviation, 12 deviations far."""


def perturb(
    table: Frequencies,
    columns: Sequence[Column],
    *,
    stddev: Mapping[str, Number],
    unchanged: Sequence[str] = (),
    entropy: Entropy | None = None,
    draw: Draw | None = None,
) -> ByRow:
    """Add whole numbers of the declared step to each value, reflected at the declared bounds.

    *Guarantee*: none, neither syntactic nor differential privacy: values are blurred.
    *Error*: discrete Gaussian noise of the stated standard deviation, in the unit of the column, in
    days for dates. A value that would pass a bound is reflected there, so no values pile up on
    the bound. Near a bound, reflection shifts values inward and reduces their deviation: see
    `moments`.
    *Edges*: NULL stays NULL; a value off the grid goes to its nearest point first, as `strays`
    counts. `draw` gives the numbers of steps for a variance and a number of rows; they are drawn
    exactly unless given.
    """
    source = SystemEntropy() if entropy is None else entropy
    steps = draw or (lambda variance, size: discrete_gaussian(variance, size, source))
    rows = rows_of(table)
    released_columns = []
    for column in columns:
        grid, step = _grid(column)
        index = table.columns.index(column.name)
        points = _points(table.axes[index], grid, step)[table.codes[index][rows]]
        scale = positive(stddev[column.name], "stddev") / step
        moved = _reflect(points + steps(scale**2, len(points)), grid.points - 1)
        # NULL has the code after the last grid point and stays NULL.
        codes = np.where(points == grid.points, grid.points, moved).astype(np.int64)
        present, numbers = np.unique(codes, return_inverse=True)
        released_columns.append(ReleasedCodes(column.name, numbers, grid.decode(present)))
    return deal(table, rows, released_columns, unchanged)


class Moments(NamedTuple):
    """The moments of the noise on a value: its mean shift and its standard deviation."""

    shift: float
    stddev: float


def moments(column: Column, stddev: Number, *, at_bound: bool) -> Moments:
    """Return the true mean and deviation of the noise on a value at a bound, or in the middle.

    At a bound the shift is inward and largest, the deviation smallest. *Error*: below a thousandth,
    by summing the probabilities of all steps, or of coarser steps if there are too many.
    """
    grid, step = _grid(column)
    scale = float(positive(stddev, "stddev") / step)
    coarser = max(1.0, scale / _FINE)
    fine, last = scale / coarser, round((grid.points - 1) / coarser)
    reach = ceil(_FAR * fine)
    steps = np.arange(-reach, reach + 1)
    # Probabilities of a discrete Gaussian, up to their sum.
    odds = np.exp(-((steps / fine) ** 2) / 2)
    start = 0 if at_bound else last // 2
    moved = (_reflect(start + steps, last) - start) * coarser * float(step)
    mean = float(odds @ moved / odds.sum())
    return Moments(mean, sqrt(float(odds @ (moved - mean) ** 2 / odds.sum())))


class Strays(NamedTuple):
    """Counts of rows whose value the grid moves before any noise."""

    outside: int
    between: int


def strays(table: Frequencies, column: Column) -> Strays:
    """Count the rows outside the declared bounds, and those between two points of the grid.

    Reals are between points where they are more than a millionth of a step away.
    """
    grid, step = _grid(column)
    low, high = _fraction(grid.bounds.low), _fraction(grid.bounds.high)
    index, outside, between = table.columns.index(column.name), 0, 0
    axis = table.axes[index]
    rows = np.bincount(table.codes[index], table.counts, axis.size).astype(np.int64)
    values = axis.decode(np.arange(axis.size)).to_pylist()
    for value, row_count in zip(values, rows.tolist(), strict=True):
        if value is None or value != value:
            continue
        if (isinstance(value, float) and isinf(value)) or not low <= _fraction(value) <= high:
            outside += row_count
        elif abs((steps := (_fraction(value) - low) / step) - round(steps)) > _NEAR:
            between += row_count
    return Strays(outside, between)


def _reflect(points: IntArray, last: int) -> IntArray:
    """Points of a line folded into 0 .. last, as between two mirrors."""
    if last == 0:
        return np.zeros_like(points)
    # Reflection at both ends has period 2 * last.
    around = np.mod(points, 2 * last)
    folded: IntArray = np.minimum(around, 2 * last - around)
    return folded


def _grid(column: Column) -> tuple[Grid, Fraction]:
    """Return the declared grid of a column and its step."""
    grid = column.domain.stepped() if isinstance(column.domain, Bounds) else None
    if grid is None or grid.grid_step is None:
        line = "step = 0.5" if isinstance(column.domain, Bounds) else "bounds = [0, 100000]"
        raise SchemaError(
            "domain_missing",
            f"Column {column.name!r} cannot be perturbed: only numbers and dates with bounds, and "
            f"a step that divides them, can. {add_line(column.name, line)}",
        )
    return Grid(column.name, column.kind, grid, True), Fraction(grid.grid_step)


def _points(axis: Axis, grid: Grid, step: Fraction) -> IntArray:
    """Return the nearest point of the grid for every value, the upper of two; NULL comes last."""
    low, last = _fraction(grid.bounds.low), grid.points - 1
    points = []
    for value in axis.decode(np.arange(axis.size)).to_pylist():
        if value is None or value != value:
            points.append(grid.points)
        elif isinstance(value, float) and isinf(value):
            points.append(last if value > 0 else 0)
        else:
            steps = (_fraction(value) - low) / step
            # floor(steps + 1/2) in exact integers: a tie goes up.
            nearest = (2 * steps.numerator + steps.denominator) // (2 * steps.denominator)
            points.append(min(max(nearest, 0), last))
    return np.array(points, dtype=np.int64)


def _fraction(value: float | Decimal | date) -> Fraction:
    return Fraction(value.toordinal() if isinstance(value, date) else value)


_GROUPS = "mondrian"
"""The search that forms the groups inside which values are shuffled."""
_BLUR = 20
"""The declared range divided by the standard deviation of the noise."""


class PerturbativeOptions(NamedTuple):
    """The options of a perturbative method beside its criteria."""

    sensitive: tuple[str, ...] = ()
    limit_seconds: float | None = None
    progress: Callable[[float, float], None] | None = None


class PerturbativeMethod(NamedTuple):
    """A way to rearrange values, and the options it takes."""

    decide: Callable[[Table, Sequence[Criterion], PerturbativeOptions], Anonymized]
    takes: frozenset[str]


def _anatomy(
    table: Table, criteria: Sequence[Criterion], options: PerturbativeOptions
) -> Anonymized:
    """Release two tables: rows with their group, and the counts of values in each group."""
    asked = _one_diversity(criteria, options.sensitive)
    _require_rows_as_units(table, "anatomy", asked)
    quasi = [column.name for column in table.schema.by_role(Role.QUASI)]
    other_columns = tuple(column.name for column in table.schema.by_role(Role.OTHER))
    hidden = table.schema.column(asked.of)
    left_out = [c.name for c in table.schema.by_role(Role.SENSITIVE) if c is not hidden]
    other_columns = tuple(name for name in other_columns if name != asked.of)
    counted = counted_whole(table, [*quasi, asked.of])
    anatomy = anatomize(counted, asked.of, l=asked.l, unchanged=other_columns)
    sizes = counted.marginal(quasi).counts
    # Group numbers begin at 1, so the first count, of group 0, is dropped.
    members = np.bincount(
        anatomy.sensitive[GROUP].to_numpy(), anatomy.sensitive["count"].to_numpy()
    )[1:]
    kinds = {name: table.schema.column(name).kind for name in quasi}
    _refuse_labels(table, counted, quasi)
    # No group has a value twice: only a group of one row has a single value.
    alone = int((members == 1).sum())
    return Anonymized(
        table=table,
        figures=figures_of_classes("anatomy", [str(asked)], members.astype(np.int64)),
        statement=f"Every group of released rows satisfies {asked}.",
        recoding=anatomy.quasi,
        recoded={**kinds, GROUP: Kind.INTEGER},
        unchanged=other_columns,
        parameters={"l": asked.l, "of": asked.of},
        before={"classes": len(sizes), **costs_of_untouched(SizeCounts.of(sizes))},
        protected=(asked.of,),
        **in_plain_words([asked], None),
        risk=risk_before(counted, quasi, None),
        values=anatomy.sensitive,
        words={
            **{name: unchanged_words(table.schema.column(name)) for name in quasi},
            GROUP: "added: the group of the row",
            asked.of: f"in a table of its own, counted in groups of at least {asked.l}",
        },
        findings=(shared_by_all(asked.of, alone, len(members), alone),) if alone else (),
        notes=(
            "Quasi-identifiers are released as they are, so k-anonymity does not apply.",
            *(f"Column {name} is sensitive too and was left out." for name in left_out),
        ),
    )


def _one_diversity(criteria: Sequence[Criterion], sensitive: tuple[str, ...]) -> FolkDiversity:
    """Return the only criterion of anatomy; groups without repetition satisfy all three kinds."""
    kinds = (DistinctDiversity, EntropyDiversity, FolkDiversity)
    asked = [
        criterion
        for criterion in criteria
        if isinstance(criterion, kinds) and (not sensitive or criterion.of in sensitive)
    ]
    if len(asked) != 1 or len(asked) != len(criteria):
        raise ParameterError(
            "criterion_not_supported",
            "Anatomy takes distinct, entropy or folk l-diversity of one sensitive column and "
            f"nothing else, but {' and '.join(map(str, criteria)) or 'nothing'} was asked. Give "
            f"{option('l')} alone, and name one column with {option('sensitive')}.",
        )
    return FolkDiversity(asked[0].l, asked[0].of)


def _require_rows_as_units(table: Table, algorithm: str, *criteria: Criterion) -> None:
    """Refuse tables with several rows of a person: the algorithm deals rows out one by one."""
    person = person_of(table.schema)
    if person is not None:
        asked = " and ".join(map(str, criteria))
        raise people_unknown(f"Algorithm {algorithm!r}", asked, person)


def _permute(
    table: Table, criteria: Sequence[Criterion], options: PerturbativeOptions
) -> Anonymized:
    """Release quasi-identifiers unchanged, and sensitive values shuffled inside groups."""
    _require_rows_as_units(table, "permute", *criteria)
    sensitive = [column.name for column in _sensitive(table, criteria, options.sensitive)]
    problem, counted = pose(table, criteria, suppress=0, further=sensitive, rolls_up=False)
    outcome = run(problem, _GROUPS, limit_seconds=options.limit_seconds, progress=options.progress)
    other_columns = tuple(
        c.name for c in table.schema.by_role(Role.OTHER) if c.name not in sensitive
    )
    left_out = [c.name for c in table.schema.by_role(Role.SENSITIVE) if c.name not in sensitive]
    quasi = [column.name for column in problem.quasi]
    sizes = counted.marginal(quasi).counts
    _refuse_labels(table, counted, quasi)
    exposed = {name: alike(counted, outcome, name) for name in sensitive}
    groups = outcome.classes
    kinds = {name: table.schema.column(name).kind for name in counted.columns}
    return Anonymized(
        table=table,
        figures={**figures_of_outcome(outcome), "algorithm": "permute"},
        statement=f"Sensitive values were shuffled inside groups, each of which satisfies "
        f"{problem.asked()}.",
        recoding=permute(counted, outcome, sensitive, unchanged=other_columns),
        recoded=kinds,
        unchanged=other_columns,
        parameters={"groups": _GROUPS, "shuffled": sensitive},
        before={"classes": len(sizes), **costs_of_untouched(SizeCounts.of(sizes), k=problem.k)},
        protected=tuple(sensitive),
        remarks=(*outcome.notes, *([outcome.verdict] if outcome.verdict else [])),
        findings=tuple(
            shared_by_all(name, number, groups, rows)
            for name, (number, rows) in exposed.items()
            if number
        ),
        words={name: unchanged_words(table.schema.column(name)) for name in quasi}
        | dict.fromkeys(sensitive, "shuffled among the rows of each group"),
        risk=risk_before(counted, quasi, None),
        **in_plain_words(criteria, None),
        notes=(
            "Quasi-identifiers are released as they are; costs are those of the groups.",
            *(f"Column {name} is sensitive too and was left out." for name in left_out),
        ),
    )


def _perturb(
    table: Table, criteria: Sequence[Criterion], options: PerturbativeOptions
) -> Anonymized:
    """Release sensitive numbers with noise, and everything else unchanged."""
    named = options.sensitive
    if criteria:
        raise ParameterError(
            "criterion_not_supported",
            f"Perturbing values satisfies no criterion, but {' and '.join(map(str, criteria))} was "
            "asked. Drop the criteria, or take another algorithm.",
        )
    columns = [c for c in _sensitive(table, (), named) if named or isinstance(c.domain, Bounds)]
    if not columns:
        raise SchemaError(
            "criterion_not_supported",
            "No sensitive column has declared bounds, so none can be perturbed. Add to the section "
            "of one in the schema: bounds = [0, 100000]",
        )
    stddev = {column.name: _noise_stddev(column) for column in columns}
    counted = counted_whole(table, [column.name for column in columns])
    roles = (Role.QUASI, Role.SENSITIVE, Role.OTHER)
    unchanged = [c.name for c in table.schema.columns if c.role in roles and c not in columns]
    quasi = [column.name for column in table.schema.by_role(Role.QUASI)]
    # Quasi-identifiers are not changed; they are counted only for the risk and the class sizes.
    known = counted_whole(table, quasi)
    _refuse_labels(table, known, quasi)
    sizes = known.counts
    return Anonymized(
        table=table,
        figures=figures_of_classes("perturb", [], sizes),
        statement="No guarantee: sensitive numbers were blurred by noise.",
        recoding=perturb(counted, columns, stddev=stddev, unchanged=unchanged),
        recoded={column.name: column.kind for column in columns},
        unchanged=tuple(unchanged),
        parameters={"stddev": stddev},
        before={"classes": len(sizes), **costs_of_untouched(SizeCounts.of(sizes))},
        protected=tuple(stddev),
        watched=tuple(c.name for c in table.schema.by_role(Role.SENSITIVE) if c.name in unchanged),
        findings=tuple(
            warning for column in columns if (warning := _warn_of_strays(counted, column))
        ),
        notes=tuple(_describe_noise(column, stddev[column.name]) for column in columns),
        words={
            name: f"blurred by noise of standard deviation {deviation}"
            for name, deviation in stddev.items()
        },
        risk=risk_before(known, quasi, None),
    )


def _refuse_labels(table: Table, counted: Frequencies, names: Sequence[str]) -> None:
    """Refuse texts that look like labels, if values are released unchanged."""
    for name in names:
        if table.schema.column(name).kind is not Kind.TEXT:
            continue
        codes = np.unique(counted.codes[counted.columns.index(name)])
        texts = counted.axis(name).decode(codes).to_pylist()
        alike = sum(text is not None and not stands_for_itself(text) for text in texts)
        if alike:
            raise SchemaError(
                "cell_malformed",
                f"Column {quoted(name)} holds {in_number(alike, 'value')} that would be read as a "
                "label: '*', or one that begins with '{' or '\"'. This algorithm releases "
                "quasi-identifiers as they are. Rename them, or take one that generalizes.",
            )


def _noise_stddev(column: Column) -> str:
    """Return the standard deviation of the noise: a share of the declared range, in days for dates.

    It is at least the step, because less would leave most values unchanged.
    """
    if not isinstance(column.domain, Bounds):
        return "1"  # `perturb` refuses the column, with advice
    return str(max(Decimal(column.domain.span) / _BLUR, Decimal(column.domain.grid_step or 0)))


def _describe_noise(column: Column, stddev: str) -> str:
    """One sentence with the true moments of a column's noise, from declarations alone."""
    middle = moments(column, stddev, at_bound=False)
    bound = moments(column, stddev, at_bound=True)
    return (
        f"{column.name}: standard deviation {middle.stddev:.4g} between the bounds; at a bound, "
        f"where noise is reflected, {bound.stddev:.4g} around a shift of {bound.shift:.4g} inward."
    )


def _warn_of_strays(counted: Frequencies, column: Column) -> str | None:
    """A warning about values that the declared grid moved before any noise, if any."""
    stray_rows = strays(counted, column)
    moved = []
    if stray_rows.outside:
        moved.append(
            f"{in_number(stray_rows.outside, 'row')} outside the declared bounds to the nearest"
        )
    if stray_rows.between:
        moved.append(f"{in_number(stray_rows.between, 'row')} between steps to the nearest step")
    if not moved:
        return None
    return (
        f"Column {column.name}: before any noise, values went to the declared grid: "
        f"{' and '.join(moved)}. The stated deviation does not count that. Correct the bounds or "
        "the step in the schema."
    )


def _sensitive(table: Table, criteria: Sequence[Criterion], named: tuple[str, ...]) -> list[Column]:
    """Return the columns to rearrange: named ones, else those of criteria, else all sensitive."""
    asked = dict.fromkeys(
        criterion.column for criterion in criteria if criterion.column is not None
    )
    names = named or tuple(asked)
    columns = [table.schema.column(name) for name in names]
    chosen = columns or list(table.schema.by_role(Role.SENSITIVE))
    if not chosen:
        raise SchemaError(
            "role_invalid",
            'No column is sensitive: there is nothing to rearrange. Give one role = "sensitive".',
        )
    return chosen


PERTURBATIVE: dict[str, PerturbativeMethod] = {
    "anatomy": PerturbativeMethod(_anatomy, frozenset({"sensitive"})),
    "permute": PerturbativeMethod(_permute, frozenset({"sensitive", "limit_seconds"})),
    "perturb": PerturbativeMethod(_perturb, frozenset({"sensitive"})),
}
