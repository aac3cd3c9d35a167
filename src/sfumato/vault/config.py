"""The configuration of a vault, `vault.toml`: sources, privacy units, budgets, limits, principals.

Decisions `ledger-stores` and `budgets`.
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
from sfumato.data.schema.toml_document import Lines, read_text
from sfumato.errors import InternalError, ParameterError, SchemaError, SourceError
from sfumato.exact_numbers import EPSILON_MAXIMUM, positive
from sfumato.filesystem import sweep, whole
from sfumato.methods.programs.sandbox import checked_choice
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.accounting.losses import Approx
from sfumato.release.files_in_use import VAULT
from sfumato.text import holds_password
from sfumato.vault.limits import LimitsParser, VaultLimits
from sfumato.vault.principals import OWNER as OWNER
from sfumato.vault.principals import check_name as check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction
    from pathlib import Path

    from sfumato.data.schema.toml_document import KeyPath
    from sfumato.data.schema.unit import Unit

_FORMAT = 1
_MOST_MEBIBYTES = 4
_KEYS = ("format", "snapshot", "tick_milliseconds", "deadline_seconds", "max_epsilon",
         "sandbox", "sandbox_workers")  # fmt: skip
_TABLES = ("ledger", "limits", "populations", "datasets", "principals")


@dataclass(frozen=True)
class PrivateSet:
    """Rows about people; data sets with the same population are about the same people.

    Source and schema file are found from the vault's folder. Where `consent` names a column, only
    people who agreed are seen. `identity` is what was recorded of the source when it was added.
    Where `purposes` are listed, every question names one of them, and only people are seen who
    stand in the registry of their population with a yes for it.
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
    """Rows about nobody; `keys` declares how many rows may share a value of these columns.

    `fanouts` is how many shared a value of each column when the table was added.
    """

    source: str
    schema: str
    keys: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    fanouts: Mapping[str, int] = field(default_factory=dict)
    identity: tuple[str, ...] = field(default=(), compare=False)

    @property
    def bounds(self) -> dict[tuple[str, ...], int]:
        """How many rows share a value of these columns: what is declared, else what was read."""
        return {**{(name,): rows for name, rows in self.fanouts.items()}, **self.keys}


@dataclass(frozen=True)
class Config:
    """A vault's configuration. Budgets are by population, of principals too."""

    folder: Path
    database: str
    head: Path
    snapshot: int = 1
    tick_seconds: float = 0.0
    deadline_seconds: float | None = None
    """0 for no deadline; where nothing is said, questions have a usual one."""
    max_epsilon: Fraction = EPSILON_MAXIMUM
    """The largest epsilon of any budget or question."""
    sandbox: str | None = None
    """Where analysts' programs run; by default in the first sandbox that passes its test."""
    sandbox_workers: int = 1
    """How many blocks of a program run at the same time: two at once can feel each other."""
    datasets: Mapping[str, PrivateSet | PublicSet] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    principals: Mapping[str, Mapping[str, Budget]] = field(default_factory=dict)
    limits: VaultLimits = field(default_factory=VaultLimits)

    @property
    def in_postgres(self) -> bool:
        """Whether the ledger and what lies beside it are in PostgreSQL, not in SQLite files."""
        return self.database.startswith(("postgresql://", "postgres://"))


def load(folder: Path) -> Config:
    """Read a vault's configuration; what does not make sense is refused with its line."""
    path = folder / VAULT
    if not path.exists():
        raise ParameterError(
            "vault_missing",
            f"There is no vault in '{folder}': it has no {VAULT}. Create one with "
            "'sfumato init', or open another.",
        )
    sweep(folder)
    text = read_text(path, title="Configuration", most_mebibytes=_MOST_MEBIBYTES)
    return parse(text, path)


def modified(folder: Path) -> tuple[int, int, int]:
    """What changes whenever a vault's configuration is written."""
    try:
        status = (folder / VAULT).stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size


def parse(text: str, path: Path) -> Config:
    """The configuration that a text would be, were it the file at `path`."""
    # As it stands, comments and all; then as it is read, without TOML's ways to spell a letter.
    _check_unexposed(path, [text])
    lines = Lines(text, str(path))
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        raise SchemaError("vault_config_invalid", f"{path}: not valid TOML: {reason}.") from None
    _check_unexposed(path, _texts(document))
    return _Parser(lines, path.parent).config(document)


