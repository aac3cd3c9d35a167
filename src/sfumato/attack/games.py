"""Games about the presence of one person: a script of questions to the door, then a guess.

A throw-away table holds rows of the owner's table: in every game a few at random, and the victim if
a coin says so. The attacker queries its counts through the real door, under a budget in memory, and
knows everything but the coin. All games run at once: the number of the game is a column, and every
row is in one game. So one question grouped by game serves every game at one cost, each game with
its own noise.
*Bound*: under epsilon-differential privacy nobody who sees all answers of a script of cost epsilon
guesses a balanced coin rightly with a chance above e^epsilon / (1 + e^epsilon); with a delta,
(e^epsilon + delta) / (1 + e^epsilon). If the lower end of the success exceeds it, the door is
broken.
*Reference*: Wasserman and Zhou 2010, theorem 2.4; Kairouz, Oh and Viswanath 2015. Decision
`audits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from math import exp as e_to
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.attack.case import cannot_run, needed
from sfumato.attack.finding import Finding, Rate, percent, plain
from sfumato.attack.sampling import below, mixed
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.names import free_prefix
from sfumato.data.schema.schema import Schema
from sfumato.errors import option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.attack.case import Case, Door, HeldTable

    Script = Callable[["Victim"], Sequence["GameQuestion"]]

TABLE = "games"
# Rows in each game beside the victim. Their number does not matter, because the attacker knows
# them.
_COMPANIONS = 20
# Values in one IN list at most: a longer query would only be slower.
_MOST_LISTED = 50


@dataclass(frozen=True)
class GameQuestion:
    """A count of the rows that fulfil a condition, and its weight in the sum of all answers."""

    where: exp.Expr | None
    weight: Fraction


@dataclass(frozen=True, eq=False)
class Victim:
    """The victim of a script: a condition that no companion fulfils, and one for half of all."""

    described: exp.Expr
    """A condition that the victim alone fulfils."""
    half: exp.Expr
    """A condition that about half of all people fulfil."""
    values: dict[str, Any]


def bound(epsilon: Fraction | float, delta: float = 0.0) -> float:
    """Return the largest chance to guess a balanced coin that a guarantee allows."""
    # Divide by e^epsilon on both sides, so that a large epsilon does not overflow.
    shrunk = e_to(-float(epsilon))
    return min((1 + delta * shrunk) / (1 + shrunk), 1.0)


def needed_door(case: Case, attack: str) -> tuple[Door, HeldTable, Fraction]:
    """Return the door, the owner's table and the epsilon of the whole script."""
    if case.options.epsilon is None or case.door is None:
        raise cannot_run(
            attack,
            "it sends queries, and needs an epsilon for all of them together. Give "
            f"{option('epsilon', 1)}.",
        )
    table = needed(case.original, attack, "the owner's table", "original")
    return case.door, table, case.options.epsilon


def played(case: Case, attack: str, script: Script, attacker: str, reference: str) -> Finding:
    """Play a script in every game, and measure how often the coin is guessed."""
    door, table, epsilon = needed_door(case, attack)
    games = case.options.guesses
    rows, schema, coin, victim = _dealt(attack, table, games)
    questions = script(victim)
    # Equal shares: sequential composition makes the whole script cost epsilon.
    price = epsilon / len(questions)
    evidence = np.zeros(games)
    with door(rows, schema, epsilon) as ask:
        for question in questions:
            evidence += float(question.weight) * _counts(ask, schema, question, price, games)
    # The weighted sum of exact answers is the coin itself, 0 or 1: one half is the best
    # threshold.
    right = int(((evidence > 0.5) == coin).sum())
    most = bound(epsilon)
    told_most = (
        f"{len(questions)} questions at epsilon {float(price):.3g}, together "
        f"{float(epsilon):.3g}: nobody can be right in more than {percent(most)} of games."
    )
    return Finding(
        attack=attack,
        attacker=attacker,
        meaning="Games in which the attacker tells whether the victim is in the table",
        success=Rate.share(right, games),
        baseline=Rate.share(games / 2, games),
        bound=most,
        examples=[{name: plain(value) for name, value in victim.values.items()}],
        remarks=[told_most],
        rows=rows.num_rows,
        reference=reference,
    )


