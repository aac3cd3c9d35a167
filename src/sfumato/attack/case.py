"""What an attack is given: tables where they lie, what is declared of them, what is supposed.

No rows come here: attacks count combinations in the engines, and look at counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sqlglot import exp

from sfumato.data.counting.frequencies import count_held
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, as_field, option, spell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from fractions import Fraction

    import pyarrow as pa

    from sfumato.attack.published import PublishedTable
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.errors import CallerError

    RowsAre = Literal["people's", "nobody's", "counts"]
    Asking = AbstractContextManager[Callable[[str, Fraction], pa.Table]]


def cannot_run(attack: str, reason: str) -> ParameterError:
    """The refusal of an attack that does not fit what it was given."""
    return ParameterError("attack_cannot_run", f"The attack {attack!r} cannot run here: {reason}")


def reason_of(error: CallerError) -> str:
    """Why an attack did not run, without its name."""
    return spell(error.sentence.partition(" cannot run here: ")[2] or error.sentence, as_field)


@dataclass(frozen=True, eq=False)
class HeldTable:
    """A table in an engine, and which of the declared columns it has."""

    engine: Engine
    table: exp.Table
    columns: tuple[Column, ...]
    _kept: dict[tuple[str, ...], Frequencies] = field(default_factory=dict, repr=False)
    whole: Frequencies | None = None
    """All its columns counted together, where that is held already."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns that it has."""
        return frozenset(column.name for column in self.columns)

    @cached_property
    def empty(self) -> bool:
        """Whether it has no rows at all."""
        if self.whole is not None:
            return not self.whole.total
        return not self.engine.run(exp.select("1").from_(self.table).limit(1)).num_rows

    def counted(self, names: Sequence[str], *, weight: str | None = None) -> Frequencies:
        """How often combinations of some columns occur; counted once, by the engine."""
        key = (*names, weight or "")
        if key not in self._kept and self.whole is not None:
            self._kept[key] = self.whole.of(names)
        elif key not in self._kept:
            self._kept[key] = count_held(self.engine, self.table, names, weight=weight)
        return self._kept[key]


@dataclass(frozen=True, eq=False)
class HeldRelease:
    """A released table; `buckets` has the sensitive values by group where they lie apart.

    `told` is what its side-car says of how it was made, where there is one. Its rows are people's,
    though they may be generalized; or nobody's, in a synthetic table; or counts, not rows at all:
    then `table` is what was counted, and `published` has the counts.
    """

    table: HeldTable
    buckets: HeldTable | None = None
    told: Mapping[str, Any] = field(default_factory=dict)
    rows_are: RowsAre = "people's"
    published: Sequence[PublishedTable] = ()
    promised: tuple[float, float] | None = None
    """The epsilon and delta of its promise, where it has one."""


class Door(Protocol):
    """Puts a throw-away table under a budget, and lets it be asked as any analyst asks."""

    def __call__(self, rows: pa.Table, schema: Schema, epsilon: Fraction) -> Asking:
        """Open it; what it gives is asked a question in SQL, at a price."""
        ...


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """What is supposed of the attacker, where an attack leaves that open."""

    sensitive: str | None = None
    """The column that is guessed; by default the one that the release tells most about."""
    sure: float = 1.0
    """From this belief on an attacker counts as sure."""
    exclude: int = 1
    """So many values the attacker can exclude of a victim, the worst ones."""
    gain: float = 2.0
    """A belief that grows by this factor is one that tells something."""
    near: float = 0.25
    """Numbers in such a share of a column's range are alike."""
    l: int | None = None  # noqa: E741  # the literature's own name
    """The l-diversity that was asked for, where no side-car says it."""
    population_size: int | None = None
    """How many people there are, of whom the release has some."""
    guesses: int = 2_000
    """So many people, descriptions or games are tried, where there are as many."""
    dealt: int | None = None
    """Values are dealt out to so many people at a time, to see what chance does; None for all."""
    together: int = 3
    """So many columns are taken together to single somebody out."""
    first: tuple[str, ...] = ()
    """The columns of the first of two lists; the second has the others."""
    epsilon: Fraction | None = None
    """What all questions of a script to the door may cost together."""
    knows: int | None = None
    """So many points of a path, or items of a list of ratings, are known of a victim."""
    cell: float = 0.01
    """The side of a cell in which a place is known, in the units of its columns."""
    minutes: float = 60.0
    """How exactly a time is known."""
    hops: int = 2
    """How far around a victim a graph is known; 1 is how many neighbours there are."""
    on: tuple[str, ...] = ()
    """The columns by which two tables are joined; by default all quasi-identifiers."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which column is whose: the person, item, rating, time, and so on of other data."""


