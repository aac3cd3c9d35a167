"""Setting a vault up: create one, add data sets to it, change a budget."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tomlkit
from sqlglot import exp

from sfumato.data.engines.sources import duckdb_parts
from sfumato.data.schema.advice import DOMAIN, section
from sfumato.data.schema.names import clash, quoted
from sfumato.data.schema.schema_file import load as load_schema
from sfumato.data.schema.unit import Entity, Rows, Ties
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.methods.query.sql.tables import fanouts
from sfumato.operations.schema_draft import repeated_number, unbounded
from sfumato.platform_support import needs_locks
from sfumato.privacy.accounting.filters import Budget
from sfumato.text import holds_password
from sfumato.vault.config import (
    Config,
    PrivateSet,
    PublicSet,
    changing,
    check_name,
    check_purposes,
    save,
)
from sfumato.vault.consent.person_ids import check_person_kinds, person_kind, person_kinds
from sfumato.vault.creation import Addition, begun
from sfumato.vault.datastore import check_consent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tomlkit.items import InlineTable, Table

    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.release.open_table import Table as People

_TEXT = """\
# A vault of Sfumato. Who may write this file decides what is promised to the people in the data.
format = 1
snapshot = 1            # within one snapshot a stored answer is given again; raise it for new data
tick_milliseconds = 0   # answers leave at multiples of this; 0: at once
# deadline_seconds = 600  # what takes longer is charged but not answered; 0: no limit
max_epsilon = 10        # no budget and no question may be above it
# [limits]              # of one answer, of what each principal keeps, and of the vault
# groups = 100000
# answer_mebibytes = 32
# stored_mebibytes = 1024
# vault_mebibytes = 10240
"""


def create(folder: Path, *, database: str = "ledger.sqlite", head: Path | None = None) -> Config:
    """Make a folder a vault, with an empty ledger and the ledger's head outside the folder."""
    needs_locks("A vault")
    folder = folder.resolve()
    head = head.resolve() if head else folder.with_name(f"{folder.name}.head")
    config = Config(folder, database, head)
    document = tomlkit.parse(_TEXT)
    document["ledger"] = {"database": database, "head": os.path.relpath(head, folder)}
    with begun(config):
        save(folder, tomlkit.dumps(document), overwrite=False)
    return config