def _counts(
    ask: Callable[[str, Fraction], pa.Table],
    schema: Schema,
    question: GameQuestion,
    price: Fraction,
    games: int,
) -> FloatArray:
    """Return the answer to a question in every game."""
    game = exp.column(schema.columns[0].name, quoted=True)
    query = exp.select(game, exp.Count(this=exp.Star()).as_("n")).from_(TABLE).group_by(game.copy())
    if question.where is not None:
        query = query.where(question.where)
    answer = ask(query.sql(dialect="duckdb"), price)
    game_index, counts = answer.column(0), answer.column("n")
    known = np.asarray(game_index.is_valid())
    counts_by_game = np.zeros(games)
    counts_by_game[np.asarray(game_index.drop_null())] = np.asarray(counts)[known]
    return counts_by_game


def _dealt(attack: str, table: HeldTable, games: int) -> tuple[pa.Table, Schema, BoolArray, Victim]:
    """Return the rows of all games, their schema, the coins, and the victim."""
    columns = _columns(attack, table)
    names = [column.name for column in columns]
    people = table.counted(names)
    values = [axis.decode(codes) for axis, codes in zip(people.axes, people.codes, strict=True)]
    complete = np.flatnonzero(
        np.logical_and.reduce([np.asarray(value.is_valid()) for value in values])
    )
    if len(complete) < 2:
        raise cannot_run(attack, "no two rows of the table differ in what is known of people.")
    # A rare victim is the worst case: few companions look the same.
    rarest = complete[people.counts[complete] == people.counts[complete].min()]
    chosen = int(rarest[below(len(rarest), 1, 1)[0]])
    companion_kinds = complete[complete != chosen]
    companions = companion_kinds[below(len(companion_kinds), games * _COMPANIONS, 2)]
    # The highest bit of a mixed word is a fair coin.
    coin = (mixed(games, 3) >> np.uint64(63)) == 1
    people_dealt = np.concatenate([companions, np.full(int(coin.sum()), chosen)])
    number = np.concatenate([np.repeat(np.arange(games), _COMPANIONS), np.flatnonzero(coin)])
    game = Column(
        f"{free_prefix(names)}game", Kind.INTEGER, Role.OTHER, Bounds(0, games - 1), nullable=False
    )
    cells = [value.take(pa.array(people_dealt)) for value in values]
    rows = pa.table([pa.array(number), *cells], names=[game.name, *names])
    known = {name: value[chosen].as_py() for name, value in zip(names, values, strict=True)}
    described = exp.and_(*(_cell(name).eq(_literal(value)) for name, value in known.items()))
    victim = Victim(described, _half(names, values), known)
    return rows, Schema(TABLE, (game, *columns)), coin, victim


def _half(names: Sequence[str], values: Sequence[pa.Array]) -> exp.Expr:
    """Return a condition for about half of the rows: some values of the smallest column."""
    kinds = [value.drop_null().unique() for value in values]
    index = min(
        (number for number, kind in enumerate(kinds) if len(kind) > 1),
        key=lambda position: len(kinds[position]),
    )
    values_of_half = kinds[index].to_pylist()[: min(len(kinds[index]) // 2, _MOST_LISTED)]
    return _cell(names[index]).isin(*map(_literal, values_of_half))


def _columns(attack: str, table: HeldTable) -> list[Column]:
    """Return the columns that describe people: quasi-identifiers, else all but identifiers."""
    # Equality of real numbers is not a description that survives rounding.
    held = [column for column in table.columns if column.kind is not Kind.REAL]
    chosen = [column for column in held if column.role is Role.QUASI] or [
        column for column in held if column.role is not Role.IDENTIFIER
    ]
    if not chosen:
        raise cannot_run(attack, "the table has no column by which to describe people.")
    return [Column(chosen_column.name, chosen_column.kind, Role.QUASI) for chosen_column in chosen]


def _cell(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, date):
        return exp.cast(exp.convert(value.isoformat()), "DATE")
    return exp.convert(value)
