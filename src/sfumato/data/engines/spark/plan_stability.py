"""Whether a data frame gives the same rows at each look, as far as its plan tells.

Spark calls a plan deterministic in which no value is drawn. But which rows a limit or a sample
takes, and which row comes first, depends on the order in which rows happen to arrive, and that on
the columns that a query asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.data.engines.spark.identity import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS_AS_THEY_COME = {
    "Sample": "it is a sample",
    "Tail": "it takes the last rows of an unsorted frame",
    "GlobalLimit": "it takes the first rows (limit) without sorting by every column right before",
    "Offset": "it leaves out the first rows (offset) without sorting by every column right before",
    "Deduplicate": "it keeps one row of several that differ (dropDuplicates on some columns)",
}
_VALUES_AS_THEY_COME = {
    "First": "first()",
    "Last": "last()",
    "AnyValue": "any_value()",
    "NthValue": "nth_value()",
    "CollectList": "collect_list()",
    "ListAgg": "listagg()",
    "MaxBy": "max_by()",
    "MinBy": "min_by()",
    "Mode": "mode()",
    "RowNumber": "row_number()",
    "NTile": "ntile()",
    "Lag": "lag()",
    "Lead": "lead()",
    "ApproximatePercentile": "approx_percentile()",
}
"""What depends on the order of rows, by Spark's names and by those that people write."""

_CLOCK = {
    "CurrentTimestamp": "current_timestamp()",
    "Now": "now()",
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "LocalTimestamp": "localtimestamp()",
}
"""What tells the time of the look; within one query Spark holds it for the same."""


def why_not_fixed(plan: Any) -> str | None:
    """What in an analyzed plan makes two looks see other rows; None where nothing is seen."""
    for node in _nodes(plan):
        if not node.deterministic():
            return "it draws at random, or numbers rows as they happen to come"
        reason = _ROWS_AS_THEY_COME.get(_kind(node))
        if reason is not None and not _settled(node):
            return reason
        for expression in listed(node.expressions()):
            for inner in _tree(expression):
                reason = _why_unstable(inner)
                if reason is not None:
                    return reason
    return None


def _why_unstable(node: Any) -> str | None:
    """Why a part of an expression may give another value at the next look."""
    kind = _kind(node)
    if kind in _CLOCK:
        return f"{_CLOCK[kind]} is another at each look"
    if kind in _VALUES_AS_THEY_COME:
        return f"{_VALUES_AS_THEY_COME[kind]} depends on the order in which rows come"
    if kind == "WindowExpression" and _counts_rows(node):
        return "a window of rows depends on the order in which rows come; say RANGE instead of ROWS"
    return None


def _counts_rows(window: Any) -> bool:
    """Whether an aggregate's window ends after so many rows: rows that sort alike come as they may.

    Ranks, which Spark gives such a window too, are the same for rows that sort alike.
    """
    frame = window.windowSpec().frameSpecification()
    if _kind(window.windowFunction()) != "AggregateExpression":
        return False
    if _kind(frame) != "SpecifiedWindowFrame" or _kind(frame.frameType()) != "RowFrame$":
        return False
    ends = {_kind(frame.lower()), _kind(frame.upper())}
    return ends != {"UnboundedPreceding$", "UnboundedFollowing$"}


def file_indexes(plan: Any) -> list[Any]:
    """The lists of files that a plan reads, which Spark makes once."""
    relations = (node.relation() for node in _nodes(plan) if _kind(node) == "LogicalRelation")
    return [relation.location() for relation in relations if _kind(relation) == "HadoopFsRelation"]


def _settled(node: Any) -> bool:
    """Whether the rows that it takes are the same whatever order they come in."""
    if _kind(node) == "Deduplicate":
        return _ids(node.keys()) >= _ids(node.output())
    below = node.child()
    while _kind(below) in {"LocalLimit", "GlobalLimit", "Offset"}:
        below = below.child()
    if _kind(below) != "Sort" or not getattr(below, "global")():
        return False
    keys = [order.child() for order in listed(below.order())]
    plain = {key.exprId().id() for key in keys if _kind(key) == "AttributeReference"}
    return plain >= _ids(below.output())


def _ids(attributes: Any) -> set[int]:
    return {attribute.exprId().id() for attribute in listed(attributes)}


def _nodes(plan: Any) -> Iterator[Any]:
    for root in (plan, *listed(plan.subqueriesAll())):
        yield from _tree(root)


def _tree(node: Any) -> Iterator[Any]:
    yield node
    for child in listed(node.children()):
        yield from _tree(child)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