@dataclass(frozen=True, eq=False)
class Case:
    """A release, what the attacker has beside it, and what only the score is made from.

    `known` is the attacker's list of people, `other` a second release of some of them; `original`
    is the table that the release was made from, `other_original` that of the other one, and
    `control` people like those who are not in it.
    """

    schema: Schema
    release: HeldRelease
    known: HeldTable | None = None
    original: HeldTable | None = None
    other: HeldRelease | None = None
    control: HeldTable | None = None
    options: AttackOptions = field(default_factory=AttackOptions)
    door: Door | None = None
    other_original: HeldTable | None = None

    @property
    def rows_are_nobodys(self) -> bool:
        """Whether released rows are made up, as a side-car or the owner says."""
        return self.release.rows_are == "nobody's"

    @cached_property
    def fitting_nobody(self) -> float:
        """The share of released rows that fit nobody in the original, where that is given."""
        from sfumato.attack.synthetic_link import (
            fitting_nobody,  # which reads labels by what is here
        )

        return fitting_nobody(self)

    @property
    def emptiness(self) -> str | None:
        """Which of its tables has no rows, in words; None where all have some."""
        if self.release.table.empty:
            return "the release has no rows, or all of them are suppressed. Release some."
        other = None if self.other is None else self.other.table
        given = {
            "original": (self.original, "the original has no people"),
            "known": (self.known, "the list of people is empty"),
            "other": (other, "the other release has no rows"),
            "other_original": (self.other_original, "the original of the other has no people"),
            "control": (self.control, "the control has no people"),
        }
        for name, (table, words) in given.items():
            if table is not None and table.empty:
                return f"{words}. Give {option(name)} a table with rows."
        return None

    def quasi(self, *tables: HeldTable) -> list[Column]:
        """The quasi-identifiers that the release and all these tables have."""
        return [
            column
            for column in self.schema.by_role(Role.QUASI)
            if all(column.name in one.names for one in (self.release.table, *tables))
        ]

    @property
    def sensitive(self) -> list[Column]:
        """The sensitive columns that the release has, or the one that was asked for."""
        held = self.release.buckets or self.release.table
        asked = self.options.sensitive
        found = [c for c in self.schema.by_role(Role.SENSITIVE) if c.name in held.names]
        if asked is None:
            return found
        others = [c for c in self.schema.columns if c.name in held.names]
        chosen = [column for column in others if column.name == asked]
        if not chosen:
            raise ParameterError(
                "attack_column_missing",
                f"The release has no column {quoted(asked)} to guess; "
                + suggestion(asked, [one.name for one in others]),
            )
        return chosen


def needed_sensitive(case: Case, attack: str) -> list[Column]:
    """The sensitive columns of a case that has some."""
    found = case.sensitive
    if not found:
        raise cannot_run(
            attack,
            'the release has no column that its schema calls role = "sensitive". Declare one, or '
            f"name a column with {option('sensitive')}.",
        )
    return found


def needed_quasi(case: Case, attack: str, *tables: HeldTable) -> list[Column]:
    """The quasi-identifiers that all have; where there is none, nobody can be found by one."""
    found = case.quasi(*tables)
    if not found:
        raise cannot_run(
            attack,
            "the release and the other tables have no quasi-identifier in common. Name columns "
            'alike, and declare them role = "quasi" in the schema.',
        )
    return found


def needed(table: HeldTable | None, attack: str, what: str, name: str) -> HeldTable:
    """A table without which an attack makes no sense."""
    if table is None:
        raise cannot_run(attack, f"it needs {what}. Give it with {option(name, metavar='FILE')}.")
    return table