def _check_unexposed(path: Path, texts: Iterable[str]) -> None:
    """Refuse a file that spells out a password and that others may read."""
    if path.stat().st_mode & 0o077 and any(map(holds_password, texts)):
        raise ParameterError(
            "secret_exposed",
            f"'{path}' holds a password and may be read by others. Run: chmod 600 '{path}'.",
        )


def _texts(value: object) -> Iterator[str]:
    """Every text in a TOML document, names too."""
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
    """Read the configuration in order to change it; others who want to must wait meanwhile."""
    with locked(folder) if folder.is_dir() else nullcontext():
        yield load(folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let nobody else change a vault meanwhile."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not filesystem.acquire_lock(handle, seconds=filesystem.PATIENCE_SECONDS):
            raise InternalError(
                "vault_busy",
                f"The vault '{folder}' is being changed by {filesystem.lock_holder(handle)} for "
                f"more than {filesystem.PATIENCE_SECONDS:g} seconds. Nothing was changed. Wait "
                "until it ends, or end it, and try again.",
            )
        yield
    finally:
        os.close(handle)


def save(folder: Path, text: str, *, overwrite: bool = True) -> None:
    """Write a vault's configuration, for its owner's eyes only: an address may hold a password."""
    with whole(folder / VAULT, overwrite=overwrite, private=True) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_purposes(purposes: tuple[str, ...], unit: Unit) -> None:
    """Refuse purposes that cannot be told apart, or that no person could agree to."""
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


class _Parser(LimitsParser):
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
            sandbox = checked_choice(self._typed(document.get("sandbox", ""), str, ("sandbox",)))
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
        self, table: dict[str, object], key: str, place: KeyPath
    ) -> dict[str, dict[str, object]]:
        """A table of tables under names of ours."""
        tables = self._typed(table.get(key, {}), dict, (*place, key))
        for name in tables:
            with self._at((*place, key, name)):
                check_name(name, f"An entry of {key!r}")
            self._typed(tables[name], dict, (*place, key, name))
        if pair := clash(tables):
            message = f"{quoted(list(tables)[pair[1]])} stands here twice but for case."
            raise self._lines.error("name_invalid", (*place, key), message)
        return tables

    def _count(self, table: dict[str, object], key: str, *, default: int) -> int:
        number = self._typed(table.get(key, default), int, (key,))
        if number < 0:
            message = f"{key} must not be negative."
            raise self._lines.error("vault_config_invalid", (key,), message)
        return number

    def _budget(self, raw: dict[str, object], place: KeyPath) -> Budget:
        self._known(raw, ("epsilon", "delta"), place)
        with self._at(place):
            return Budget.for_epsilon_delta(
                epsilon=raw.get("epsilon"), delta=raw.get("delta", 0), maximum=self._most
            )

    def _datasets(
        self, document: dict[str, object], budgets: Mapping[str, Budget]
    ) -> dict[str, PrivateSet | PublicSet]:
        datasets: dict[str, PrivateSet | PublicSet] = {}
        for name, raw in self._named(document, "datasets", ()).items():
            place: KeyPath = ("datasets", name)
            public = self._typed(raw.get("public", False), bool, (*place, "public"))
            own = ("keys", "fanouts") if public else ("unit", "population", "consent", "purposes")
            self._known(raw, ("source", "schema", "public", "identity", *own), place)
            source, schema = (self._need(raw, key, str, place) for key in ("source", "schema"))
            identity = self._identity(raw, place)
            if public:
                keys, fanouts = self._keys(raw, place), self._fanouts(raw, place)
                datasets[name] = PublicSet(source, schema, keys, fanouts, identity)
                continue
            population = self._need(raw, "population", str, place)
            self._check_population(population, budgets, (*place, "population"))
            at, declared_unit = (*place, "unit"), raw.get("unit")
            # Unlike in a schema it must be said, because it is what is promised.
            unit = self._unit(
                declared_unit if declared_unit == "row" else self._typed(declared_unit, dict, at),
                at,
            )
            consent = self._need(raw, "consent", str, place) if "consent" in raw else None
            purposes = self._purposes(raw, unit, place)
            datasets[name] = PrivateSet(
                source, schema, unit, population, consent, identity, purposes
            )
        return datasets

    def _purposes(self, raw: dict[str, object], unit: Unit, place: KeyPath) -> tuple[str, ...]:
        at = (*place, "purposes")
        if "purposes" not in raw:
            return ()
        listed = tuple(
            self._typed(purpose, str, at) for purpose in self._typed(raw["purposes"], list, at)
        )
        with self._at(at):
            check_purposes(listed, unit)
        return listed

    def _identity(self, raw: dict[str, object], place: KeyPath) -> tuple[str, ...]:
        at = (*place, "identity")
        listed = self._typed(raw.get("identity", []), list, at)
        return tuple(self._typed(name, str, at) for name in listed)

    def _check_population(self, name: str, budgets: Mapping[str, Budget], place: KeyPath) -> None:
        if name not in budgets:
            message = f"there is no budget for it; add [populations.{name}] with epsilon = ..."
            raise self._lines.error("vault_config_invalid", place, message)

    def _keys(self, raw: dict[str, object], place: KeyPath) -> dict[tuple[str, ...], int]:
        keys: dict[tuple[str, ...], int] = {}
        at = (*place, "keys")
        for entry in self._typed(raw.get("keys", []), list, at):
            key = self._typed(entry, dict, at)
            self._known(key, ("columns", "rows"), at)
            columns = self._need(key, "columns", list, at)
            rows = self._need(key, "rows", int, at)
            if rows < 1 or not columns or not all(isinstance(column, str) for column in columns):
                message = 'a key is { columns = ["zip"], rows = 1 }, with at least one of each.'
                raise self._lines.error("vault_config_invalid", at, message)
            keys[tuple(columns)] = rows
        return keys

    def _fanouts(self, raw: dict[str, object], place: KeyPath) -> dict[str, int]:
        """Rows that share a value, by column; a vault from before they were read has none."""
        at = (*place, "fanouts")
        fanouts = self._typed(raw.get("fanouts", {}), dict, at)
        if not all(type(rows) is int and rows >= 1 for rows in fanouts.values()):
            message = "fanouts is { zip = 1 }: of each column, how many rows share a value."
            raise self._lines.error("vault_config_invalid", at, message)
        return fanouts

    def _shares(
        self, raw: dict[str, object], budgets: Mapping[str, Budget], place: KeyPath
    ) -> dict[str, Budget]:
        if place[-1] == OWNER:
            message = f"{OWNER!r} draws on the data sets' own budgets; name another principal."
            raise self._lines.error("vault_config_invalid", place, message)
        self._known(raw, ("budgets",), place)
        shares: dict[str, Budget] = {}
        for population, amount in self._named(raw, "budgets", place).items():
            at = (*place, "budgets", population)
            self._check_population(population, budgets, at)
            shares[population] = self._budget(amount, at)
            if not covers(budgets[population], shares[population]):
                message = f"it may not exceed [populations.{population}]; give less."
                raise self._lines.error("budget_out_of_range", at, message)
        return shares