def _say_nothing(_warning: str) -> None:
    """Keep a warning to ourselves."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A data set to be added: what it is called, where it lies, and what its people are owed."""

    name: str
    source: str
    schema: Path
    unit: str | None = None
    max_rows: int | None = None
    max_groups: int | None = None
    epsilon: object = None
    delta: object = 0
    population: str | None = None
    consent: str | None = None
    purposes: Sequence[str] | None = None
    warn: Callable[[str], None] = _say_nothing

    def add_to(self, folder: Path) -> PrivateSet:
        """Check the data set and add it to a vault, with a budget for the people in it."""
        with changing(folder) as config:
            return self._add(config)

    def _add(self, config: Config) -> PrivateSet:
        _check_no_secret(self.source)
        schema = _checked(config, self.name, self.schema)
        schema = replace(schema, unit=self._unit(schema))
        check_bounds(schema, self.schema)
        schema.layout.check_private()
        if self.consent is not None:
            check_consent(schema, self.consent)
        population = self.population or self.name
        check_name(population, "A population")
        purposes = self._purposes(config, schema, population)
        budget = self._budget(config, population)
        source, at = _stored(config, self.source), _stored(config, str(self.schema))
        with Addition(config, self.name, self.warn) as addition:
            with addition.opened(_found(self.source), schema) as table:
                _check_people(table, self.warn)
                identity = addition.identity(_found(self.source), table, population, purposes)
            held = PrivateSet(source, at, schema.unit, population, self.consent, identity, purposes)
            budgets, amounts = {population: budget}, self._amounts(config, population)
            addition.make(held, self._entry(held), budgets=budgets, amounts=amounts)
        return held

    def _entry(self, held: PrivateSet) -> Table:
        entry = tomlkit.table()
        entry.update({"source": held.source, "schema": held.schema, "unit": _written(held.unit)})
        entry["population"] = held.population
        if self.consent is not None:
            entry["consent"] = self.consent
        if held.purposes:
            entry["purposes"] = list(held.purposes)
        return entry

    def _purposes(self, config: Config, schema: Schema, population: str) -> tuple[str, ...]:
        if self.purposes is None:
            if person_kinds(config, population):
                self.warn(
                    f"The people of {quoted(population)} are asked for consent in other data sets, "
                    f"but this one is used without. Add it with its purposes to ask them here, too."
                )
            return ()
        listed = tuple(self.purposes)
        check_purposes(listed, schema.unit)
        check_person_kinds({**person_kinds(config, population), self.name: person_kind(schema)})
        return listed

    def _amounts(self, config: Config, population: str) -> dict[str, Table]:
        """The budget of a population as it is written down, unless it is already."""
        if population in config.budgets:
            return {}
        amount = tomlkit.table()
        amount.update({"epsilon": str(self.epsilon), "delta": str(self.delta)})
        return {population: amount.add(tomlkit.nl())}

    def _unit(self, schema: Schema) -> Unit:
        """The unit given, else the schema's; bounds given alone replace those of the schema."""
        declared = schema.unit
        if self.unit == "row":
            return Rows(relation=declared.relation)
        if self.unit is None and isinstance(declared, Ties):
            return declared if self.max_rows is None else Ties(declared.people, self.max_rows)
        if self.unit is None and not declared.by_person:
            if self.max_rows is not None or self.max_groups is not None:
                raise ParameterError(
                    "unit_missing",
                    f"{option('max_rows')} and {option('max_groups')} bound the rows of one "
                    "person, but the unit is the row. Name the column that tells people apart with "
                    f"{option('unit')}.",
                )
            return declared
        usual = None if isinstance(declared, Ties) or not declared.by_person else declared
        most = self.max_rows
        if most is None and usual is not None:
            most = usual.max_rows
        groups = self.max_groups
        if groups is None and usual is not None and self.unit in (None, usual.column):
            groups = usual.max_groups
        if most is None:
            raise ParameterError(
                "max_rows_missing",
                f"With the unit {quoted(self.unit or '')} say how many rows of one person are used "
                f"at most: {option('max_rows', 10)}.",
            )
        column = declared.columns[0] if self.unit is None else self.unit
        return Entity(column, most, groups, declared.relation)

    def _budget(self, config: Config, population: str) -> Budget:
        existing = config.budgets.get(population)
        if self.epsilon is None:
            if existing is not None:
                return existing
            raise ParameterError(
                "epsilon_missing",
                f"The people of {quoted(population)} need a budget. Give it with "
                f"{option('epsilon')}, for example {option('epsilon', 1)}.",
            )
        budget = Budget.for_epsilon_delta(
            epsilon=self.epsilon, delta=self.delta, maximum=config.max_epsilon
        )
        if existing not in (None, budget):
            raise ParameterError(
                "budget_changed",
                f"{quoted(population)} already has another budget, which all its data sets share. "
                f"Leave {option('epsilon')} out.",
            )
        return budget


def add_public(
    folder: Path,
    *,
    name: str,
    source: str,
    schema: Path,
    keys: Mapping[tuple[str, ...], int],
    warn: Callable[[str], None] = _say_nothing,
) -> PublicSet:
    """Add a table about nobody, which questions may join to the private ones."""
    with changing(folder) as config:
        _check_no_secret(source)
        declared = _checked(config, name, schema)
        for columns in keys:
            for column in columns:
                declared.column(column)
        with Addition(config, name, warn) as addition:
            with addition.opened(_found(source), declared) as table:
                identity = addition.identity(_found(source), table, None)
                shared = fanouts(table.engine, declared)
            at = _stored(config, str(schema))
            held = PublicSet(_stored(config, source), at, keys, shared, identity)
            entry = tomlkit.table()
            entry.update({"public": True, "source": held.source, "schema": held.schema})
            listed = tomlkit.array()
            for columns, rows in keys.items():
                listed.append(_inline({"columns": list(columns), "rows": rows}))
            entry["keys"] = listed
            entry["fanouts"] = _inline(shared)
            addition.make(held, entry, budgets={}, amounts={})
        return held


