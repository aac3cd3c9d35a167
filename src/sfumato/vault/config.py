"""The configuration of a vault, `vault.toml`: data sets, units, budgets, limits and principals.

`load` reads it, `changing` reads it under the vault's lock, `save` replaces it atomically.
Decisions `ledger` and `budgets`.
"""

from __future__ import annotations

import os
import tomllib
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sfumato import arguments, filesystem
from sfumato.data.schema.names import clash, quoted
from sfumato.data.schema.schema_file import Parser
from sfumato.data.schema.toml_document import Lines, read_text
from sfumato.errors import InternalError, ParameterError, SchemaError, SourceError
from sfumato.exact_numbers import EPSILON_MAXIMUM, positive
from sfumato.filesystem import sweep, whole
from sfumato.methods.programs.sandbox import checked_choice
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.accounting.losses import Approx
from sfumato.release.files_in_use import VAULT
from sfumato.text import holds_password
from sfumato.vault.limits import PrincipalLimits, VaultLimits
from sfumato.vault.principals import OWNER as OWNER
from sfumato.vault.principals import check_name as check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction
    from pathlib import Path

    from sfumato.data.schema.toml_document import KeyPath
    from sfumato.data.schema.unit import Unit

_FORMAT = 1
# A vault with thousands of data sets stays far below this; a larger file is not a configuration.
_MOST_MEBIBYTES = 4
_KEYS = ("format", "snapshot", "tick_milliseconds", "deadline_seconds", "max_epsilon",
         "sandbox", "sandbox_workers")  # fmt: skip
_LIMITS = ("groups", "answer_mebibytes", "stored_mebibytes")
_TABLES = ("ledger", "limits", "populations", "datasets", "principals")


@dataclass(frozen=True)
class PrivateSet:
    """A private data set: rows about people.

    Parameters
    ----------
    source, schema
        The address of the rows and the path of the schema file, relative to the vault's folder.
    unit
        The privacy unit: what one person can change.
    population
        Data sets with the same population are about the same people and share one budget.
    consent
        A column of truth values; queries see only people for whom it is true in all rows.
    identity
        Names and fingerprints of the source, recorded when it was added.
    purposes
        Where there are any, every query names one of them and sees only people who agreed to it in
        the consent registry of their population.
    """

    source: str
    schema: str
    unit: Unit
    population: str
    consent: str | None = None
    identity: tuple[str, ...] = field(default=(), compare=False)
    purposes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublicSet:
    """A public table: rows about nobody, which queries may join to private rows.

    A join can copy one person's row as often as a value repeats in the public table. `keys`
    declares an upper bound by columns, `fanouts` is what was measured when the table was added.
    """

    source: str
    schema: str
    keys: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    fanouts: Mapping[str, int] = field(default_factory=dict)
    identity: tuple[str, ...] = field(default=(), compare=False)

    @property
    def bounds(self) -> dict[tuple[str, ...], int]:
        """At most how many rows share a value of these columns: declared, else measured."""
        return {**{(name,): rows for name, rows in self.fanouts.items()}, **self.keys}


@dataclass(frozen=True)
class Config:
    """A vault's configuration. All budgets are by population, also those of principals."""

    folder: Path
    database: str
    head: Path
    snapshot: int = 1
    tick_seconds: float = 0.0
    deadline_seconds: float | None = None
    """0 for no deadline; None for the default of the gatekeeper."""
    max_epsilon: Fraction = EPSILON_MAXIMUM
    """The largest epsilon of any budget or question."""
    sandbox: str | None = None
    """The sandbox of analysts' programs; by default the first one that passes its self-test."""
    sandbox_workers: int = 1
    """How many blocks of a program run at the same time. Two at once share caches, so that one can
    observe the other by timing."""
    datasets: Mapping[str, PrivateSet | PublicSet] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    principals: Mapping[str, Mapping[str, Budget]] = field(default_factory=dict)
    limits: VaultLimits = field(default_factory=VaultLimits)

    @property
    def in_postgres(self) -> bool:
        """Whether ledger and side databases are in PostgreSQL, and not in SQLite files."""
        return self.database.startswith(("postgresql://", "postgres://"))


