"""What `vault.toml` says: where the data sets lie, what one person can change, who may ask."""

from __future__ import annotations

import fcntl
import os
import re
import tomllib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError, SchemaError
from sfumato.files import write_text
from sfumato.privacy.filters import Budget
from sfumato.privacy.losses import Approx
from sfumato.privacy.numbers import EPSILON_MAXIMUM, positive
from sfumato.privacy.units import Entity, Relation, Rows, Unit
from sfumato.schema.lines import Lines
from sfumato.schema.names import clash, quoted
from sfumato.schema.parse import Parser
from sfumato.schema.plain import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction
    from pathlib import Path

    from sfumato.schema.lines import Place

NAME = "vault.toml"
"""The file that makes a folder a vault."""
OWNER = "owner"
"""The principal that draws on the budgets of the data sets themselves."""

_FORMAT = 1
_MOST_MEBIBYTES = 4
_KEYS = ("format", "snapshot", "tick_milliseconds", "deadline_seconds", "max_epsilon")
_TABLES = ("ledger", "populations", "datasets", "principals")
_PASSWORD = re.compile(r"://[^/\s\"'@]*:[^/\s\"'@]+@")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}", re.ASCII)


@dataclass(frozen=True)
class PrivateSet:
    """Rows about people; data sets with the same population are about the same people.

    Source and schema file are found from the vault's folder. Where `consent` names a column, only
    people who agreed are seen.
    """

    source: str
    schema: str
    unit: Unit
    population: str
    consent: str | None = None


@dataclass(frozen=True)
class PublicSet:
    """Rows about nobody; `keys` declares how many rows may share a value of these columns."""

    source: str
    schema: str
    keys: Mapping[tuple[str, ...], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """A vault's configuration. Budgets are by population, of principals too."""

    folder: Path
    database: str
    head: Path
    snapshot: int = 1
    tick_seconds: float = 0.0
    deadline_seconds: float | None = None
    max_epsilon: Fraction = EPSILON_MAXIMUM
    """The largest epsilon of any budget or question."""
    datasets: Mapping[str, PrivateSet | PublicSet] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    principals: Mapping[str, Mapping[str, Budget]] = field(default_factory=dict)


def load(folder: Path) -> Config:
    """Read a vault's configuration; what does not make sense is refused with its line."""
    path = folder / NAME
    if not path.exists():
        raise ParameterError(
            "vault_missing",
            f"There is no vault in '{folder}': it has no {NAME}. Create one with "
            "'sfumato init', or name another with --vault.",
        )
    text = read_text(path, what="Configuration", most_mebibytes=_MOST_MEBIBYTES)
    if _PASSWORD.search(text) and path.stat().st_mode & 0o077:
        raise ParameterError(
            "secret_exposed",
            f"'{path}' holds a password and may be read by others. Run: chmod 600 '{path}'.",
        )
    lines = Lines(text, str(path))
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError) as error:
        what = " ".join(str(error).split())
        raise SchemaError("vault_syntax", f"{path}: not valid TOML: {what}.") from None
    return _Parser(lines, folder).config(document)


@contextmanager
def changing(folder: Path) -> Iterator[Config]:
    """Read the configuration in order to change it; others who want to must wait meanwhile."""
    with ExitStack() as stack:
        if folder.is_dir():
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield load(folder)


def save(folder: Path, text: str, *, overwrite: bool = True) -> None:
    """Write a vault's configuration, for its owner's eyes only: an address may hold a password."""
    path = folder / NAME
    write_text(path, text, overwrite=overwrite)
    path.chmod(0o600)


def check_name(name: str, what: str) -> None:
    """Refuse names that could be mistaken for others or need quotes."""
    if not _NAME.fullmatch(name):
        raise ParameterError(
            "vault_name",
            f"{what} cannot be named {quoted(name)}. Use a letter, then letters, digits, '_' and "
            "'-', at most 63 in all.",
        )


