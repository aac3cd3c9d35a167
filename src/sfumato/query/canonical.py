"""A plan as plain JSON values: two questions with the same form are the same question."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.axes import Grid

if TYPE_CHECKING:
    from sfumato.axes import Axis
    from sfumato.query.plan import Argument, Plan


def canonical(plan: Plan) -> dict[str, Any]:
    """Everything that determines what a plan asks, in one order, without aliases of the asker."""
    return {
        "datasets": list(plan.datasets),
        "public": list(plan.public),
        "source": plan.source.sql(comments=False),
        "unit": repr(plan.unit),
        "multiplicity": plan.multiplicity,
        "keys": [[key.column, key.name, str(key.kind), _axis(key.axis)] for key in plan.keys],
        "levels": [list(level) for level in plan.levels],
        "measures": [
            [one.name, str(one.function), _argument(one.argument), _text(one.quantile)]
            for one in plan.measures
        ],
        "finish": plan.finish.sql(comments=False),
        "columns": list(plan.columns),
    }


def _axis(axis: Axis | None) -> list[Any] | None:
    """An axis; long lists of values by their hash."""
    if axis is None:
        return None
    if isinstance(axis, Grid):
        bounds = axis.bounds
        return [str(bounds.low), str(bounds.high), _text(bounds.step), axis.nullable]
    values = repr(axis.values.to_pylist())
    return [axis.size, sha256(values.encode()).hexdigest()]


def _argument(argument: Argument | None) -> list[Any] | None:
    if argument is None:
        return None
    ends = [argument.low, argument.high, str(argument.step)]
    return [argument.column, *ends, str(argument.kind), argument.nullable]


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)
