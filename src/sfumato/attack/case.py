"""The input of an attack: open tables, schema and options, and the columns that it needs.

Tables stay in their engines. Attacks count combinations of values there and compute on the counts.
Ratings, trajectories, logs and graphs are plain tables. A column has a role in them (person, item,
time) by the owner's option `columns`, by its name, or by the form of the schema. The person is
otherwise the column of the schema's privacy unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from sqlglot import exp

from sfumato.attack.options import AttackOptions
from sfumato.data.counting.frequencies import count_held
from sfumato.data.schema.column import Column, Role
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.schema import Edges
from sfumato.errors import ParameterError, option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from fractions import Fraction

    import pyarrow as pa

    from sfumato.attack.published_counts import PublishedTable
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.schema import Schema
    from sfumato.errors import CallerError

    RowsAre = Literal["people", "synthetic", "counts"]
    Asking = AbstractContextManager[Callable[[str, Fraction], pa.Table]]
    """An open table that takes an SQL query and its epsilon."""
    Door = Callable[[pa.Table, Schema, Fraction], Asking]
    """Protects a throw-away table with a budget, and opens it for queries as for any analyst."""


def cannot_run(attack: str, reason: str) -> ParameterError:
    """Return the error of an attack that does not fit its input."""
    return ParameterError("attack_cannot_run", f"The attack {attack!r} cannot run here: {reason}")


def reason_of(error: CallerError) -> str:
    """Return the reason why an attack did not run, without its name."""
    return error.sentence.partition(" cannot run here: ")[2] or error.sentence


@dataclass(frozen=True, eq=False)
class HeldTable:
    """A table in an engine, and the declared columns that it has."""

    engine: Engine
    table: exp.Table
    columns: tuple[Column, ...]
    _cached: dict[tuple[str, ...], Frequencies] = field(default_factory=dict, repr=False)
    joint: Frequencies | None = None
    """The counts of all its columns together, if they are already in memory."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its columns."""
        return frozenset(column.name for column in self.columns)

    @cached_property
    def empty(self) -> bool:
        """Whether it has no rows."""
        if self.joint is not None:
            return not self.joint.total
        return not self.engine.run(exp.select("1").from_(self.table).limit(1)).num_rows

    def counted(self, names: Sequence[str], *, weight: str | None = None) -> Frequencies:
        """Count combinations of some columns in the engine, once for each set of columns."""
        key = (*names, weight or "")
        if key not in self._cached and self.joint is not None:
            self._cached[key] = self.joint.of(names)
        elif key not in self._cached:
            self._cached[key] = count_held(self.engine, self.table, names, weight=weight)
        return self._cached[key]


@dataclass(frozen=True, eq=False)
class HeldRelease:
    """A released table, and the meaning of its rows.

    `buckets` has the sensitive values by group of an anatomy. `provenance` has the parameters of
    the method from the side-car. `rows_are` says whether rows belong to people (perhaps
    generalized), to nobody (a synthetic table), or are counts: then `table` is the counted
    original, and `published` has the counts.
    """

    table: HeldTable
    buckets: HeldTable | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    rows_are: RowsAre = "people"
    published: Sequence[PublishedTable] = ()
    promised: tuple[float, float] | None = None
    """The epsilon and delta of its guarantee, if it has one."""


