"""Registration: add data sets to a vault, with a budget for their people, or redeclare them.

A data set is checked first, then added in one step: the writing of `vault.toml`. Accounts and
bindings that the ledger then lacks are made by the next process that opens the vault. A vault
stores addresses of tables and schemas, so a schema in memory is written into its folder, and a
table in memory is refused. Decisions `ledger`, `charge-order` and `console`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
from sqlglot import exp

from sfumato import arguments
from sfumato.data.engines.sources import duckdb_parts, identify
from sfumato.data.schema.names import clash, quoted, suggestion
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import dump, parse
from sfumato.data.schema.schema_file import load as load_schema
from sfumato.data.schema.schema_file import save as save_schema
from sfumato.data.schema.toml_document import DOMAIN, section_header
from sfumato.data.schema.unit import UNITS, Entity, Rows, Ties
from sfumato.errors import ParameterError, SchemaError, SfumatoError, option
from sfumato.methods.query.sql.tables import measure_fanouts
from sfumato.operations.schema_draft import repeated_number, unbounded
from sfumato.privacy.accounting.filters import Budget
from sfumato.release.files_in_use import SECRET, VAULT
from sfumato.release.fingerprint import write_secret
from sfumato.release.open_table import Table, read
from sfumato.text import holds_password
from sfumato.vault.accounts import check_accounts, open_accounts, open_ledger, source_of
from sfumato.vault.config import (
    Config,
    PrivateSet,
    PublicSet,
    changing,
    check_name,
    check_purposes,
    save,
)
from sfumato.vault.consent.consent_filter import check_person_kinds, person_kind, person_kinds
from sfumato.vault.datastore import check_consent
from sfumato.vault.sources import KnownSources, look, rows_of, secret_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tomlkit.items import Array, InlineTable
    from tomlkit.items import Table as TomlTable

    from sfumato.data.schema.unit import Unit
    from sfumato.vault.vault import Vault


def add_dataset(
    folder: Path,
    name: str,
    source: str,
    schema: str | Schema | None,
    *,
    public: bool,
    unique: Sequence[tuple[str, ...]],
    warn: Callable[[str], None],
    **asked: Any,
) -> PrivateSet | PublicSet:
    """Add a private data set with its budget, or a public table."""
    _, declared, _ = declared_of(name, source, schema, None)
    options: dict[str, Any] = {"name": name, "source": source, "warn": warn}
    with _schema_file(folder, name, declared) as file:
        if not public:
            if unique:
                raise ParameterError(
                    "options_conflict", f"{option('unique')} is for public tables. Leave it out."
                )
            return Registration(**options, schema=file, **asked).add_to(folder)
        useless = [name for name, value in asked.items() if value not in (None, "0")]
        if useless:
            raise ParameterError(
                "options_conflict", f"A public table has no {option(useless[0])}. Leave it out."
            )
        keys = dict.fromkeys(unique, 1)
        return add_public(folder, schema=file, keys=keys, **options)


def declared_of(
    name: str, source: object, schema: object, unit: object
) -> tuple[str, object, str | None]:
    """The address of a table, its schema or the schema's path, and a unit given as a text."""
    check_name(arguments.text(name, "name"), "A data set")
    address = _lasting_address(source)
    declared = source.schema if schema is None and isinstance(source, Table) else schema
    if declared is None:
        raise ParameterError(
            "schema_missing",
            f"What {quoted(name)} holds must be declared. Give {option('schema', f'{name}.toml')}; "
            f"'sfumato inspect {address}' can write one to begin with, and 'sfumato add' on a "
            "terminal asks for its columns one by one.",
        )
    if unit is None or isinstance(unit, str):
        return address, declared, unit
    allowed = "sf.Rows(), sf.Entity(...), 'row' or the name of a column"
    given_unit = arguments.require(unit, "unit", UNITS, allowed)
    return address, replace(loaded(declared), unit=given_unit), None


