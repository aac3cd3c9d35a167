"""Exact integer sums over rows, computed in the engine: every linear model is learnt from them.

Each row first gets its coordinates (`FeatureSpace.expressions`) under names of our own, then
further columns, layer by layer; the sums are over terms of these columns. If rows belong to people,
each row has a weight in whole parts of 2^-17 rows (`counting.contribution`), so that a person's
weights add up to at most `max_rows` rows, wherever those rows fall.

*Sensitivity*: a person moves the sums by at most `max_rows` times as much as the largest row does,
in every norm (triangle inequality).

*Range*: a term is below 2^45 and a weight at most 2^17, so that a weighted term is below 2^62. Most
engines sum 64 bits more widely, whatever the number of rows, and sums come back in two parts of 64
bits. Where an engine does not, terms are cut into pieces below 2^21, whose sums need 2^42 rows to
leave 64 bits. So no engine can overflow, and no error depends on what is summed. Decision
`learning`.
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


_HIGH_SCALE = 1 << 40
"""A wide sum comes back as a multiple of this and a remainder, which fit 64 bits each."""

_TERM_BITS = 45
_PIECE_BITS = 21

_TERMS_PER_QUERY = 700
"""The most sums of one query: engines limit the columns of a result."""

_GROUP = "sf_group"


def coordinate(position: int) -> exp.Column:
    """The SQL of a coordinate by its position, for terms, groups and layers."""
    return exp.column(f"sf_x{position}")


def clipped(position: int) -> exp.Column:
    """The SQL of a coordinate after `clip_layers`."""
    return exp.column(f"sf_c{position}")


def clip_layers(size: int, norm: int, *, scaled_along: int = 0) -> list[Layer]:
    """Layers that shrink every row to an L2 norm of at most `norm`, in whole numbers.

    The norm is that of the first `size` coordinates; `scaled_along` further coordinates behind
    them are multiplied by the same factor.

    Clipping: x' = x norm / ceil(|x|) where ceil(|x|) > norm, rounded towards 0, so that
    |x'| <= norm. The squared norm is a whole number below 2^53, so that every engine rounds its
    root correctly, and the ceiling is never below the true root.
    """
    square = total_of([exp.Mul(this=coordinate(i), expression=coordinate(i)) for i in range(size)])
    root = exp.Ceil(this=exp.Sqrt(this=exp.cast(exp.column("sf_square"), "DOUBLE")))
    length, limit = exp.column("sf_length"), literal(norm)
    return [
        {"sf_square": square},
        {"sf_length": exp.cast(root, "BIGINT")},
        {
            f"sf_c{i}": exp.case()
            .when(
                exp.GT(this=length.copy(), expression=limit.copy()),
                exp.cast(
                    exp.IntDiv(
                        this=exp.Paren(
                            this=exp.Mul(
                                this=exp.cast(coordinate(i), "BIGINT"), expression=limit.copy()
                            )
                        ),
                        expression=exp.cast(length, "BIGINT"),
                    ),
                    "BIGINT",
                ),
            )
            .else_(coordinate(i))
            for i in range(size + scaled_along)
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
    """Sum terms over rows exactly, by group: an array of Python integers, (groups, terms).

    Coordinates are expressions of the table's columns; layers, terms and the group are expressions
    of `coordinate(position)` and of the names of earlier layers. Sums are in parts of
    `whole_row(unit)`. Rows whose group is not in 0, ..., groups - 1 are not summed. No row is
    sampled, so no salt is needed. Terms are below 2^bits in absolute value; fewer bits are faster
    in an engine that sums in 64 bits.
    """
    totals = np.zeros((groups, len(terms)), dtype=object)
    rows = _rows(data, coordinates, layers, group)
    wide = data.engine.traits.sums_widely
    weighted_bits = bits + (WEIGHT_BITS if data.unit.by_person else 0)
    scales = (
        _HIGH_LOW_SCALES if wide else [1 << shift for shift in range(0, weighted_bits, _PIECE_BITS)]
    )
    for start in range(0, len(terms), _TERMS_PER_QUERY):
        weighted_terms = [
            _weighted(term, data.unit) for term in terms[start : start + _TERMS_PER_QUERY]
        ]
        figures = _wide_sums(weighted_terms) if wide else _piece_sums(weighted_terms, scales)
        answer = data.engine.run(_query(rows, figures, groups, grouped=group is not None))
        columns = [answer.column(position).to_pylist() for position in range(answer.num_columns)]
        numbers = columns.pop(0) if group is not None else [0] * answer.num_rows
        for position, column in enumerate(columns):
            term_index, scale = start + position // len(scales), scales[position % len(scales)]
            for number, value in zip(numbers, column, strict=True):
                totals[int(number), term_index] += int(value) * scale
    return totals


def whole_row(unit: Unit) -> int:
    """The weight of a row that counts in full: what it adds to a sum of ones."""
    return FULL_WEIGHT if unit.by_person else 1


def person_sensitivity(unit: Unit, *, l1: int, l2_squared: int, signed: bool = True) -> Sensitivity:
    """The sensitivity of sums to a person, in parts of `whole_row`, from that to one row.

    `l1` and `l2_squared` bound the terms of one row. Adding or removing a person changes at most
    `max_rows` rows. Replacing a person removes `max_rows` rows and adds as many: the L1 norm
    doubles. The squared L2 norm is |a - b|^2 = |a|^2 + |b|^2 - 2 a.b: four times as much in
    general, twice if terms of two rows never have a negative inner product (not `signed`).
    """
    # A person's weights add up to at most `max_rows` rows, wherever they fall.
    rows = count_sensitivity(unit).l1 * whole_row(unit)
    replaced = unit.relation is Neighbours.REPLACE_ONE
    return Sensitivity(
        l1=Fraction(l1) * rows * (2 if replaced else 1),
        l2_squared=Fraction(l2_squared) * rows**2 * ((4 if signed else 2) if replaced else 1),
    )


def _rows(
    data: Dataset,
    coordinates: Sequence[exp.Expr],
    layers: Sequence[Layer],
    group: exp.Expr | None,
) -> exp.Query:
    """The rows with their weight, their coordinates, the columns of the layers, and their group."""
    named = [
        exp.alias_(expression, f"sf_x{position}") for position, expression in enumerate(coordinates)
    ]
    # A row has at least one column, also where there is no coordinate.
    rows: exp.Select = exp.select(exp.alias_(literal(1), "sf_one"), *named).from_(data.table.copy())
    if data.unit.by_person:
        assert data.unit.column is not None
        person = exp.alias_(exp.column(data.unit.column, quoted=True), PERSON)
        rows = weigh_rows(rows.select(person), data.unit)
    all_layers = list(layers) if group is None else [*layers, {_GROUP: group}]
    return layered(rows, all_layers, data.engine.traits.once)


def layered(
    rows: exp.Select, layers: Sequence[Layer], once: Callable[[exp.Select], exp.Select]
) -> exp.Select:
    """Add columns to rows, layer by layer; `once` keeps an engine from computing a layer twice."""
    for level, layer in enumerate(layers):
        added = [exp.alias_(expression.copy(), name) for name, expression in layer.items()]
        rows = exp.select(exp.Star(), *added).from_(
            once(rows).subquery(f"sf_layer_{level}", copy=False), copy=False
        )
    return once(rows)


def _weighted(term: exp.Expr, unit: Unit) -> exp.Expr:
    """A term of a row, times the row's weight where rows belong to people."""
    weighted: exp.Expr = exp.Paren(this=term.copy())
    if unit.by_person:
        weighted = exp.Mul(this=weighted, expression=exp.column(WEIGHT))
    return exp.Cast(this=weighted, to=exp.DataType.build("BIGINT"))