class _Parser(Parser):
    """Reads one vault.toml."""

    def config(self, document: dict[str, object]) -> Config:
        self._known(document, (*_KEYS, *_TABLES), ())
        if self._need(document, "format", int, ()) != _FORMAT:
            message = f"this version of Sfumato reads vaults of format {_FORMAT}."
            raise self._lines.error("vault_format", ("format",), message)
        ledger = self._need(document, "ledger", dict, ())
        self._known(ledger, ("database", "head"), ("ledger",))
        with self._at(("max_epsilon",)):
            self._most = positive(document.get("max_epsilon", EPSILON_MAXIMUM), "max_epsilon")
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
            deadline_seconds=self._count(document, "deadline_seconds", default=0) or None,
            max_epsilon=self._most,
            datasets=self._datasets(document, budgets),
            budgets=budgets,
            principals={
                name: self._shares(raw, budgets, ("principals", name))
                for name, raw in self._named(document, "principals", ()).items()
            },
        )

    def _named(
        self, table: dict[str, object], key: str, place: Place
    ) -> dict[str, dict[str, object]]:
        """A table of tables under names of ours."""
        found = self._typed(table.get(key, {}), dict, (*place, key))
        for name in found:
            with self._at((*place, key, name)):
                check_name(name, f"An entry of {key!r}")
            self._typed(found[name], dict, (*place, key, name))
        if pair := clash(found):
            message = f"{quoted(list(found)[pair[1]])} stands here twice but for case."
            raise self._lines.error("vault_name", (*place, key), message)
        return found

    def _count(self, table: dict[str, object], key: str, *, default: int) -> int:
        number = self._typed(table.get(key, default), int, (key,))
        if number < 0:
            message = f"{key} must not be negative."
            raise self._lines.error("vault_number", (key,), message)
        return number

    def _budget(self, raw: dict[str, object], place: Place) -> Budget:
        self._known(raw, ("epsilon", "delta"), place)
        with self._at(place):
            return Budget.for_epsilon_delta(
                epsilon=raw.get("epsilon"), delta=raw.get("delta", 0), maximum=self._most
            )

    def _datasets(
        self, document: dict[str, object], budgets: Mapping[str, Budget]
    ) -> dict[str, PrivateSet | PublicSet]:
        found: dict[str, PrivateSet | PublicSet] = {}
        for name, raw in self._named(document, "datasets", ()).items():
            place: Place = ("datasets", name)
            public = self._typed(raw.get("public", False), bool, (*place, "public"))
            own = ("public", "keys") if public else ("public", "unit", "population", "consent")
            self._known(raw, ("source", "schema", *own), place)
            source, schema = (self._need(raw, key, str, place) for key in ("source", "schema"))
            if public:
                found[name] = PublicSet(source, schema, self._keys(raw, place))
                continue
            population = self._need(raw, "population", str, place)
            self._check_population(population, budgets, (*place, "population"))
            unit = self._unit_at(raw.get("unit"), (*place, "unit"))
            consent = self._need(raw, "consent", str, place) if "consent" in raw else None
            found[name] = PrivateSet(source, schema, unit, population, consent)
        return found

    def _check_population(self, name: str, budgets: Mapping[str, Budget], place: Place) -> None:
        if name not in budgets:
            message = f"there is no budget for it; add [populations.{name}] with epsilon = ..."
            raise self._lines.error("vault_budget_missing", place, message)

    def _unit_at(self, raw: object, place: Place) -> Unit:
        """A privacy unit; unlike in a schema it must be said, because it is what is promised."""
        if raw == "row":
            return Rows()
        table = self._typed(raw, dict, place)
        self._known(table, ("column", "max_rows", "max_groups", "relation"), place)
        relation = Relation.ADD_REMOVE
        if "relation" in table:
            relation = self._choice(Relation, table["relation"], (*place, "relation"))
        if set(table) == {"relation"}:
            return Rows(relation=relation)
        column = self._need(table, "column", str, place)
        with self._at(place):
            return Entity(column, table.get("max_rows", 0), table.get("max_groups"), relation)

    def _keys(self, raw: dict[str, object], place: Place) -> dict[tuple[str, ...], int]:
        keys: dict[tuple[str, ...], int] = {}
        at = (*place, "keys")
        for entry in self._typed(raw.get("keys", []), list, at):
            key = self._typed(entry, dict, at)
            self._known(key, ("columns", "rows"), at)
            columns = self._need(key, "columns", list, at)
            rows = self._need(key, "rows", int, at)
            if rows < 1 or not columns or not all(isinstance(one, str) for one in columns):
                message = 'a key is { columns = ["zip"], rows = 1 }, with at least one of each.'
                raise self._lines.error("vault_key_wrong", at, message)
            keys[tuple(columns)] = rows
        return keys

    def _shares(
        self, raw: dict[str, object], budgets: Mapping[str, Budget], place: Place
    ) -> dict[str, Budget]:
        if place[-1] == OWNER:
            message = f"{OWNER!r} draws on the data sets' own budgets; name another principal."
            raise self._lines.error("vault_principal_reserved", place, message)
        self._known(raw, ("budgets",), place)
        shares: dict[str, Budget] = {}
        for population, amount in self._named(raw, "budgets", place).items():
            at = (*place, "budgets", population)
            self._check_population(population, budgets, at)
            shares[population] = self._budget(amount, at)
            if not _covers(budgets[population], shares[population]):
                message = f"it may not exceed [populations.{population}]; give less."
                raise self._lines.error("child_above_parent", at, message)
        return shares


def _covers(whole: Budget, part: Budget) -> bool:
    """Whether a budget is at least as large as another, in epsilon and in delta."""
    (most, most_delta), (epsilon, delta) = (
        (loss.epsilon, loss.delta if isinstance(loss, Approx) else 0)
        for loss in (whole.loss(), part.loss())
    )
    return epsilon <= most and delta <= most_delta