@dataclass(frozen=True, eq=False)
class Case:
    """A release, the other tables of the attacker, and the tables that only the score uses.

    The attacker has `known`, a list of people, and `other`, a second release of some of them. The
    score uses `original`, the table that the release was made from, `other_original`, that of the
    second release, and `control`, similar people who are not in the original.
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
    def is_synthetic(self) -> bool:
        """Whether released rows are synthetic, by the side-car or by the owner's option."""
        return self.release.rows_are == "synthetic"

    @cached_property
    def unmatched_share(self) -> float:
        """The share of released rows that fit nobody in the original; 0 without an original."""
        from sfumato.attack.link import unmatched_share

        return unmatched_share(self)

    @property
    def emptiness(self) -> str | None:
        """The reason why a table without rows stops the attack; None where all tables have rows."""
        if self.release.table.empty:
            return "the release has no rows, or all of them are suppressed. Release some."
        other_release = None if self.other is None else self.other.table
        tables = {
            "original": (self.original, "the original has no people"),
            "known": (self.known, "the list of people is empty"),
            "other": (other_release, "the other release has no rows"),
            "other_original": (self.other_original, "the original of the other has no people"),
            "control": (self.control, "the control has no people"),
        }
        for name, (table, reason) in tables.items():
            if table is not None and table.empty:
                return f"{reason}. Give {option(name)} a table with rows."
        return None

    def quasi(self, *tables: HeldTable) -> list[Column]:
        """Return the quasi-identifiers that the release and all these tables have."""
        return [
            column
            for column in self.schema.by_role(Role.QUASI)
            if all(column.name in table.names for table in (self.release.table, *tables))
        ]

    @property
    def sensitive(self) -> list[Column]:
        """The sensitive columns that the release has, or the one that the options name."""
        held = self.release.buckets or self.release.table
        asked = self.options.sensitive
        declared = [c for c in self.schema.by_role(Role.SENSITIVE) if c.name in held.names]
        if asked is None:
            return declared
        columns = [c for c in self.schema.columns if c.name in held.names]
        chosen = [column for column in columns if column.name == asked]
        if not chosen:
            raise ParameterError(
                "column_unknown",
                f"The release has no column {quoted(asked)} to guess; "
                + suggestion(asked, [column.name for column in columns]),
            )
        return chosen


def needed_sensitive(case: Case, attack: str) -> list[Column]:
    """Return the sensitive columns of a release, or raise if it has none."""
    columns = case.sensitive
    if not columns:
        raise cannot_run(
            attack,
            'the release has no column that its schema calls role = "sensitive". Declare one, or '
            f"name a column with {option('sensitive')}.",
        )
    return columns


def needed_quasi(case: Case, attack: str, *tables: HeldTable) -> list[Column]:
    """Return the quasi-identifiers that all tables have, or raise if there are none."""
    columns = case.quasi(*tables)
    if not columns:
        raise cannot_run(
            attack,
            "the release and the other tables have no quasi-identifier in common. Name columns "
            'alike, and declare them role = "quasi" in the schema.',
        )
    return columns


def shared_columns(case: Case, attack: str, tables: Sequence[HeldTable]) -> list[Column]:
    """Return the columns that all tables have, without identifiers, or raise if there are none."""
    columns = [
        column
        for column in case.schema.columns
        if column.role is not Role.IDENTIFIER
        and all(column.name in table.names for table in tables)
    ]
    if not columns:
        raise cannot_run(attack, "the tables have no column in common. Name columns alike.")
    return columns


def needed(table: HeldTable | None, attack: str, description: str, name: str) -> HeldTable:
    """Return a table, or raise if an attack that needs it did not get it."""
    if table is None:
        raise cannot_run(
            attack, f"it needs {description}. Give it with {option(name, metavar='FILE')}."
        )
    return table


PERSON = "person"


_ENDS = ("source", "target")


def column_of(case: Case, attack: str, role: str) -> str | None:
    """Return the column of the release that plays a role, or None."""
    held = case.release.table.names
    asked = case.options.columns.get(role)
    if asked is not None:
        if asked not in held:
            raise cannot_run(
                attack,
                f"the release has no column {quoted(asked)} for the {role}; "
                + suggestion(asked, sorted(held)),
            )
        return asked
    if role in held:
        return role
    form = case.schema.form
    form_columns = (
        {} if form is None else {name: column for name, (column, _) in form.roles.items()}
    )
    if (declared := form_columns.get(role)) in held:
        return declared
    # Edges have two people, so their form names two ends and no role for each.
    if isinstance(form, Edges) and role in _ENDS:
        end = (form.source, form.target)[_ENDS.index(role)]
        return end if end in held else None
    unit = case.schema.unit.column
    return unit if role == PERSON and unit in held else None


def needed_column(case: Case, attack: str, role: str) -> str:
    """Return the column of the release that plays a role, or raise if there is none."""
    name = column_of(case, attack, role)
    if name is None:
        raise cannot_run(
            attack,
            f"it has to know which column is the {role}. Give "
            f"{option('column', metavar=role + '=COLUMN')}.",
        )
    return name
