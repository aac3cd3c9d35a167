"""An upper bound of the size of an answer, from its plan alone: groups, bytes, and work.

Bounds are generous: they decide whether a question is refused before it is charged, and how many
large ones run at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.counting.axes import Listed
from sfumato.data.schema.column import USUAL_LENGTH, Kind
from sfumato.methods.method import AnswerSize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.methods.method import AnswerLimit
    from sfumato.methods.query.plan import Key, Level, Plan

_NUMBER = 8
_ERRORS = 2 * 25 + 8
"""Bytes of the sd and the bound of a figure as JSON numbers, and of its entry in `too_noisy`."""
_CHARACTER = 4
"""Bytes of a character in UTF-8, at most."""
_VALUE_BYTES = 64
"""Bytes of a value that is ranked, with its count and its score; a million take 450 MB while a
quantile is chosen, so that values are weighed about as lightly as groups are."""


def answer_size(plan: Plan, levels: Sequence[Level], limit: AnswerLimit | None) -> AnswerSize:
    """At most how large an answer is; observed groups count with the cap that they have.

    How many groups and values occur is not public. So where they are read from the engine before
    noise is added, the work counts all that may occur.
    """
    declared = sum(level.groups or 0 for level in levels)
    row_bytes = _row_bytes(plan)
    shown = (observed_cap(plan, levels, limit) or 0) * _observed(levels)
    size = (declared + shown) * row_bytes
    return AnswerSize(declared, size, work=size + _VALUE_BYTES * _ranked_values(plan, levels))


def _ranked_values(plan: Plan, levels: Sequence[Level]) -> int:
    """How many values the engine may count for quantiles: all points of a grid in all groups."""
    arguments = [measure.argument for measure in plan.measures if measure.quantile is not None]
    distinct_arguments = [argument for argument in dict.fromkeys(arguments) if argument is not None]
    points = sum(argument.high - argument.low + 1 for argument in distinct_arguments)
    return points * max((level.groups or 1 for level in levels), default=1)


def observed_cap(plan: Plan, levels: Sequence[Level], limit: AnswerLimit | None) -> int | None:
    """How many observed groups each level may show; None where nothing limits them."""
    observed = _observed(levels)
    if limit is None or not observed:
        return None
    declared = sum(level.groups or 0 for level in levels)
    # Declared groups are all answered and come first; observed ones share what is left of the
    # limit.
    room = min(limit.groups, limit.bytes // _row_bytes(plan)) - declared
    return max(room // observed, 1)


def _observed(levels: Sequence[Level]) -> int:
    return sum(not level.declared for level in levels)


def _row_bytes(plan: Plan) -> int:
    """The bytes of one row: in the answer, and beside it while its figures are made."""
    texts = {key.name: _text_bytes(plan, key) for key in plan.keys if key.kind is Kind.TEXT}
    keys = sum(texts.get(key.name, _NUMBER) for key in plan.keys)
    figures = len(plan.measures) * (_NUMBER + _ERRORS)
    return keys + figures + sum(_cell_bytes(node, texts) for node in plan.finish.expressions)


def _cell_bytes(node: exp.Expr, texts: dict[str, int]) -> int:
    """The bytes of a cell: a text is at most as long as all texts that it is joined of."""
    named = [column.name for column in node.find_all(exp.Column)]
    joined = sum(texts.get(name, 0) for name in named)
    literals = [literal_ for literal_ in node.find_all(exp.Literal) if literal_.is_string]
    return _NUMBER + _ERRORS + joined + (len(node.sql().encode()) if literals else 0)


def _text_bytes(plan: Plan, key: Key) -> int:
    """The bytes of the longest value of a key: of declared values, or of a text that was cut."""
    if isinstance(key.axis, Listed) and pa.types.is_string(key.axis.values.type):
        return int(pc.max(pc.binary_length(key.axis.values)).as_py() or 0)
    # An expression may join texts that the question spells out.
    return _CHARACTER * (key.length or USUAL_LENGTH) + len(plan.source.sql().encode())