def covers(larger: Budget, smaller: Budget) -> bool:
    """Whether a budget is at least as large as another, in epsilon and in delta."""
    (most, most_delta), (epsilon, delta) = (
        (loss.epsilon, loss.delta if isinstance(loss, Approx) else 0)
        for loss in (larger.loss(), smaller.loss())
    )
    return epsilon <= most and delta <= most_delta


def asking(principal: str | None) -> str:
    """Who asks a vault at hand: its owner, where nobody is named."""
    return OWNER if principal is None else arguments.text(principal, "principal")


def still_held(config: Config, name: str) -> PrivateSet | PublicSet:
    """A data set that the vault still has, though a plan may be older."""
    dataset = config.datasets.get(name)
    if dataset is None:
        raise SourceError(
            "dataset_unknown",
            f"The data set {quoted(name)} was taken out of the vault meanwhile. Nothing was "
            "charged. Look which there are, and ask again.",
        )
    return dataset


def raise_snapshot(folder: Path, to: int | None = None) -> int:
    """Write another snapshot into a vault's configuration, by default the next; it never falls."""
    import tomlkit  # a question changes no snapshot, and starts without it

    with changing(folder) as config:
        current = config.snapshot
        raised = current + 1 if to is None else to
        if raised < current:
            raise ParameterError(
                "snapshot_lower",
                f"The snapshot is {current} and cannot become {raised}: what was answered before "
                f"would be given again. Give {current + 1} or more.",
            )
        if raised > current:
            path = folder / VAULT
            document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
            document["snapshot"] = raised
            text = tomlkit.dumps(document)
            parse(text, path)
            save(folder, text)
    return raised
