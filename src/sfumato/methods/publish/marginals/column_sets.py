"""Which marginals are wanted: sets of columns, by their places among the columns of a request."""

from __future__ import annotations

from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING

from sfumato.arguments import shown
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import LARGEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.counting.axes import Axis

    Set = tuple[int, ...]

MOST = 4096
"""The most marginals of one release."""

_MOST_SUBSETS = 1 << 16
"""The most subsets of all their sets of columns: seconds of planning."""


def wanted(axes: Sequence[Axis], *, way: object, of: object) -> tuple[Set, ...]:
    """Read the marginals that are asked for: all of `way` columns, 2 if nobody says, or those `of`.

    `of` is a text such as "age*sex,age*race", a list of texts such as "age*sex", or a list of
    lists of names. Places within a set are in the order of the columns.
    """
    if way is not None and of is not None:
        raise ParameterError(
            "options_conflict",
            "Give either way, for all marginals of so many columns, or of, for a list of them; "
            "not both.",
        )
    if of is None:
        most = len(axes)
        columns = min(2, most) if way is None else options.whole(way, "way", least=1, most=most)
        _check_count(comb(most, columns))
        sets = tuple(combinations(range(most), columns))
    else:
        sets = _listed([axis.column for axis in axes], of)
        _check_count(len(sets))
    _check(axes, sets)
    return sets


def table_name(axes: Sequence[Axis], places: Set) -> str:
    """The name of a marginal: its columns with commas between them."""
    return ",".join(axes[place].column for place in places)


def _listed(columns: Sequence[str], of: object) -> tuple[Set, ...]:
    parts = of.split(",") if isinstance(of, str) else of
    if not isinstance(parts, list | tuple) or not parts:
        raise _not_sets(of)
    return tuple(_places(columns, part) for part in parts)


def _places(columns: Sequence[str], part: object) -> Set:
    names = [one.strip() for one in part.split("*")] if isinstance(part, str) else part
    if (
        not isinstance(names, list | tuple)
        or not names
        or not all(isinstance(name, str) for name in names)
    ):
        raise _not_sets(part)
    for name in names:
        if name not in columns:
            raise ParameterError(
                "column_unknown",
                f"A marginal names {quoted(name)}, which is not among the columns to publish; "
                + suggestion(name, columns),
            )
    return tuple(sorted({columns.index(name) for name in names}))


def _not_sets(given: object) -> ParameterError:
    return ParameterError(
        "workload_invalid",
        "of must list sets of columns, such as 'age*sex,age*race' or [['age', 'sex']], not "
        f"{shown(given)}.",
    )


def _check_count(count: int) -> None:
    if count > MOST:
        raise ParameterError(
            "problem_too_large",
            f"{count:,} marginals are asked for; at most {MOST:,} can be released at once. Take "
            "fewer columns or a lower way.",
        )


def _check(axes: Sequence[Axis], sets: Sequence[Set]) -> None:
    """Refuse tables that could not be told apart, and more cells than can be released."""
    names = [table_name(axes, places) for places in sets]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ParameterError(
            "workload_invalid",
            f"Two of the marginals would be named {quoted(twice)}. Name each set of columns once.",
        )
    subsets = sum(1 << len(places) for places in sets)
    if subsets > _MOST_SUBSETS:
        raise ParameterError(
            "problem_too_large",
            f"The marginals have {subsets:,} subsets of columns; at most {_MOST_SUBSETS:,} can be "
            "planned for. Take fewer or narrower ones; a single wide table is a 'histogram'.",
        )
    cells = sum(prod(axes[place].size for place in places) for places in sets)
    if cells > LARGEST:
        raise ParameterError(
            "problem_too_large",
            f"The marginals have {cells:,} cells together; at most {LARGEST:,} can be released. "
            "Take fewer columns, a lower way or a coarser step.",
        )
