"""Which marginals are wanted: sets of columns, by their places among the columns of a request."""

from __future__ import annotations

from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING

from sfumato.arguments import shown
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import MAX_CELLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.counting.axes import Axis

    Set = tuple[int, ...]

# The most marginals of one release.
MAX_MARGINALS = 4096

# The most subsets of all their sets of columns: seconds of planning.
_MAX_SUBSETS = 1 << 16


def read_column_sets(axes: Sequence[Axis], *, way: object, of: object) -> tuple[Set, ...]:
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
        sets = _read_list([axis.column for axis in axes], of)
        _check_count(len(sets))
    _check(axes, sets)
    return sets


def table_name(axes: Sequence[Axis], column_set: Set) -> str:
    """The name of a marginal: its columns with commas between them."""
    return ",".join(axes[column].column for column in column_set)


def _read_list(columns: Sequence[str], of: object) -> tuple[Set, ...]:
    entries = of.split(",") if isinstance(of, str) else of
    if not isinstance(entries, list | tuple) or not entries:
        raise _not_column_sets(of)
    return tuple(_read_set(columns, entry) for entry in entries)


def _read_set(columns: Sequence[str], entry: object) -> Set:
    names = [piece.strip() for piece in entry.split("*")] if isinstance(entry, str) else entry
    if (
        not isinstance(names, list | tuple)
        or not names
        or not all(isinstance(name, str) for name in names)
    ):
        raise _not_column_sets(entry)
    for name in names:
        if name not in columns:
            raise ParameterError(
                "column_unknown",
                f"A marginal names {quoted(name)}, which is not among the columns to publish; "
                + suggestion(name, columns),
            )
    return tuple(sorted({columns.index(name) for name in names}))


def _not_column_sets(value: object) -> ParameterError:
    return ParameterError(
        "workload_invalid",
        "of must list sets of columns, such as 'age*sex,age*race' or [['age', 'sex']], not "
        f"{shown(value)}.",
    )


def _check_count(count: int) -> None:
    if count > MAX_MARGINALS:
        raise ParameterError(
            "problem_too_large",
            f"The request has {count:,} marginals; at most {MAX_MARGINALS:,} can be released at "
            "once. Take fewer columns or a lower way.",
        )


def _check(axes: Sequence[Axis], sets: Sequence[Set]) -> None:
    """Refuse tables that could not be told apart, and more cells than can be released."""
    names = [table_name(axes, column_set) for column_set in sets]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ParameterError(
            "workload_invalid",
            f"Two of the marginals would be named {quoted(twice)}. Name each set of columns once.",
        )
    subsets = sum(1 << len(column_set) for column_set in sets)
    if subsets > _MAX_SUBSETS:
        raise ParameterError(
            "problem_too_large",
            f"The marginals have {subsets:,} subsets of columns; at most {_MAX_SUBSETS:,} can be "
            "planned for. Take fewer or narrower ones; a single wide table is a 'histogram'.",
        )
    cells = sum(prod(axes[column].size for column in column_set) for column_set in sets)
    if cells > MAX_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"The marginals have {cells:,} cells together; at most {MAX_CELLS:,} can be released. "
            "Take fewer columns, a lower way or a coarser step.",
        )