def _query(rows: exp.Query, figures: _Figures, groups: int, *, grouped: bool) -> exp.Select:
    """The query of aggregates, and of outputs computed from them, by group."""
    aggregates, outputs = figures
    summed = exp.select(*aggregates).from_(rows.subquery("sf_weighed"), copy=False)
    if not grouped:
        return exp.select(*outputs).from_(summed.subquery("sf_summed", copy=False), copy=False)
    number = exp.column(_GROUP)
    # Groups outside of the range, such as -1 for no class, are dropped in the engine.
    in_range = exp.and_(number >= literal(0), number.copy() < literal(groups))
    summed = summed.select(number.copy()).where(in_range, copy=False).group_by(number.copy())
    key = exp.alias_(exp.cast(number.copy(), "BIGINT"), _GROUP)
    return exp.select(key, *outputs).from_(summed.subquery("sf_summed", copy=False), copy=False)


_HIGH_LOW_SCALES = [_HIGH_SCALE, 1]


def _wide_sums(terms: Sequence[exp.Expr]) -> _Figures:
    """The sums of terms in an engine that sums in more than 64 bits, each as high and low part."""
    names = [f"sf_sum_{position}" for position in range(len(terms))]
    aggregates = [
        exp.alias_(exp.Sum(this=term), name, copy=False)
        for name, term in zip(names, terms, strict=True)
    ]
    return aggregates, [part for name in names for part in _high_and_low(name)]