def _checked(config: Config, name: str, schema: Path) -> Schema:
    check_name(name, "A data set")
    if clash([*config.datasets, name]):
        raise ParameterError(
            "dataset_exists",
            f"The vault already holds a data set {quoted(name)}. Choose another name.",
        )
    return replace(load_schema(schema), table=name)


def _check_people(table: People, warn: Callable[[str], None]) -> None:
    """Refuse a unit's column that names nobody or one person only; warn where it is idle."""
    unit = table.schema.unit
    if isinstance(unit, Ties):
        return  # rows without one of the two are nobody's tie
    if unit.column is None:
        if name := repeated_number(table):
            warn(
                f"Each row counts as a person of its own, but some share their {quoted(name)}. If "
                f"that names people, add the data set with the unit {quoted(name)} and, for "
                "example, at most 10 rows of each person."
            )
        return
    person = exp.column(unit.column, quoted=True)
    counts = [
        exp.Count(this=exp.Star()),
        exp.Count(this=person),
        exp.Count(this=exp.Distinct(expressions=[person.copy()])),
    ]
    named = [exp.alias_(one, f"sf_{place}") for place, one in enumerate(counts)]
    found = table.engine.run(exp.select(*named).from_(table.engine.table))
    rows, present, people = found.to_pylist()[0].values()
    if present < rows or (people == 1 and rows > 1):
        what = "is missing in some rows" if present < rows else "is the same in every row"
        raise SchemaError(
            "unit_column_idle",
            f"The privacy unit's column {unit.column!r} {what}, so it does not tell whose a row "
            'is. Name another column, or declare unit = "row".',
        )
    if people == rows > 1 and unit.max_rows > 1:
        warn(f'Every row has a {unit.column!r} of its own, so unit = "row" would say the same.')


def check_bounds(schema: Schema, file: Path) -> None:
    """Refuse numbers and dates of which nothing is declared: what is not public is not known."""
    if bare := unbounded(schema):
        names = ", ".join(quoted(column.name) for column in bare)
        lines = "; ".join(f"{section(one.name)}: {DOMAIN[one.kind]}" for one in bare)
        raise SchemaError(
            "bounds_missing",
            f"{names} {'has' if len(bare) == 1 else 'have'} no bounds, so nothing limits what one "
            f"person can change in a sum. Add to {file} what everybody knows, such as {lines}; "
            'or values = [...]; or role = "identifier" where it only names people; or drop the '
            "section. `sfumato inspect` proposes such lines, `sfumato add` on a terminal "
            "asks for them.",
        )


def _check_no_secret(source: str) -> None:
    """Refuse to keep a password: it belongs where the driver looks for it, not in a vault."""
    if holds_password(source):
        raise ParameterError(
            "source_secret",
            "Cannot add an address that holds a password or a token: vault.toml would keep it. "
            "Leave it out: PostgreSQL takes it from PGPASSWORD, PGPASSFILE or a service file, and "
            "Spark Connect from SPARK_CONNECT_AUTHENTICATE_TOKEN.",
        )


def _found(source: str) -> str:
    """A source as given from where the caller stands; a DuckDB file by its whole path."""
    location, table = duckdb_parts(source)
    if location and not Path(location).exists():
        return f"duckdb://{Path(location.lstrip('/')).resolve()}#{table}"
    return source


def _stored(config: Config, given: str) -> str:
    """A path as the vault keeps it: relative ones from its folder, so that both can move."""
    found = _found(given)
    if "://" in found or Path(found).is_absolute():
        return found
    return os.path.relpath(Path(found).resolve(), config.folder.resolve())


def _written(unit: Unit) -> str | InlineTable:
    facts = unit.facts()
    return _inline(facts) if facts else "row"


def _inline(values: Mapping[str, object]) -> InlineTable:
    table = tomlkit.inline_table()
    table.update(values)
    return table
