"""Inference: the released row nearest to a person reveals what the attacker does not know.

*Attacker*: knows all columns of people but one, and guesses the value of the nearest released row.
*Success*: the share of people guessed rightly; real numbers within a twentieth of the guess. If
several rows are equally near, one is picked at random, and the chance to be right counts.
*Baseline*: the value of a random released row.
*Control*: the same for people who are not in the data: it measures what holds in the world.
*Reference*: Giomi, Boenisch, Wehmeyer and Tasnadi 2023, with one neighbour; WP216 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed, needed_sensitive, shared_columns
from sfumato.attack.finding import Finding, Rate, of_columns
from sfumato.attack.records import Crowd, records
from sfumato.attack.sampling import below
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.records import CodedRows, Trait
    from sfumato.data.schema.column import Column


NAME = "inference"
# A guess of a real number counts as right within 5 %, as in Giomi et al. 2023.
_WITHIN = 0.05


def run(case: Case) -> Finding:
    """Guess the sensitive columns of people, and report the worst."""
    original = needed(case.original, NAME, "the original, to score the guesses", "original")
    tables = [case.release.table, original, *([] if case.control is None else [case.control])]
    secrets = [
        column
        for column in needed_sensitive(case, NAME)
        if all(column.name in t.names for t in tables)
    ]
    if not secrets:
        raise cannot_run(NAME, "the other tables have no sensitive column of the release.")
    return of_columns({secret.name: _attack_column(case, tables, secret) for secret in secrets})


def _attack_column(case: Case, tables: Sequence[HeldTable], secret: Column) -> Finding:
    known = [column for column in shared_columns(case, NAME, tables) if column.name != secret.name]
    if not known:
        raise cannot_run(NAME, "the tables have no column in common by which to guess.")
    # The secret comes last, so the first len(known) traits are those of the distance.
    traits, (released, *people) = records(NAME, [*known, secret], tables)
    crowd = Crowd.of(traits, range(len(known)), released)
    rates = [
        _right(crowd, traits[-1], secret, released, table, case.options.guesses, number)
        for number, table in enumerate(people)
    ]
    tried = rates[0].tried
    names = ", ".join(column.name for column in known)
    return Finding(
        attack=NAME,
        attacker=f"has the release, and knows {names} of people",
        meaning=f"People whose {secret.name} is guessed right",
        success=rates[0],
        baseline=_blind(traits[-1], secret, released, people[0], tried),
        control=rates[1] if len(rates) > 1 else None,
        remarks=[f"{secret.name} of {tried:,} people was guessed by the nearest released row."],
        rows=sum(table.rows for table in (released, *people)),
        reference="Giomi et al. 2023",
    )


def _agree(trait: Trait, secret: Column, guesses: IntArray, values: IntArray) -> BoolArray:
    """Return which guesses are right; guesses and values are codes."""
    agree: BoolArray = guesses == values
    if secret.kind is Kind.REAL and trait.numbers is not None:
        guess, value = trait.numbers[guesses], trait.numbers[values]
        agree |= np.abs(guess - value) <= _WITHIN * np.abs(guess)
    return agree


def _right(
    crowd: Crowd,
    trait: Trait,
    secret: Column,
    released: CodedRows,
    people: CodedRows,
    most: int,
    number: int,
) -> Rate:
    """Return the share of people whose secret is that of their nearest row."""
    drawn = people.codes[:, people.drawn(most, number)]
    size = drawn.shape[1]
    right, picked = np.zeros(size), np.zeros(size)
    for mine, rows in crowd.rows(crowd.nearest(drawn[:-1])):
        hits = _agree(trait, secret, released.codes[-1, rows], drawn[-1, mine])
        # Several rows may be equally near: the share of right ones is the chance of a random
        # pick.
        right += np.bincount(mine, released.counts[rows] * hits, size)
        picked += np.bincount(mine, released.counts[rows], size)
    return Rate.share(float((right / picked).sum()), size)


def _blind(trait: Trait, secret: Column, released: CodedRows, people: CodedRows, most: int) -> Rate:
    """Return the share of people whose secret is that of a random released row."""
    truth = people.codes[-1, people.drawn(most, 0)]
    guesses = released.codes[-1, released.drawn(len(truth), 1)]
    guesses = guesses[below(len(guesses), len(truth), 2)]
    return Rate.share(float(_agree(trait, secret, guesses, truth).sum()), len(truth))
