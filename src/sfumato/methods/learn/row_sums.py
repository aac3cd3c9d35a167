"""Exact whole-number sums over rows, made in the engine: what every model is learned from.

Rows are first given their coordinates (`FeatureSpace.expressions`) under names of our own, then
further columns, layer by layer, and what is summed are terms of these. Where rows belong to people,
each row has a weight in whole parts of 2^-17 rows (`counting.contribution`), so that a person's
weights add up to no more than `max_rows` rows, wherever those rows fall: a person's sums move by at
most `max_rows` times what the largest row moves them by, in every norm.

*Range*: a term is below 2^45 and a weight at most 2^17, so that a weighted term is below 2^62. Most
engines sum 64 bits more widely, whatever the number of rows, and sums come back in two parts of 64
bits. Where an engine does not, terms are cut into pieces below 2^21, whose sums need 2^42 rows to
leave 64 bits. So no engine can overflow, and no error depends on what is summed. Decision
`learn-moments`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.data.counting.contribution import FULL_WEIGHT, PERSON, WEIGHT, WEIGHT_BITS, weigh_rows
from sfumato.data.schema.unit import Neighbours, Sensitivity, count_sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import Dataset

    Layer = Mapping[str, exp.Expr]
    _Figures = tuple[list[exp.Expr], list[exp.Expr]]


_PART = 1 << 40
"""Sums come back as their multiples of this and the rest."""

_TERM_BITS = 45
_PIECE_BITS = 21

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
                        this=exp.Paren(
                            this=exp.Mul(
                                this=exp.cast(coordinate(i), "BIGINT"), expression=most.copy()
                            )
                        ),
                        expression=exp.cast(length, "BIGINT"),
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
    bits: int = _TERM_BITS,
) -> NDArray[Any]:
    """Add up terms over rows, by group number where one is given: (groups, terms), exact.

    Coordinates are expressions of the table's columns; layers, terms and the group are expressions
    of `coordinate(place)` and of what earlier layers name. Sums are in parts of `whole_row(unit)`.
    Rows whose group is not 0, ..., groups - 1 are left out. No more than 700 terms are summed in
    one query. Nothing is drawn: weights need no salt. Terms are below 2^bits in size: the fewer
    bits, the quicker an engine is that sums in 64 of them.
    """
    found = np.zeros((groups, len(terms)), dtype=object)
    rows = _rows(data, coordinates, layers, group)
    wide = data.engine.traits.sums_widely
    weighed = bits + (WEIGHT_BITS if data.unit.by_person else 0)
    scales = _WIDE if wide else [1 << at for at in range(0, weighed, _PIECE_BITS)]
    for start in range(0, len(terms), _AT_ONCE):
        some = [_weighed(term, data.unit) for term in terms[start : start + _AT_ONCE]]
        figures = _wide_sums(some) if wide else _piece_sums(some, scales)
        answer = data.engine.run(_query(rows, figures, groups, grouped=group is not None))
        columns = [answer.column(place).to_pylist() for place in range(answer.num_columns)]
        numbers = columns.pop(0) if group is not None else [0] * answer.num_rows
        for place, column in enumerate(columns):
            at, scale = start + place // len(scales), scales[place % len(scales)]
            for number, part in zip(numbers, column, strict=True):
                found[int(number), at] += int(part) * scale
    return found


def whole_row(unit: Unit) -> int:
    """What a row that counts in full adds to a sum of ones."""
    return FULL_WEIGHT if unit.by_person else 1


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
    return layered(rows, every, data.engine.traits.once)


def layered(
    rows: exp.Select, layers: Sequence[Layer], once: Callable[[exp.Select], exp.Select]
) -> exp.Select:
    """Rows with further columns, each layer made of those before it, and all cells made once."""
    for place, layer in enumerate(layers):
        added = [exp.alias_(tree.copy(), name) for name, tree in layer.items()]
        rows = exp.select(exp.Star(), *added).from_(
            once(rows).subquery(f"sf_layer_{place}", copy=False), copy=False
        )
    return once(rows)


def _weighed(term: exp.Expr, unit: Unit) -> exp.Expr:
    """A term of a row, times the row's weight where rows belong to people."""
    tree: exp.Expr = exp.Paren(this=term.copy())
    if unit.by_person:
        tree = exp.Mul(this=tree, expression=exp.column(WEIGHT))
    return exp.Cast(this=tree, to=exp.DataType.build("BIGINT"))


def _query(rows: exp.Query, figures: _Figures, groups: int, *, grouped: bool) -> exp.Select:
    """What is made of some sums, by group."""
    added, told = figures
    summed = exp.select(*added).from_(rows.subquery("sf_weighed"), copy=False)
    if not grouped:
        return exp.select(*told).from_(summed.subquery("sf_summed", copy=False), copy=False)
    number = exp.column(_GROUP)
    inside = exp.and_(number >= literal(0), number.copy() < literal(groups))
    summed = summed.select(number.copy()).where(inside, copy=False).group_by(number.copy())
    key = exp.alias_(exp.cast(number.copy(), "BIGINT"), _GROUP)
    return exp.select(key, *told).from_(summed.subquery("sf_summed", copy=False), copy=False)


_WIDE = [_PART, 1]


def _wide_sums(terms: Sequence[exp.Expr]) -> _Figures:
    """The sums of terms where engines sum widely, and each as multiples of `_PART` and the rest."""
    names = [f"sf_sum_{place}" for place in range(len(terms))]
    found = [
        exp.alias_(exp.Sum(this=term), name, copy=False)
        for name, term in zip(names, terms, strict=True)
    ]
    return found, [part for name in names for part in _parts(name)]


def _piece_sums(terms: Sequence[exp.Expr], scales: Sequence[int]) -> _Figures:
    """The sums of each term's digits, by scales, least first, where engines sum in 64 bits.

    Digits have the sign of their term. The last of them is whatever is left.
    """
    found: list[exp.Expr] = []
    told: list[exp.Expr] = []
    for term in terms:
        for scale in scales:
            piece = term.copy()
            if scale > 1:
                piece = exp.cast(exp.IntDiv(this=piece, expression=literal(scale)), "BIGINT")
            if scale != scales[-1]:
                piece = exp.Mod(this=piece, expression=literal(1 << _PIECE_BITS))
            name = f"sf_sum_{len(found)}"
            found.append(exp.alias_(exp.Sum(this=piece), name, copy=False))
            whole = exp.Coalesce(this=exp.column(name), expressions=[literal(0)])
            told.append(exp.alias_(exp.cast(whole, "BIGINT"), f"{name}_told", copy=False))
    return found, told


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
