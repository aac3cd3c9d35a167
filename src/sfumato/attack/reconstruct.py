"""Reconstruction: counts of random groups of people reveal everybody's secret together.

*Attacker*: knows who is in which of many random groups, asks through the real door how many of each
group have the secret, and solves for all secrets by least squares. No question names anybody.
*Success*: the share of people whose secret is found; half of them have it. The secret is to have
the commoner half of the sensitive values of the owner's table. People are split into blocks, and
every question asks all blocks at once.
*Baseline*: a guess, right for half.
*Bound*: as in `games`: a person is among the rows with the secret or not.
*Reference*: Dinur and Nissim 2003; Kasiviswanathan, Rudelson and Smith 2013 for least squares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.attack.case import cannot_run
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.games import TABLE, bound, needed_door
from sfumato.attack.sampling import mixed, shuffled
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Schema
from sfumato.errors import option

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.attack.case import Case, HeldTable


NAME = "reconstruct"
# Blocks of 20 people and 40 questions: twice as many equations as unknown secrets in each block.
_IN_BLOCK = 20
_MOST_BLOCKS = 100
_GROUPS = 40
_AT_ONCE = 40


def run(case: Case) -> Finding:
    """Count secrets in random groups, and solve for everybody's secret."""
    door, table, epsilon = needed_door(case, NAME)
    column, secret = _secrets(case, table)
    blocks = len(secret) // _IN_BLOCK
    inside = (mixed(_GROUPS * len(secret), 6) >> np.uint64(63)).reshape(_GROUPS, -1) == 1
    rows, schema = _table(secret, inside)
    with door(rows, schema, epsilon) as ask:
        counts = _ask_queries(ask, epsilon / _GROUPS, blocks)
    right = 0
    for block in range(blocks):
        people = slice(block * _IN_BLOCK, (block + 1) * _IN_BLOCK)
        groups = inside[:, people].astype(np.float64)
        # With noise far below the square root of a block least squares finds nearly all secrets.
        solution = np.linalg.lstsq(groups, counts[:, block], rcond=None)[0] > 0.5
        right += int((solution == secret[people]).sum())
    most, tried = bound(epsilon), len(secret)
    remark = (
        f"{_GROUPS} questions cost epsilon {float(epsilon):.3g} together: nobody can be right of "
        f"more than {percent(most)} of people."
    )
    return Finding(
        attack=NAME,
        attacker=f"asks how many of {_GROUPS} random groups have a secret, and solves for all",
        meaning=f"People whose half of {column.name} is found",
        success=Rate.share(right, tried),
        baseline=Rate.share(tried / 2, tried),
        bound=most,
        remarks=[remark],
        rows=tried,
        reference="Dinur and Nissim 2003",
    )


def _secrets(case: Case, table: HeldTable) -> tuple[Column, BoolArray]:
    """Return the guessed column, and the secrets of people, half of them true, in mixed order."""
    asked = case.options.sensitive
    columns = [
        column
        for column in table.columns
        if (column.name == asked if asked is not None else column.role is Role.SENSITIVE)
    ]
    if not columns:
        raise cannot_run(
            NAME,
            'the table has no column with role = "sensitive". Name one with '
            f"{option('sensitive')}.",
        )
    counts = np.sort(table.counted([columns[0].name]).counts)[::-1]
    # The secret is the commonest value, and others as long as all make up at most half of the rows.
    with_secret = int(counts[: max(1, int((np.cumsum(counts) <= counts.sum() / 2).sum()))].sum())
    per_half = min(with_secret, int(counts.sum()) - with_secret, _IN_BLOCK * _MOST_BLOCKS // 2)
    per_half -= per_half % (_IN_BLOCK // 2)
    if not per_half:
        raise cannot_run(
            NAME, f"it needs {_IN_BLOCK // 2} people with and without what is guessed."
        )
    secret = np.repeat([True, False], per_half)
    return columns[0], secret[shuffled(2 * per_half, 5)]


def _table(secret: BoolArray, inside: BoolArray) -> tuple[pa.Table, Schema]:
    """Return the table of people, with their block, their secret and their groups."""
    blocks = len(secret) // _IN_BLOCK
    names = [_group(number) for number in range(_GROUPS)]
    rows = pa.table(
        [pa.array(np.arange(len(secret)) // _IN_BLOCK), pa.array(secret), *map(pa.array, inside)],
        names=["block", "secret", *names],
    )
    block = Column("block", Kind.INTEGER, Role.OTHER, Bounds(0, blocks - 1), nullable=False)
    flags = [Column(name, Kind.BOOLEAN, nullable=False) for name in ("secret", *names)]
    return rows, Schema(TABLE, (block, *flags))


def _ask_queries(
    ask: Callable[[str, Fraction], pa.Table], price: Fraction, blocks: int
) -> FloatArray:
    """Ask how many of every group have the secret; rows are groups, columns are blocks."""
    answers = []
    for start in range(0, _GROUPS, _AT_ONCE):
        names = [_group(number) for number in range(start, start + _AT_ONCE)]
        figures = [
            exp.Filter(
                this=exp.Count(this=exp.Star()),
                expression=exp.Where(this=exp.column(name)),
            ).as_(f"n_{name}")
            for name in names
        ]
        query = exp.select("block", *figures).from_(TABLE).where("secret").group_by("block")
        answer = ask(query.sql(dialect="duckdb"), price * len(names))
        known = answer.filter(answer.column("block").is_valid()).sort_by("block")
        assert known.num_rows == blocks
        answers += [np.asarray(known.column(f"n_{name}"), dtype=np.float64) for name in names]
    return np.stack(answers)


def _group(number: int) -> str:
    return f"group_{number}"