def load(folder: Path) -> Config:
    """Read a vault's configuration.

    Raises
    ------
    ParameterError
        `vault_missing`, or `secret_exposed` where others can read a password in the file.
    SchemaError
        With the line of the first mistake.
    """
    path = folder / VAULT
    if not path.exists():
        raise ParameterError(
            "vault_missing",
            f"There is no vault in '{folder}': it has no {VAULT}. Create one with "
            "'sfumato init', or open another.",
        )
    sweep(folder)  # temporary files of writers that were killed
    text = read_text(path, title="Configuration", most_mebibytes=_MOST_MEBIBYTES)
    return parse(text, path)


def modified(folder: Path) -> tuple[int, int, int]:
    """A stamp that changes whenever a vault's configuration is written."""
    # The inode is part of it: writes replace the file, and two may fall into one tick of the clock.
    try:
        status = (folder / VAULT).stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size


def parse(text: str, path: Path) -> Config:
    """Parse a text as if it were the file at `path`."""
    # Checked twice: as written, comments included; then as parsed, because TOML escapes such as
    # \u0070 could hide a password from the first check.
    _check_unexposed(path, [text])
    lines = Lines(text, str(path))
    try:
        # Decimal keeps an epsilon as it is written: 0.1 as a float is a little more than a tenth.
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        raise SchemaError("vault_config_invalid", f"{path}: not valid TOML: {reason}.") from None
    _check_unexposed(path, _texts(document))
    return _Parser(lines, path.parent).config(document)


def _check_unexposed(path: Path, texts: Iterable[str]) -> None:
    """Refuse a file that holds a password and that other users can read."""
    if path.stat().st_mode & 0o077 and any(map(holds_password, texts)):
        raise ParameterError(
            "secret_exposed",
            f"'{path}' holds a password and may be read by others. Run: chmod 600 '{path}'.",
        )