def _piece_sums(terms: Sequence[exp.Expr], scales: Sequence[int]) -> _Figures:
    """The sums of each term's digits in base 2^21, lowest first, in an engine of 64-bit sums.

    Digits have the sign of their term. The last digit is the remaining quotient.
    """
    aggregates: list[exp.Expr] = []
    outputs: list[exp.Expr] = []
    for term in terms:
        for scale in scales:
            piece = term.copy()
            if scale > 1:
                piece = exp.cast(exp.IntDiv(this=piece, expression=literal(scale)), "BIGINT")
            if scale != scales[-1]:
                # Mod has the sign of the term in every engine, as IntDiv rounds towards 0.
                piece = exp.Mod(this=piece, expression=literal(1 << _PIECE_BITS))
            name = f"sf_sum_{len(aggregates)}"
            aggregates.append(exp.alias_(exp.Sum(this=piece), name, copy=False))
            total = exp.Coalesce(this=exp.column(name), expressions=[literal(0)])
            outputs.append(exp.alias_(exp.cast(total, "BIGINT"), f"{name}_total", copy=False))
    return aggregates, outputs


def _high_and_low(name: str) -> tuple[exp.Expr, exp.Expr]:
    """A sum as a multiple of `_HIGH_SCALE` and a remainder, rounded towards 0; 0 of no rows.

    The sum without the remainder is a multiple of a power of two with a quotient below 2^53, so
    that the quotient is exact whether an engine divides decimals or doubles.
    """
    total = exp.Coalesce(this=exp.column(name), expressions=[exp.convert(0)])
    remainder = exp.Mod(this=total, expression=literal(_HIGH_SCALE))
    multiple = exp.Paren(this=total.copy() - remainder.copy())
    high = exp.cast(exp.Div(this=multiple, expression=literal(_HIGH_SCALE)), "BIGINT")
    low = exp.cast(remainder, "BIGINT")
    return exp.alias_(high, f"{name}_high", copy=False), exp.alias_(low, f"{name}_low", copy=False)


def total_of(expressions: Sequence[exp.Expr]) -> exp.Expr:
    """The sum of expressions as a balanced tree: engines limit the depth that they parse."""
    if not expressions:
        return literal(0)
    if len(expressions) == 1:
        return expressions[0]
    half = len(expressions) // 2
    left, right = total_of(expressions[:half]), total_of(expressions[half:])
    return exp.Paren(this=exp.Add(this=left, expression=right))
