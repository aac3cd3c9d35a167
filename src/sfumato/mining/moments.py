"""Exact whole-number sums over rows, made in the engine: what every model is learned from.

Rows are first given their coordinates (`FeatureSpace.expressions`) under names of our own, then
further columns, layer by layer, and what is summed are terms of these. Where rows belong to people,
each row has a weight in whole parts of 2^-17 rows (`counting.contribution`), so that a person's
weights add up to no more than `max_rows` rows, wherever those rows fall: a person's sums move by at
most `max_rows` times what the largest row moves them by, in every norm.

*Range*: a term is below 2^45 and a weight at most 2^17, so that a weighted term is below 2^62. Sums
are decimals, too wide for any number of rows, and come back in two parts of 64 bits. So no engine
can overflow, and no error depends on what is summed. Decision 0451.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.counting.axes import literal
from sfumato.counting.contribution import PERSON, WEIGHT, WHOLE, weigh_rows
from sfumato.privacy.units import Neighbours, Sensitivity, count_sensitivity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.method import Dataset
    from sfumato.privacy.units import Unit

    Layer = Mapping[str, exp.Expr]

_PART = 1 << 40
"""Sums come back as their multiples of this and the rest."""

_AT_ONCE = 700
"""How many sums one query makes: engines bound the columns of a result."""

_GROUP = "sf_group"


def coordinate(place: int) -> exp.Column:
    """The SQL of a coordinate by its place, for terms, groups and layers."""
    return exp.column(f"sf_x{place}")


def clipped(place: int) -> exp.Column:
    """The SQL of a coordinate after `clip_layers`."""
    return exp.column(f"sf_c{place}")


def clip_layers(size: int, norm: int, *, others: int = 0) -> list[Layer]:
    """Layers that shrink every row to an L2 norm of at most `norm`, in whole numbers.

    The first `size` coordinates have the norm; so many others behind them shrink as they do.

    The norm is rounded up and quotients towards 0, so that |x'| <= |x| norm / |x|. The squared norm
    is a whole number below 2^53, whose root engines find exactly rounded: rounded up to a whole
    number, it is never below the root itself.
    """
    square = total_of([exp.Mul(this=coordinate(i), expression=coordinate(i)) for i in range(size)])
    root = exp.Ceil(this=exp.Sqrt(this=exp.cast(exp.column("sf_square"), "DOUBLE")))
    length, most = exp.column("sf_length"), literal(norm)
    return [
        {"sf_square": square},
        {"sf_length": exp.cast(root, "BIGINT")},
        {
            f"sf_c{i}": exp.case()
            .when(
                exp.GT(this=length.copy(), expression=most.copy()),
                exp.cast(
                    exp.IntDiv(
                        this=exp.Paren(this=exp.Mul(this=coordinate(i), expression=most.copy())),
                        expression=length.copy(),
                    ),
                    "BIGINT",
                ),
            )
            .else_(coordinate(i))
            for i in range(size + others)
        },
    ]


def sums(
    data: Dataset,
    coordinates: Sequence[exp.Expr],
    terms: Sequence[exp.Expr],
    *,
    layers: Sequence[Layer] = (),
    group: exp.Expr | None = None,
    groups: int = 1,
) -> NDArray[Any]:
    """Add up terms over rows, by group number where one is given: (groups, terms), exact.

    Coordinates are expressions of the table's columns; layers, terms and the group are expressions
    of `coordinate(place)` and of what earlier layers name. Sums are in parts of `whole_row(unit)`.
    Rows whose group is not 0, ..., groups - 1 are left out. No more than 700 terms are summed in
    one query. Nothing is drawn: weights need no salt.
    """
    found = np.zeros((groups, len(terms)), dtype=object)
    rows = _rows(data, coordinates, layers, group)
    for start in range(0, len(terms), _AT_ONCE):
        some = terms[start : start + _AT_ONCE]
        answer = data.engine.run(_query(rows, some, data.unit, groups, grouped=group is not None))
        columns = [answer.column(place).to_pylist() for place in range(answer.num_columns)]
        numbers = columns.pop(0) if group is not None else [0] * answer.num_rows
        for place in range(len(some)):
            high, low = columns[2 * place], columns[2 * place + 1]
            for number, above, below in zip(numbers, high, low, strict=True):
                found[int(number), start + place] = int(above) * _PART + int(below)
    return found


def whole_row(unit: Unit) -> int:
    """What a row that counts in full adds to a sum of ones."""
    return WHOLE if unit.by_person else 1


def person_sensitivity(unit: Unit, *, l1: int, l2_squared: int, signed: bool = True) -> Sensitivity:
    """How far a person moves sums, by what the largest row adds to them, in sums' own parts.

    A replaced person takes one row's worth away and adds another's, `max_rows` times: the L1 norm
    doubles, and the squared L2 norm does where no two rows' terms point in opposite directions
    (their inner product is never negative: not `signed`); else it is four times as much.
    """
    rows = count_sensitivity(unit).l1 * whole_row(unit)
    both = unit.relation is Neighbours.REPLACE_ONE
    return Sensitivity(
        l1=Fraction(l1) * rows * (2 if both else 1),
        l2_squared=Fraction(l2_squared) * rows**2 * ((4 if signed else 2) if both else 1),
    )


def _rows(
    data: Dataset,
    coordinates: Sequence[exp.Expr],
    layers: Sequence[Layer],
    group: exp.Expr | None,
) -> exp.Query:
    """The rows with their weight, coordinates, what the layers add, and their group."""
    named = [exp.alias_(tree, f"sf_x{place}") for place, tree in enumerate(coordinates)]
    # A row has at least one column, also where there is no coordinate.
    rows: exp.Select = exp.select(exp.alias_(literal(1), "sf_one"), *named).from_(data.table.copy())
    if data.unit.by_person:
        assert data.unit.column is not None
        person = exp.alias_(exp.column(data.unit.column, quoted=True), PERSON)
        rows = weigh_rows(rows.select(person), data.unit)
    every = list(layers) if group is None else [*layers, {_GROUP: group}]
    for place, layer in enumerate(every):
        added = [exp.alias_(tree.copy(), name) for name, tree in layer.items()]
        rows = exp.select(exp.Star(), *added).from_(
            rows.subquery(f"sf_layer_{place}", copy=False), copy=False
        )
    return rows


def _query(
    rows: exp.Query, terms: Sequence[exp.Expr], unit: Unit, groups: int, *, grouped: bool
) -> exp.Select:
    """The sums of some terms, each in two parts, by group."""
    names, figures = [f"sf_sum_{place}" for place in range(len(terms))], []
    for name, term in zip(names, terms, strict=True):
        tree: exp.Expr = exp.Paren(this=term.copy())
        if unit.by_person:
            tree = exp.Mul(this=tree, expression=exp.column(WEIGHT))
        wide = exp.Cast(this=tree, to=exp.DataType.build("DECIMAL(19, 0)"))
        figures.append(exp.alias_(exp.Sum(this=wide), name, copy=False))
    summed = exp.select(*figures).from_(rows.subquery("sf_weighed"), copy=False)
    parts = [part for name in names for part in _parts(name)]
    if not grouped:
        return exp.select(*parts).from_(summed.subquery("sf_summed", copy=False), copy=False)
    number = exp.column(_GROUP)
    inside = exp.and_(number >= literal(0), number.copy() < literal(groups))
    summed = summed.select(number.copy()).where(inside, copy=False).group_by(number.copy())
    key = exp.alias_(exp.cast(number.copy(), "BIGINT"), _GROUP)
    return exp.select(key, *parts).from_(summed.subquery("sf_summed", copy=False), copy=False)


def _parts(name: str) -> tuple[exp.Expr, exp.Expr]:
    """A sum as multiples of `_PART`, and the rest, towards 0. Where nothing is added both are 0.

    The sum without the rest is a multiple of a power of two with a quotient below 2^53: however an
    engine divides, as decimals or as doubles, the quotient is exact.
    """
    some = exp.Coalesce(this=exp.column(name), expressions=[exp.convert(0)])
    rest = exp.Mod(this=some, expression=literal(_PART))
    whole = exp.Paren(this=some.copy() - rest.copy())
    high = exp.cast(exp.Div(this=whole, expression=literal(_PART)), "BIGINT")
    low = exp.cast(rest, "BIGINT")
    return exp.alias_(high, f"{name}_high", copy=False), exp.alias_(low, f"{name}_low", copy=False)


def total_of(trees: Sequence[exp.Expr]) -> exp.Expr:
    """A sum of trees, nested no deeper than its logarithm: engines bound the depth they parse."""
    if not trees:
        return literal(0)
    if len(trees) == 1:
        return trees[0]
    half = len(trees) // 2
    left, right = total_of(trees[:half]), total_of(trees[half:])
    return exp.Paren(this=exp.Add(this=left, expression=right))