def _texts(value: object) -> Iterator[str]:
    """All strings of a TOML document, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, element in value.items():
            yield from (f"{key}={text}" for text in _texts(element))
            yield from _texts(element)
    elif isinstance(value, list):
        for element in value:
            yield from _texts(element)


@contextmanager
def changing(folder: Path) -> Iterator[Config]:
    """Read the configuration in order to change it, and hold the vault's lock meanwhile."""
    # Without a folder there is nothing to lock: `load` then says that there is no vault.
    with locked(folder) if folder.is_dir() else nullcontext():
        yield load(folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock under which a vault's files are changed."""
    # On the folder itself, not on vault.toml: every save replaces that file and so its lock.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not filesystem.acquire_lock(handle, seconds=filesystem.PATIENCE_SECONDS):
            raise InternalError(
                "file_in_use",
                f"The vault '{folder}' is being changed by {filesystem.lock_holder(handle)} for "
                f"more than {filesystem.PATIENCE_SECONDS:g} seconds. Nothing was changed. Wait "
                "until it ends, or end it, and try again.",
            )
        yield
    finally:
        os.close(handle)


def save(folder: Path, text: str, *, overwrite: bool = True) -> None:
    """Write a vault's configuration atomically, readable by its owner alone."""
    with whole(folder / VAULT, overwrite=overwrite, private=True) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_purposes(purposes: tuple[str, ...], unit: Unit) -> None:
    """Refuse purposes that look alike, or a unit that names no person who could agree."""
    if unit.column is None:
        raise SchemaError(
            "purposes_invalid",
            "Purposes need to know whose a row is, but the unit is the row. Name the column that "
            "tells people apart as the unit, or leave the purposes out.",
        )
    for purpose in purposes:
        check_name(purpose, "A purpose")
    if not purposes or clash(purposes):
        raise SchemaError(
            "purposes_invalid",
            'Purposes are a list of different names, such as ["care", "research"]; '
            f"given: {', '.join(map(quoted, purposes)) or 'none'}.",
        )


class _Parser(Parser):
    """Reads one vault.toml."""

    def config(self, document: dict[str, object]) -> Config:
        self._known(document, (*_KEYS, *_TABLES), ())
        if self._need(document, "format", int, ()) != _FORMAT:
            message = f"this version of Sfumato reads vaults of format {_FORMAT}."
            raise self._lines.error("vault_config_invalid", ("format",), message)
        ledger = self._need(document, "ledger", dict, ())
        self._known(ledger, ("database", "head"), ("ledger",))
        with self._at(("max_epsilon",)):
            self._most = positive(document.get("max_epsilon", EPSILON_MAXIMUM), "max_epsilon")
        with self._at(("sandbox",)):
            sandbox = checked_choice(
                self._require_type(document.get("sandbox", ""), str, ("sandbox",))
            )
        deadline = self._count(document, "deadline_seconds", default=0)
        budgets = {
            name: self._budget(raw, ("populations", name))
            for name, raw in self._named(document, "populations", ()).items()
        }
        return Config(
            folder=self._folder,
            database=self._need(ledger, "database", str, ("ledger",)),
            head=self._folder / self._need(ledger, "head", str, ("ledger",)),
            snapshot=self._count(document, "snapshot", default=1),
            tick_seconds=self._count(document, "tick_milliseconds", default=0) / 1000,
            deadline_seconds=deadline if "deadline_seconds" in document else None,
            max_epsilon=self._most,
            sandbox=sandbox,
            sandbox_workers=max(self._count(document, "sandbox_workers", default=1), 1),
            datasets=self._datasets(document, budgets),
            budgets=budgets,
            principals={
                name: self._shares(raw, budgets, ("principals", name))
                for name, raw in self._named(document, "principals", ()).items()
            },
            limits=self._limits(document.get("limits", {})),
        )

    def _named(
        self, table: dict[str, object], key: str, table_path: KeyPath
    ) -> dict[str, dict[str, object]]:
        """A table of tables; its keys follow our rules for names."""
        tables = self._require_type(table.get(key, {}), dict, (*table_path, key))
        for name in tables:
            with self._at((*table_path, key, name)):
                check_name(name, f"An entry of {key!r}")
            self._require_type(tables[name], dict, (*table_path, key, name))
        # "Ann" and "ann" are one name for people and for some databases.
        if pair := clash(tables):
            message = f"{quoted(list(tables)[pair[1]])} stands here twice if case is ignored."
            raise self._lines.error("name_invalid", (*table_path, key), message)
        return tables

    def _count(self, table: dict[str, object], key: str, *, default: int) -> int:
        number = self._require_type(table.get(key, default), int, (key,))
        if number < 0:
            message = f"{key} must not be negative."
            raise self._lines.error("vault_config_invalid", (key,), message)
        return number

    def _budget(self, raw: dict[str, object], table_path: KeyPath) -> Budget:
        self._known(raw, ("epsilon", "delta"), table_path)
        with self._at(table_path):
            return Budget.for_epsilon_delta(
                epsilon=raw.get("epsilon"), delta=raw.get("delta", 0), maximum=self._most
            )

    def _datasets(
        self, document: dict[str, object], budgets: Mapping[str, Budget]
    ) -> dict[str, PrivateSet | PublicSet]:
        datasets: dict[str, PrivateSet | PublicSet] = {}
        for name, raw in self._named(document, "datasets", ()).items():
            table_path: KeyPath = ("datasets", name)
            public = self._require_type(raw.get("public", False), bool, (*table_path, "public"))
            # A public table with a unit or a population is a mistake that would leave people
            # unprotected, so an unknown key is refused and not ignored.
            own = ("keys", "fanouts") if public else ("unit", "population", "consent", "purposes")
            self._known(raw, ("source", "schema", "public", "identity", *own), table_path)
            source, schema = (self._need(raw, key, str, table_path) for key in ("source", "schema"))
            identity = self._identity(raw, table_path)
            if public:
                keys, fanouts = self._keys(raw, table_path), self._fanouts(raw, table_path)
                datasets[name] = PublicSet(source, schema, keys, fanouts, identity)
                continue
            population = self._need(raw, "population", str, table_path)
            self._check_population(population, budgets, (*table_path, "population"))
            key_path, declared_unit = (*table_path, "unit"), raw.get("unit")
            # A schema may leave the unit out. Here it is required: the guarantee depends on it.
            unit = self._unit(
                declared_unit
                if declared_unit == "row"
                else self._require_type(declared_unit, dict, key_path),
                key_path,
            )
            consent = self._need(raw, "consent", str, table_path) if "consent" in raw else None
            purposes = self._purposes(raw, unit, table_path)
            datasets[name] = PrivateSet(
                source, schema, unit, population, consent, identity, purposes
            )
        return datasets

    def _limits(self, document: object) -> VaultLimits:
        """`[limits]` for all principals, then `[limits.principals.NAME]` for single ones."""
        raw = self._require_type(document, dict, ("limits",))
        self._known(raw, (*_LIMITS, "vault_mebibytes", "principals"), ("limits",))
        usual = self._principal_limits(raw, PrincipalLimits(), ("limits",))
        by_principal: dict[str, PrincipalLimits] = {}
        named = self._require_type(raw.get("principals", {}), dict, ("limits", "principals"))
        for name, table in named.items():
            table_path = ("limits", "principals", name)
            self._known(self._require_type(table, dict, table_path), _LIMITS, table_path)
            # What one principal's table leaves out is as for all others, not the built-in default.
            by_principal[name] = self._principal_limits(table, usual, table_path)
        vault_mebibytes = self._limit(
            raw, "vault_mebibytes", VaultLimits.vault_mebibytes, ("limits",)
        )
        return VaultLimits(usual, by_principal, vault_mebibytes)

    def _principal_limits(
        self, raw: Mapping[str, object], usual: PrincipalLimits, table_path: KeyPath
    ) -> PrincipalLimits:
        return PrincipalLimits(
            **{name: self._limit(raw, name, getattr(usual, name), table_path) for name in _LIMITS}
        )

    def _limit(self, raw: Mapping[str, object], key: str, default: int, table_path: KeyPath) -> int:
        number = self._require_type(raw.get(key, default), int, (*table_path, key))
        if number < 1:
            raise self._lines.error(
                "vault_config_invalid", (*table_path, key), f"{key} must be at least 1."
            )
        return number

    def _purposes(self, raw: dict[str, object], unit: Unit, table_path: KeyPath) -> tuple[str, ...]:
        key_path = (*table_path, "purposes")
        if "purposes" not in raw:
            return ()
        listed = tuple(
            self._require_type(purpose, str, key_path)
            for purpose in self._require_type(raw["purposes"], list, key_path)
        )
        with self._at(key_path):
            check_purposes(listed, unit)
        return listed

    def _identity(self, raw: dict[str, object], table_path: KeyPath) -> tuple[str, ...]:
        key_path = (*table_path, "identity")
        listed = self._require_type(raw.get("identity", []), list, key_path)
        return tuple(self._require_type(name, str, key_path) for name in listed)

    def _check_population(
        self, name: str, budgets: Mapping[str, Budget], table_path: KeyPath
    ) -> None:
        if name not in budgets:
            message = f"there is no budget for it; add [populations.{name}] with epsilon = ..."
            raise self._lines.error("vault_config_invalid", table_path, message)

    def _keys(self, raw: dict[str, object], table_path: KeyPath) -> dict[tuple[str, ...], int]:
        keys: dict[tuple[str, ...], int] = {}
        key_path = (*table_path, "keys")
        for entry in self._require_type(raw.get("keys", []), list, key_path):
            key = self._require_type(entry, dict, key_path)
            self._known(key, ("columns", "rows"), key_path)
            columns = self._need(key, "columns", list, key_path)
            rows = self._need(key, "rows", int, key_path)
            if rows < 1 or not columns or not all(isinstance(column, str) for column in columns):
                message = 'a key is { columns = ["zip"], rows = 1 }, with at least one of each.'
                raise self._lines.error("vault_config_invalid", key_path, message)
            # Declared, not measured: it bounds the copies of one person's row in a join, also in
            # later data.
            keys[tuple(columns)] = rows
        return keys

    def _fanouts(self, raw: dict[str, object], table_path: KeyPath) -> dict[str, int]:
        """By column, how many rows share a value; vaults of early drafts have no such table."""
        key_path = (*table_path, "fanouts")
        fanouts = self._require_type(raw.get("fanouts", {}), dict, key_path)
        if not all(type(rows) is int and rows >= 1 for rows in fanouts.values()):
            message = "fanouts is { zip = 1 }: of each column, how many rows share a value."
            raise self._lines.error("vault_config_invalid", key_path, message)
        return fanouts

    def _shares(
        self, raw: dict[str, object], budgets: Mapping[str, Budget], table_path: KeyPath
    ) -> dict[str, Budget]:
        if table_path[-1] == OWNER:
            message = f"{OWNER!r} draws on the data sets' own budgets; name another principal."
            raise self._lines.error("vault_config_invalid", table_path, message)
        self._known(raw, ("budgets",), table_path)
        shares: dict[str, Budget] = {}
        for population, amount in self._named(raw, "budgets", table_path).items():
            key_path = (*table_path, "budgets", population)
            self._check_population(population, budgets, key_path)
            shares[population] = self._budget(amount, key_path)
            # More than the population's budget could never be spent, but would look promised.
            if not covers(budgets[population], shares[population]):
                message = f"it may not exceed [populations.{population}]; give less."
                raise self._lines.error("budget_out_of_range", key_path, message)
        return shares


def covers(larger: Budget, smaller: Budget) -> bool:
    """Whether a budget is at least as large as another, in epsilon and in delta."""
    (most, most_delta), (epsilon, delta) = (
        (loss.epsilon, loss.delta if isinstance(loss, Approx) else 0)
        for loss in (larger.loss(), smaller.loss())
    )
    return epsilon <= most and delta <= most_delta


def asking(principal: str | None) -> str:
    """The principal that queries a local vault: the owner unless one is named."""
    return OWNER if principal is None else arguments.text(principal, "principal")


def still_held(config: Config, name: str) -> PrivateSet | PublicSet:
    """A data set by its name; refused if it was removed after a query was planned."""
    dataset = config.datasets.get(name)
    if dataset is None:
        raise SourceError(
            "dataset_unknown",
            f"The data set {quoted(name)} was taken out of the vault meanwhile. Nothing was "
            "charged. Look which there are, and ask again.",
        )
    return dataset


def raise_snapshot(folder: Path, to: int | None = None) -> int:
    """Write a higher snapshot number into `vault.toml`, by default the next one, and return it.

    Stored answers are reused only within one snapshot. A lower number would bring answers about
    old data back, so it is refused.
    """
    import tomlkit  # a question changes no snapshot, and starts without it

    with changing(folder) as config:
        current = config.snapshot
        raised = current + 1 if to is None else to
        if raised < current:
            raise ParameterError(
                "parameter_out_of_range",
                f"The snapshot is {current} and cannot become {raised}: what was answered before "
                f"would be given again. Give {current + 1} or more.",
                parameter="snapshot",
            )
        if raised > current:
            path = folder / VAULT
            # tomlkit keeps comments and order of what the owner wrote.
            document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
            document["snapshot"] = raised
            text = tomlkit.dumps(document)
            parse(text, path)  # never write a file that the next reader would refuse
            save(folder, text)
    return raised
