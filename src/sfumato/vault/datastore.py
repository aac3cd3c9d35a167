"""Open the data sets of a vault when first needed, and leave out people who did not agree.

What a query needs is checked before it is charged, by facts that depend on no row: servers answer,
files exist, the columns are those of the schema. After a lost connection or a replaced file the
data set is opened again. Decisions `consent` and `charge-order`.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.engines.base import SPARK, everything, spark_address
from sfumato.data.engines.base import column as named_column
from sfumato.data.engines.sources import POSTGRES, files_of, identify, missing_columns
from sfumato.data.files.formats import is_pattern
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema_file import load as load_schema
from sfumato.data.schema.unit import Rows
from sfumato.errors import (
    ParameterError,
    PolicyError,
    QueryError,
    SchemaError,
    SfumatoError,
    SourceError,
    option,
)
from sfumato.methods.method import Dataset, with_short_texts
from sfumato.methods.query.sql.tables import PrivateRows, PublicRows
from sfumato.release.open_table import check_columns, read
from sfumato.vault.accounts import source_of
from sfumato.vault.config import PrivateSet
from sfumato.vault.consent.consent_filter import (
    ConsentCondition,
    ConsentFilter,
    check_person_kinds,
    person_kinds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sfumato.data.engines.source_identity import Identity
    from sfumato.data.files.file_identity import RegularFile
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.release.open_table import Table
    from sfumato.vault.config import Config
    from sfumato.vault.consent.consent_filter import LazyRegistry
    from sfumato.vault.consent.registry import Consents

    Versions = dict[str, int] | None


def check_consent(schema: Schema, column: str) -> None:
    """Refuse a column of consent that is not declared as a truth value, or is of two people."""
    _ = schema.unit.column  # which refuses rows of two people: neither agrees for the other
    declared = schema.column(column)
    if declared.kind is not Kind.BOOLEAN:
        raise SchemaError(
            "purposes_invalid",
            f"Consent cannot be read from {quoted(column)}, which is {declared.kind}. Name a "
            "column of kind boolean that is true where a person agreed.",
        )


def agreeing_rows(table: exp.Table, unit: Unit, column: str) -> exp.Query:
    """Select the rows of people all of whose rows say yes; NULL is no.

    Whether a row is seen depends on its own person alone, so the sensitivity of a query stays.
    """
    agreed = named_column(column)
    if unit.column is None:
        return everything(table.copy()).where(agreed)
    person = named_column(unit.column)
    said_yes = exp.case().when(agreed, exp.convert(1)).else_(exp.convert(0))
    people = (
        exp.select(person).from_(table.copy()).group_by(person).having(exp.Min(this=said_yes).eq(1))
    )
    return everything(table.copy()).where(exp.In(this=person.copy(), query=people.subquery()))


_UNREADY = "source_unready"

IN_PROCESS = "here"
"""The address of all sources that DuckDB reads inside this process."""


@dataclass(frozen=True)
class Location:
    """Where a data set lives and how it is opened.

    Parameters
    ----------
    address
        The database, or `IN_PROCESS`. Only data sets of one address are joined.
    open_table, open_whole
        Open the data set for queries, long texts cut; and for its owner, texts as they are.
    unit
        The privacy unit; None for a public data set.
    file, source, columns, layout
        The file, if it is one; the address as configured; the columns that its files must have;
        how these files are written.
    consent
        A column of truth values: only people are seen who agreed in all their rows.
    check_apart
        Refuses a source that has become that of another data set since it was added.
    purposes, register
        A query names one purpose and sees only people with a yes for it in the registry.
    """

    address: str
    open_table: Callable[[], Table]
    unit: Unit | None
    file: Path | None = None
    consent: str | None = None
    source: str | None = None
    columns: tuple[str, ...] = ()
    layout: FileLayout = DEFAULT_LAYOUT
    check_apart: Callable[[Identity], None] = lambda _: None
    purposes: tuple[str, ...] = ()
    register: LazyRegistry | None = None
    open_whole: Callable[[], Table] | None = None

    @property
    def in_files(self) -> bool:
        """Whether it is read from files, which takes long and is left until after the charge."""
        return self.address == IN_PROCESS and self.source is not None


def address(source: str) -> str:
    """The database that a source belongs to; two tables of one database can be joined there."""
    scheme = source.partition("://")[0]
    if scheme in POSTGRES:
        return source.partition("#")[0]
    if scheme in SPARK:
        return spark_address(source).master
    return IN_PROCESS


def check_together(addresses: Mapping[str, object]) -> None:
    """Refuse to join data sets of different databases, given the address of each."""
    if len(set(addresses.values())) > 1:
        raise QueryError(
            "join_not_allowed",
            f"Cannot join {', '.join(map(quoted, addresses))}: they lie in different databases. "
            "Ask about each apart, or copy them into one database.",
        )


@dataclass(eq=False)
class _Opened:
    """An open data set, the files it was read from, and the number of its users.

    `shown` holds its views and copies in the engines of other data sets, by the host data set.
    """

    table: Table
    files: tuple[RegularFile, ...]
    consent_filter: ConsentFilter
    shown: dict[_Opened, exp.Table] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)
    users: int = 0
    retired: bool = False


class DataStore:
    """Opens data sets and brings those of one question together in one engine."""

    def __init__(self, locations: Mapping[str, Location]) -> None:
        self._locations = dict(locations)
        self._locks = {name: threading.RLock() for name in locations}
        self._opened: dict[str, _Opened] = {}
        self._checked_files: dict[str, tuple[RegularFile, ...]] = {}
        self._checked_identities: dict[str, Identity] = {}

    def add(self, name: str, location: Location) -> None:
        """Add a data set, or replace the location of one."""
        with self._locks.setdefault(name, threading.RLock()):
            self._retire(name)
            self._checked_files.pop(name, None)
            self._checked_identities.pop(name, None)
            self._locations[name] = location

    def check(self, private: Sequence[str]) -> None:
        """Refuse, while planning, private data sets that lie in different databases."""
        check_together({name: self._locations[name].address for name in private})

    @property
    def addresses(self) -> dict[str, str]:
        """The database of each data set, which only the owner may know."""
        return {name: location.address for name, location in self._locations.items()}

    def check_purpose(self, names: Sequence[str], purpose: str | None) -> None:
        """Refuse a purpose to which the people of a data set were never asked to agree."""
        for name in names:
            allowed = self._locations[name].purposes
            if not allowed or purpose in allowed:
                continue
            listed = ", ".join(allowed)
            if purpose is None:
                raise ParameterError(
                    "parameter_missing",
                    f"People in {quoted(name)} are asked what they agree to, so say what this is "
                    f"for: {option('purpose', allowed[0])}. Allowed: {listed}.",
                    parameter="purpose",
                )
            raise PolicyError(
                "purpose_unknown",
                f"Nobody in {quoted(name)} was asked to agree to {quoted(purpose)}. Allowed: "
                f"{listed}. Name one of them with {option('purpose')}, if that is what it is for.",
            )

    def check_consent(self, names: Sequence[str]) -> None:
        """Refuse data sets whose consent registry is unreadable or may lack withdrawals."""
        for name in sorted(names):
            register = self._locations[name].register
            if register is not None:
                register.check()

    def check_readable(self, names: Sequence[str]) -> None:
        """Refuse, before anything is charged, data sets that could not be read."""
        for name in sorted(names):
            self.check_consent((name,))
            file = self._locations[name].file
            if file is not None and not file.exists():
                raise SourceError(
                    "source_missing",
                    f"The file of the data set {quoted(name)} is gone. Put it back where the "
                    "vault's configuration says.",
                )
            try:
                with self._locks[name]:
                    self._check_readable(name)
            except SfumatoError as error:
                if error.code == _UNREADY:
                    raise
                failure = error
            else:
                continue
            raise SourceError(
                # Raised outside the handler: the cause, which may quote rows, is not even its
                # context.
                _UNREADY,
                f"The data set {quoted(name)} cannot be read now ({failure.code}): its source is "
                "gone, does not answer, or no longer has the columns of its schema in every file. "
                "Nothing was charged. Let the operator put it right and ask again.",
                detail=f"{failure.message} {failure.detail or ''}".strip(),
            )

    @contextmanager
    def together(
        self,
        private: Sequence[str],
        public: Sequence[str],
        *,
        purpose: str | None = None,
        versions: Versions = None,
    ) -> Iterator[dict[str, Dataset]]:
        """Open all tables of one query in the engine of the first, with private texts cut.

        Tables of other engines are copied. Where people are asked for consent, only those are seen
        who agree to the purpose; the registry versions are noted in `versions` by population.
        """
        with self._together(private, public, purpose, versions) as datasets:
            yield with_short_texts(datasets, private)

    @contextmanager
    def open_for_owner(self, name: str, *, purpose: str | None = None) -> Iterator[Dataset]:
        """Open a data set for its owner with whole texts; a copy with short texts is read anew."""
        location, opening = self._locations[name], self._locations[name].open_whole
        store = DataStore({name: replace(location, open_table=opening)}) if opening else self
        try:
            with store._together((name,), (), purpose, None) as datasets:  # noqa: SLF001  one of us
                yield datasets[name]
        finally:
            if store is not self:
                store.close()

    @contextmanager
    def _together(
        self, private: Sequence[str], public: Sequence[str], purpose: str | None, versions: Versions
    ) -> Iterator[dict[str, Dataset]]:
        self.check_purpose(private, purpose)
        host, names = private[0], (*private, *public)
        with ExitStack() as locks:
            # Locks in one order for all threads: two queries over the same data sets cannot wait
            # for each other.
            for name in sorted(set(names)):
                locks.enter_context(self._locks[name])
            used = [self._open(name) for name in names]
            datasets = {name: self._dataset_in(host, name) for name in names}
            for opened in used:
                # Counted before the locks are released: whoever replaces the data set now leaves
                # it to us to close.
                opened.users += 1
        try:
            conditions = {
                name: ConsentCondition(register, purpose)
                for name in private
                if (register := self._locations[name].register) is not None and purpose is not None
            }
            if not conditions:
                yield datasets
                return
            with used[0].consent_filter.restrict(datasets, conditions, versions) as seen:
                yield seen
        finally:
            for name, opened in zip(names, used, strict=True):
                with self._locks[name]:
                    opened.users -= 1
                    _close_if_unused(opened)

    def cancel(self, thread: int) -> None:
        """Stop what any engine runs for a thread of this process."""
        for opened in list(self._opened.values()):
            with suppress(SfumatoError):
                opened.table.engine.cancel(thread)

    def close(self) -> None:
        """Close every engine."""
        for name, lock in self._locks.items():
            with lock:
                self._retire(name, at_once=True)

    def _check_readable(self, name: str) -> None:
        location, opened = self._locations[name], self._opened.get(name)
        if location.in_files:
            assert location.source is not None
            files = files_of(location.source)
            # Other size, time or inode: the file was replaced, and the open copy shows the old
            # rows.
            if opened is not None and opened.files != files:
                self._retire(name)
            if self._checked_files.get(name) != files:
                known = self._checked_files.get(name, ())
                absent = missing_columns(location.source, location.columns, location.layout, known)
                if absent:
                    raise SourceError(
                        "column_unknown", f"There is no column {quoted(absent[0])} any more."
                    )
                self._check_apart(name, identify(location.source))
                self._checked_files[name] = files
            return
        if location.source is None:  # the caller's own, which cannot be opened again
            opened = self._open(name)
            check_columns(opened.table.engine, opened.table.schema, strict=False)
            return
        if opened is not None:
            try:
                # A cheap query that reads no row: a lost connection shows here, before the charge.
                check_columns(opened.table.engine, opened.table.schema, strict=False)
                _check_shown(opened)
            except SfumatoError:
                self._retire(name)
        self._check_apart(name, identify(location.source, self._open(name).table.engine))

    def _check_apart(self, name: str, identity: Identity) -> None:
        """Refuse a source that now belongs to another data set; an unchanged one is not checked."""
        # The version changes whenever rows do; who owns the source does not.
        lasting = replace(identity, version=None)
        if self._checked_identities.get(name) != lasting:
            self._locations[name].check_apart(lasting)
            self._checked_identities[name] = lasting

    def _open(self, name: str) -> _Opened:
        if name not in self._opened:
            location = self._locations[name]
            files = (
                files_of(location.source)
                if location.in_files and location.source is not None
                else ()
            )
            table = location.open_table()
            opened = self._opened[name] = _Opened(table, files, ConsentFilter(table.engine))
            opened.stack.callback(table.close)
            opened.stack.callback(opened.consent_filter.close)
        return self._opened[name]

    def _retire(self, name: str, *, at_once: bool = False) -> None:
        """Forget an open data set; it is closed when its last user is done."""
        opened = self._opened.pop(name, None)
        if opened is not None:
            opened.retired = True
            opened.users = 0 if at_once else opened.users
            _close_if_unused(opened)
            for neighbour in list(self._opened.values()):
                neighbour.shown.pop(opened, None)

    def _dataset_in(self, host: str, name: str) -> Dataset:
        hosting, own = self._open(host), self._open(name)
        if hosting not in own.shown:
            own.shown[hosting] = self._show_in(host, name)
        unit = self._locations[name].unit or Rows()
        return Dataset(name, hosting.table.engine, own.shown[hosting], own.table.schema, unit)

    def _show_in(self, host: str, name: str) -> exp.Table:
        """A data set as the engine of another sees it, without people who did not agree."""
        hosting, own = self._open(host).table.engine, self._open(name).table.engine
        location, stack = self._locations[name], self._open(name).stack
        # One database shows all its tables to any connection; what lies elsewhere is copied.
        away = name != host and (
            location.address == IN_PROCESS or location.address != self._locations[host].address
        )
        seen = own.table
        if location.consent is not None:
            agreed = agreeing_rows(seen, location.unit or Rows(), location.consent)
            seen = stack.enter_context((own if away else hosting).view(agreed))
        if away:
            seen = stack.enter_context(hosting.lend(own.run(everything(seen))))
        return seen


def _check_shown(opened: _Opened) -> None:
    """Raise if a view or copy that queries use is gone, though the table itself is there."""
    for hosting, seen in list(opened.shown.items()):
        if seen != opened.table.engine.table:
            hosting.table.engine.columns(seen)


def _close_if_unused(opened: _Opened) -> None:
    if opened.retired and not opened.users:
        # Views in an engine that is gone went with it, and closing it again may fail.
        with suppress(Exception):
            opened.stack.close()
        opened.shown.clear()


def schema_of(config: Config, name: str) -> Schema:
    """The schema of a data set, under the name and with the unit that the vault gives it."""
    held = config.datasets[name]
    schema = replace(load_schema(config.folder / held.schema), table=name)
    if not isinstance(held, PrivateSet):
        return schema
    schema = replace(schema, unit=held.unit)
    schema.layout.check_private()
    if held.consent is not None:
        check_consent(schema, held.consent)
    if held.purposes:
        check_person_kinds(person_kinds(config, held.population))
    return schema


def catalogue(config: Config, schemas: Mapping[str, Schema]) -> dict[str, PrivateRows | PublicRows]:
    """The declarations of all data sets, from which queries are planned."""
    entries: dict[str, PrivateRows | PublicRows] = {}
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet):
            entries[name] = PrivateRows(schemas[name], held.unit, held.population)
            continue
        # A bound on a column that the schema lacks bounds nothing.
        for columns in held.bounds:
            for column in columns:
                schemas[name].column(column)
        entries[name] = PublicRows(schemas[name], held.bounds)
    return entries


def location(
    config: Config,
    name: str,
    schema: Schema,
    *,
    consents: Consents,
    check_apart: Callable[[Identity], None],
) -> Location:
    """Where the rows of a data set lie and how they are read."""
    held = config.datasets[name]
    source = source_of(config.folder, held.source)
    unit = held.unit if isinstance(held, PrivateSet) else None
    file = None if "://" in source or is_pattern(Path(source)) else Path(source)
    consent = held.consent if isinstance(held, PrivateSet) else None
    columns = tuple(column.name for column in schema.columns)
    # One person's malformed or endless cell must not decide whether questions are answered.
    private = unit is not None
    reading = partial(read, source, schema, strict=not private, short_texts=private)
    database = address(source)
    layout = schema.layout
    rows_location = Location(
        database, reading, unit, file, consent, source, columns, layout, check_apart
    )
    if private and rows_location.in_files:
        rows_location = replace(
            rows_location, open_whole=partial(read, source, schema, strict=False)
        )
    if not isinstance(held, PrivateSet) or not held.purposes:
        return rows_location
    register = consents.register(held.population)
    return replace(rows_location, purposes=held.purposes, register=register)
