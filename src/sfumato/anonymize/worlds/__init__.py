"""Answer queries on released tables: bounds over all possible worlds, and an estimate.

A released table stands for every table that it could have been made from, its possible worlds. An
answer has the lowest and the highest value of a count, sum, mean, minimum or maximum over all
worlds, and an estimate in which each label is uniform over the leaves that it covers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from sfumato import arguments
from sfumato.anonymize.worlds.bounds import AnswerBounds, tighten
from sfumato.anonymize.worlds.buckets import answer_buckets
from sfumato.anonymize.worlds.question import AggregateQuestion, parse
from sfumato.anonymize.worlds.selection import ReleasedTable
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.schema import Schema

Trust = Literal["public", "tight"]


def answer(
    sql: str,
    released: Frequencies,
    schema: Schema,
    *,
    labels: Trust = "public",
    starred: bool = True,
) -> AnswerBounds:
    """Answer a query on a generalized or suppressed table.

    `released` is counted over the quasi-identifiers, the sensitive columns and all others that the
    query names. With `labels` "public" a range says only that values lie in it; with "tight" also
    that both its ends occur in some row. Rows that are blank everywhere are suppressed and may be
    anything, unless `starred` says that there are none.
    """
    if labels not in get_args(Trust):
        raise ParameterError(
            "choice_unknown",
            f"Labels are public or tight, not {arguments.shown(labels)}. Take one of them.",
            parameter="labels",
            given=arguments.shown(labels),
        )
    question = parse(sql, schema)
    table = ReleasedTable.of(released, schema, question.where, question.measure, starred)
    selection, selected = table.select(question.where)
    bounds = table.choice(selected).answer(question.aggregate)
    if labels == "tight":
        return tighten(bounds, question.aggregate, selection, table, selected)
    return bounds


__all__ = ["AggregateQuestion", "AnswerBounds", "answer", "answer_buckets", "parse"]