def _lasting_address(source: object) -> str:
    """The address of a table; refused for tables in memory, which no later process can open."""
    address = source.source if isinstance(source, Table) else source
    if not isinstance(address, str | Path):
        raise ParameterError(
            "source_unsupported",
            "A vault answers from a file or a database, not from a table in memory: "
            f"{arguments.shown(address)} was given. Save the table as Parquet and add the path, or "
            "put it under a budget for this process with sf.protect.",
        )
    return str(address)


def loaded(schema: object) -> Schema:
    """A schema, read from its file if a path is given."""
    if isinstance(schema, Schema):
        return schema
    return Schema.load(arguments.require(schema, "schema", (str, Path), "a path or an sf.Schema"))


@contextmanager
def _schema_file(folder: Path, name: str, schema: object) -> Iterator[Path]:
    """The file of a schema; one in memory is written into the vault, and removed on failure."""
    if not isinstance(schema, Schema):
        yield arguments.path(schema, "schema")
        return
    file = folder / f"{name}.toml"
    save_schema(schema, file, private=True)
    try:
        yield file
    except BaseException:
        file.unlink()
        raise


_FAILED = {"engine_failed", "table_missing"}
"""Errors of a view that reads files which its engine may not reach."""


class Addition:
    """The addition of a data set, under the lock of the vault's configuration."""

    def __init__(self, config: Config, name: str, warn: Callable[[str], None]) -> None:
        self._config = config
        self._name = name
        self._renewed: Mapping[str, tuple[str, ...]] = {}
        self._stack = ExitStack()
        self._ledger = open_ledger(config)
        try:
            self._secret = secret_of(config, self._ledger)
        except BaseException:
            self._ledger.close()
            raise
        self._stack.callback(self._ledger.close)
        self._sources = KnownSources(config, self._ledger, self._secret, warn)

    def __enter__(self) -> Addition:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def opened(self, source: str, schema: Schema) -> Iterator[Table]:
        """Open a source; a view that fails because it reads other files is refused as such."""
        try:
            with closing(read(source, schema)) as table:
                yield table
        except SfumatoError as error:
            if error.code in _FAILED:
                # It looks at the view's own text and refuses what reaches outside, with the name
                # of it.
                identify(source)
            raise

    def identity(
        self, source: str, table: Table, population: str | None, purposes: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Refuse a source that is registered under another name; return its names to record."""
        new = look(source, table, self._secret)
        known = self._sources.check(new, population, rows_of(table), purposes)
        self._renewed = self._sources.renewed(known)
        return new.record

    def commit(
        self,
        held: PrivateSet | PublicSet,
        entry: TomlTable,
        *,
        budgets: Mapping[str, Budget],
        amounts: Mapping[str, TomlTable],
    ) -> None:
        """Check the accounts, write the configuration, then update the ledger.

        The order matters: after a crash between the two, the next opening completes the ledger. The
        other way round, the ledger would hold accounts of no data set.
        """
        sets = {
            name: replace(dataset, identity=self._renewed.get(name, dataset.identity))
            for name, dataset in self._config.datasets.items()
        }
        new = replace(
            self._config,
            datasets={**sets, self._name: held},
            budgets={**self._config.budgets, **budgets},
        )
        check_accounts(self._ledger, new)
        entry["identity"] = _lines(held.identity)
        self._write(entry, amounts)
        open_accounts(self._ledger, new)

    def _write(self, entry: TomlTable, amounts: Mapping[str, TomlTable]) -> None:
        """Write the configuration with the new data set; other lines and comments stay."""
        folder = self._config.folder
        key, keyless = folder / SECRET, not (folder / SECRET).exists()
        document = tomlkit.parse((folder / VAULT).read_text(encoding="utf-8"))
        for table, added in (("populations", amounts), ("datasets", {self._name: entry})):
            if added:
                tables = document.setdefault(table, tomlkit.table(is_super_table=True))
                for key_name, values in added.items():
                    tables[key_name] = values
        for name, identity in self._renewed.items():
            document["datasets"][name]["identity"] = _lines(identity)
        # The key before the fingerprints that it made: without it they could never be compared.
        if keyless:
            write_secret(key, self._secret)
        try:
            save(folder, tomlkit.dumps(document))
        except BaseException:
            if keyless:
                key.unlink(missing_ok=True)
            raise


def _lines(identity: tuple[str, ...]) -> Array:
    listed = tomlkit.array()
    listed.extend(identity)
    return listed.multiline(multiline=True)


def _say_nothing(_warning: str) -> None:
    """Keep a warning to ourselves."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A private data set to be added: name, address, schema, unit, budget, consent and purposes."""

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
        source, at = _vault_path(config, self.source), _vault_path(config, str(self.schema))
        with Addition(config, self.name, self.warn) as addition:
            given = _absolute_source(self.source)
            # Rows are read here, for checks of which only the owner sees the outcome; no budget is
            # charged.
            with addition.opened(given, schema) as table:
                _check_people(table, self.warn)
                identity = addition.identity(given, table, population, purposes)
            held = PrivateSet(source, at, schema.unit, population, self.consent, identity, purposes)
            budgets, amounts = {population: budget}, self._amounts(config, population)
            addition.commit(held, self._entry(held), budgets=budgets, amounts=amounts)
        return held

    def _entry(self, held: PrivateSet) -> TomlTable:
        entry = tomlkit.table()
        facts = held.unit.facts()
        entry.update({"source": held.source, "schema": held.schema})
        entry["unit"] = _inline(facts) if facts else "row"
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

    def _amounts(self, config: Config, population: str) -> dict[str, TomlTable]:
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
        # A bound without a person bounds nothing, and would look as if it did.
        if self.unit is None and not declared.by_person:
            if self.max_rows is not None or self.max_groups is not None:
                raise ParameterError(
                    "parameter_missing",
                    f"{option('max_rows')} and {option('max_groups')} bound the rows of one "
                    "person, but the unit is the row. Name the column that tells people apart with "
                    f"{option('unit')}.",
                    parameter="unit",
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
                "parameter_missing",
                f"With the unit {quoted(self.unit or '')} say how many rows of one person are used "
                f"at most: {option('max_rows', 10)}.",
                parameter="max_rows",
            )
        column = declared.columns[0] if self.unit is None else self.unit
        return Entity(column, most, groups, declared.relation)

    def _budget(self, config: Config, population: str) -> Budget:
        existing = config.budgets.get(population)
        if self.epsilon is None:
            if existing is not None:
                return existing
            raise ParameterError(
                "parameter_missing",
                f"The people of {quoted(population)} need a budget. Give it with "
                f"{option('epsilon')}, for example {option('epsilon', 1)}.",
                parameter="epsilon",
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
    """Add a public table, about nobody, which queries may join to private ones."""
    with changing(folder) as config:
        _check_no_secret(source)
        declared = _checked(config, name, schema)
        for columns in keys:
            for column in columns:
                declared.column(column)
        with Addition(config, name, warn) as addition:
            with addition.opened(_absolute_source(source), declared) as table:
                identity = addition.identity(_absolute_source(source), table, None)
                # Measured, since the rows are public; a private row may be copied this often by a
                # join.
                shared = measure_fanouts(table.engine, declared)
            at = _vault_path(config, str(schema))
            held = PublicSet(_vault_path(config, source), at, keys, shared, identity)
            entry = tomlkit.table()
            entry.update({"public": True, "source": held.source, "schema": held.schema})
            listed = tomlkit.array()
            for columns, rows in keys.items():
                listed.append(_inline({"columns": list(columns), "rows": rows}))
            entry["keys"] = listed
            entry["fanouts"] = _inline(shared)
            addition.commit(held, entry, budgets={}, amounts={})
        return held


def _checked(config: Config, name: str, schema: Path) -> Schema:
    check_name(name, "A data set")
    if clash([*config.datasets, name]):
        raise ParameterError(
            "name_taken",
            f"The vault already holds a data set {quoted(name)}. Choose another name.",
            parameter="name",
        )
    return replace(load_schema(schema), table=name)


def _check_people(table: Table, warn: Callable[[str], None]) -> None:
    """Refuse a unit column with missing values or one value; warn if it changes nothing."""
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
    named = [exp.alias_(count, f"sf_{index}") for index, count in enumerate(counts)]
    counted = table.engine.run(exp.select(*named).from_(table.engine.table))
    rows, present, people = counted.to_pylist()[0].values()
    # Rows without a person would be bounded as nobody's and hide nobody.
    if present < rows or (people == 1 and rows > 1):
        fault = "is missing in some rows" if present < rows else "is the same in every row"
        raise SchemaError(
            "column_unsuitable",
            f"The privacy unit's column {unit.column!r} {fault}, so it does not tell whose a row "
            'is. Name another column, or declare unit = "row".',
            parameter="unit",
        )
    if people == rows > 1 and unit.max_rows > 1:
        warn(f'Every row has a {unit.column!r} of its own, so unit = "row" would say the same.')


def check_bounds(schema: Schema, file: Path) -> None:
    """Refuse numbers and dates without declared bounds: bounds from the rows would be private."""
    if bare := unbounded(schema):
        names = ", ".join(quoted(column.name) for column in bare)
        lines = "; ".join(
            f"{section_header(column.name)}: {DOMAIN[column.kind]}" for column in bare
        )
        raise SchemaError(
            "bounds_missing",
            f"{names} {'has' if len(bare) == 1 else 'have'} no bounds, so nothing limits what one "
            f"person can change in a sum. Add to {file} what everybody knows, such as {lines}; "
            'or values = [...]; or role = "identifier" where it only names people; or drop the '
            "section. `sfumato inspect` proposes such lines, `sfumato add` on a terminal "
            "asks for them.",
        )


def _check_no_secret(source: str) -> None:
    """Refuse an address with a password; drivers have better places for it than vault.toml."""
    if holds_password(source):
        raise ParameterError(
            "source_unsupported",
            "Cannot add an address that holds a password or a token: vault.toml would keep it. "
            "Leave it out: PostgreSQL takes it from PGPASSWORD, PGPASSFILE or a service file, and "
            "Spark Connect from SPARK_CONNECT_AUTHENTICATE_TOKEN.",
        )


def _absolute_source(source: str) -> str:
    """A source as the caller gives it; a DuckDB file by its absolute path."""
    location, table = duckdb_parts(source)
    if location and not Path(location).exists():
        return f"duckdb://{Path(location.lstrip('/')).resolve()}#{table}"
    return source


def _vault_path(config: Config, source: str) -> str:
    """A path as the vault stores it: relative to its folder, so that both can be moved together."""
    path = _absolute_source(source)
    if "://" in path or Path(path).is_absolute():
        return path
    return os.path.relpath(Path(path).resolve(), config.folder.resolve())


def _inline(values: Mapping[str, object]) -> InlineTable:
    table = tomlkit.inline_table()
    table.update(values)
    return table


def schema_file(config: Config, name: str) -> Path:
    """The file in which a data set of a vault is declared."""
    held = config.datasets.get(name)
    if held is None:
        raise ParameterError(
            "dataset_unknown", f"There is no {quoted(name)}; {suggestion(name, config.datasets)}"
        )
    return config.folder / held.schema


def redeclare(vault: Vault, name: str, schema: Schema) -> None:
    """Replace the schema of a data set; its privacy unit stays."""
    folder = vault.config.folder
    with changing(folder) as config:
        file = schema_file(config, name)
        held = config.datasets[name]
        schema = replace(schema, unit=load_schema(file).unit)
        if isinstance(held, PrivateSet):
            _check_private(config, name, held, replace(schema, table=name, unit=held.unit), file)
        # Written, read again and tried on the rows before the old file is replaced.
        parse(dump(schema, folder=file.parent), str(file), file.parent)
        with read(source_of(folder, held.source), schema, strict=False):
            save_schema(schema, file, overwrite=True)
        # Other processes compare the time of vault.toml and then load all schemas again.
        os.utime(folder / VAULT)
    vault.refresh()


def _check_private(config: Config, name: str, held: PrivateSet, schema: Schema, file: Path) -> None:
    check_bounds(schema, file)
    schema.layout.check_private()
    if held.consent is not None:
        check_consent(schema, held.consent)
    if held.purposes:
        kinds = {**person_kinds(config, held.population), name: person_kind(schema)}
        check_person_kinds(kinds)
