"""Recognize a source under other names and as a copy, so that it gets no second budget.

Within a vault a source belongs to one population. The vault records names of a source that reveal
nothing: digests of its paths or of its names in a database, and a keyed fingerprint of its rows.
Decision `source-identity`.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.engines.base import SPARK
from sfumato.data.engines.sources import POSTGRES, identify
from sfumato.data.files.formats import parquet_paths
from sfumato.data.schema.layout import UTF8
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema_file import load as load_schema
from sfumato.errors import ParameterError, SfumatoError, SourceError, option
from sfumato.privacy.ledger.chain import digest
from sfumato.release.files_in_use import SECRET
from sfumato.release.fingerprint import contents, new_secret, of_file, read_secret
from sfumato.release.open_table import read
from sfumato.vault.accounts import NODE, PASSING, VERSION, source_name, source_of, written_name
from sfumato.vault.config import PrivateSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.data.engines.source_identity import Identity
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.release.open_table import Table
    from sfumato.vault.config import Config, PublicSet

_CONTENTS = "contents "
_MOVED = (
    " It is told by the file's number on its disk. If that file was deleted and this one, of other "
    "rows, has its number now, add a copy of this one."
)


@dataclass(frozen=True)
class KnownSource:
    """The present identity of a source, and fingerprints of its rows under the vault's key."""

    identity: Identity
    marks: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The names that are recorded and bound to its population permanently."""
        return frozenset(map(source_name, self.identity.names)) | self.marks

    @property
    def compared(self) -> frozenset[str]:
        """All names under which it may be registered already."""
        return self.names | frozenset(map(source_name, self.identity.also))

    @property
    def nodes(self) -> frozenset[str]:
        """Names of its files that stay when the files are moved."""
        return frozenset(f"{NODE}{digest(node.encode())}" for node in self.identity.nodes)

    @property
    def record(self) -> tuple[str, ...]:
        """Everything to record: names, files, and the version of the files that was read."""
        return (*sorted(self.names), *sorted(self.nodes), *_version(self.identity))


def secret_of(config: Config, ledger: Ledger) -> bytes:
    """The key of a vault's fingerprints; a new one while there is no fingerprint."""
    # A missing key with fingerprints is an error: with a new key no copy would be recognized.
    path = config.folder / SECRET
    return read_secret(path) if path.exists() or _has_fingerprints(config, ledger) else new_secret()


def _has_fingerprints(config: Config, ledger: Ledger) -> bool:
    """Whether the vault has a fingerprint; those of removed data sets are in the ledger alone."""
    listed = (name for held in config.datasets.values() for name in held.identity)
    bound = (json.loads(entry.body).get("dataset", "") for entry in ledger.entries())
    return any(name.startswith(_CONTENTS) for name in chain(listed, bound))


def look(source: str, table: Table, secret: bytes) -> KnownSource:
    """Identify an opened source and compute the fingerprints of its rows."""
    return KnownSource(identify(source, table.engine), _marks(source, table, secret))


@dataclass(frozen=True)
class KnownSources:
    """The registered sources of a vault, which are opened again where needed and possible."""

    config: Config
    ledger: Ledger
    secret: bytes
    warn: Callable[[str], None]

    def check(
        self, new: KnownSource, population: str | None, rows: int, purposes: Sequence[str] = ()
    ) -> Mapping[str, KnownSource]:
        """Refuse a source that is registered with another population or other purposes.

        Parameters
        ----------
        population
            The population of the new data set; None for a public one.
        rows
            The number of its rows.
        purposes
            Its purposes. All names of a source have the same purposes; otherwise one name could be
            used for a purpose to which its people did not agree.

        Returns
        -------
        Mapping
            By data set, the registered sources that could be opened, as they are now.
        """
        known: dict[str, KnownSource] = {}
        unseen: dict[str, PrivateSet] = {}
        for name, held in self.config.datasets.items():
            try:
                known[name] = self._look_again(held, rows)
            except SfumatoError as error:
                self._warn_unreachable(name, error)
                if isinstance(held, PrivateSet) and held.population != population:
                    # Checked last: if the recorded names already tell the source, the refusal says
                    # so.
                    unseen[name] = held
            if self._is_same_source(held, known.get(name), new):
                _check_kind(name, held, population)
                _check_purposes(name, held, purposes)
            # A file that was moved keeps its number on the disk, whatever its path says.
            if new.nodes & set(held.identity):
                _check_kind(name, held, population, _MOVED)
                _check_purposes(name, held, purposes, _MOVED)
        for bound in sorted(new.compared):
            account = self.ledger.account_of(bound)
            if account not in (None, population):
                raise _refusal(f"the population {quoted(account or '')}", account, population)
        for name, lost in unseen.items():
            raise _unseen(name, lost.population)
        return known

    def renewed(self, known: Mapping[str, KnownSource]) -> dict[str, tuple[str, ...]]:
        """The new records of registered sources that have changed since they were recorded.

        A vault of an older version may hold one source under two populations. A name is bound once,
        so there the second data set keeps its record.
        """
        renewed, claimed = {}, dict[str, str]()
        for name, source in known.items():
            held = self.config.datasets[name]
            last = [mark for mark in held.identity if not mark.startswith(VERSION)]
            record = list(dict.fromkeys([*last, *source.record]))
            if isinstance(held, PrivateSet):
                owner = held.population
                record = [
                    mark
                    for mark in record
                    if mark.startswith(PASSING)
                    or (self.ledger.account_of(mark) or claimed.setdefault(mark, owner)) == owner
                ]
            if set(record) != set(held.identity):
                renewed[name] = tuple(record)
        return renewed

    def _look_again(self, held: PrivateSet | PublicSet, rows: int) -> KnownSource:
        """A registered source as it is now; fingerprints only where they may have changed."""
        source = source_of(self.config.folder, held.source)
        if "://" not in source:
            identity = identify(source)
            # Same version of the files: the recorded fingerprint still holds, and nothing is read.
            if set(_version(identity)) <= set(held.identity):
                return KnownSource(identity, frozenset())
        schema = load_schema(self.config.folder / held.schema)
        with closing(read(source, schema)) as table:
            identity = identify(source, table.engine)
            fresh = set(_version(identity)) <= set(held.identity)
            has_fingerprint = any(mark.startswith(_CONTENTS) for mark in held.identity)
            # On a server nothing tells whether rows changed; a copy has as many as we do.
            if has_fingerprint and (fresh if identity.version else rows_of(table) != rows):
                return KnownSource(identity, frozenset())
            return KnownSource(identity, _marks(source, table, self.secret))

    def _warn_unreachable(self, name: str, error: SfumatoError) -> None:
        self.warn(
            f"Cannot look at {quoted(name)} again ({error.code}), so the new source was compared "
            "with what was recorded of it."
        )

    def _is_same_source(
        self, held: PrivateSet | PublicSet, current: KnownSource | None, new: KnownSource
    ) -> bool:
        recorded = {*held.identity, written_name(self.config, held)}
        if recorded & new.compared:
            return True
        return current is not None and (
            current.identity.matches(new.identity) or not current.marks.isdisjoint(new.marks)
        )


def check_apart(config: Config, ledger: Ledger, name: str, identity: Identity) -> None:
    """Refuse a data set whose address now leads to the source of another one.

    Only names are compared, and these depend on no row. Other sources are opened only if this one
    has changed.
    """
    held, current = config.datasets[name], KnownSource(identity, frozenset())
    population = held.population if isinstance(held, PrivateSet) else None
    own = set(held.identity) if population is not None else set[str]()
    new = current.compared - own
    changed = not current.names | current.nodes <= set(held.identity)
    asked = set(held.purposes) if isinstance(held, PrivateSet) else set[str]()
    for other_name, dataset in config.datasets.items():
        is_kin = (dataset.population if isinstance(dataset, PrivateSet) else None) == population
        if is_kin and (not isinstance(dataset, PrivateSet) or set(dataset.purposes) == asked):
            continue
        recorded = {*dataset.identity, written_name(config, dataset)}
        near = _reader_of(dataset.source) == _reader_of(held.source)
        if new & recorded or (changed and near and _reads_the_same(config, dataset, current)):
            raise _source_replaced(
                name, f"the data set {quoted(other_name)}", _UNASKED if is_kin else _POOR
            )
    for bound in sorted(current.names - own):
        account = ledger.account_of(bound)
        if account not in (None, population):
            raise _source_replaced(name, f"the population {quoted(account or '')}")


def _reader_of(source: str) -> str:
    """The kind of system that reads a source; sources of two kinds share no names."""
    scheme = source.partition("://")[0] if "://" in source else ""
    return POSTGRES[0] if scheme in POSTGRES else "spark" if scheme in SPARK else scheme


def _reads_the_same(
    config: Config, neighbour: PrivateSet | PublicSet, current: KnownSource
) -> bool:
    """Whether another data set now reads the same source.

    If that one cannot be opened, its files may have been moved here: then the recorded numbers of
    its files decide. If it can, recorded numbers mean nothing: the disk may have reused them.
    """
    try:
        return identify(source_of(config.folder, neighbour.source)).matches(current.identity)
    except SfumatoError:
        return bool(current.nodes & set(neighbour.identity))


_POOR, _UNASKED = "has no budget", "asks for other purposes"


def _source_replaced(name: str, owner: str, lacking: str = _POOR) -> SourceError:
    return SourceError(
        "source_unready",
        f"The data set {quoted(name)} cannot be read now: since it was added, its source has come "
        f"to hold rows of {owner}, for which it {lacking}. Nothing was charged. Let the "
        "operator take these out of it, or put back what it was, and ask again.",
    )


def rows_of(table: Table) -> int:
    """Count the rows of a table."""
    counted = exp.alias_(exp.cast(exp.Count(this=exp.Star()), "BIGINT"), "sf_rows")
    result = table.engine.run(exp.select(counted).from_(table.engine.table))
    return int(result["sf_rows"][0].as_py())


def _marks(source: str, table: Table, secret: bytes) -> frozenset[str]:
    """Fingerprints of a source, and of each file in a folder: one alone may be copied."""
    marks = _fingerprints(table, secret)
    path = Path(source)
    if marks and "://" not in source and table.layout.codec not in UTF8:
        # In another encoding that has a letter for every byte a copy would hold other text.
        return marks | {f"{_CONTENTS}{of_file(path, secret=secret)}"}
    paths = [] if "://" in source else parquet_paths(path)
    for path in paths if len(paths) > 1 else ():
        with closing(read(path, table.schema)) as table_part:
            marks |= _fingerprints(table_part, secret)
    return marks


def _fingerprints(table: Table, secret: bytes) -> frozenset[str]:
    """Fingerprints of all columns and of those declared: a copy may lack the others."""
    engine = table.engine
    held = engine.columns(engine.table)
    declared = {column.name: column.kind for column in table.schema.columns}
    sets = [held] if declared == held else [held, declared]
    marks = [contents(engine, engine.table, kinds, secret=secret) for kinds in sets]
    return frozenset(f"{_CONTENTS}{mark}" for mark in marks if mark is not None)


def _version(identity: Identity) -> tuple[str, ...]:
    if identity.version is None:
        return ()
    return (f"{VERSION}{digest(identity.version.encode())}",)


def _check_kind(
    name: str, held: PrivateSet | PublicSet, population: str | None, otherwise: str = ""
) -> None:
    """Refuse one source as public and private, or under two populations."""
    if isinstance(held, PrivateSet):
        if held.population != population:
            owner = f"the data set {quoted(name)}"
            raise _refusal(owner, held.population, population, otherwise)
    elif population is not None:
        raise ParameterError(
            "dataset_attached",
            f"This source holds the rows of {quoted(name)}, which is public here: whoever asks may "
            "join them as they are, so no budget protects them. Remove the public one first."
            + otherwise,
        )


def _check_purposes(
    name: str, held: PrivateSet | PublicSet, purposes: Sequence[str], otherwise: str = ""
) -> None:
    if not isinstance(held, PrivateSet) or set(held.purposes) == set(purposes):
        return
    asked = ",".join(held.purposes)
    raise ParameterError(
        "purposes_invalid",
        f"This source holds the rows of {quoted(name)}, whose people are asked for "
        f"{asked or 'no purposes'}, and one source has one list of purposes. "
        + (
            f"Add it with {option('purposes', list(held.purposes))}."
            if asked
            else f"Leave {option('purposes')} out."
        )
        + otherwise,
    )


def _unseen(name: str, owner: str) -> ParameterError:
    """The error for a new source while a registered one of another population is unreadable.

    The new one may be a moved copy whose rows changed before: then no recorded name recognizes it.
    """
    return ParameterError(
        "dataset_attached",
        f"Cannot tell whether this source holds the rows of the data set {quoted(name)}, which "
        "cannot be looked at where it was registered. Put that back, or name "
        f"{option('population', owner)} if these are its people. If it is gone for good and these "
        f"are others, remove [datasets.{name}] from the vault.toml first: what was spent stays "
        "spent.",
    )


def _refusal(
    holder: str, owner: str | None, population: str | None, otherwise: str = ""
) -> ParameterError:
    if population is None:
        return ParameterError(
            "dataset_attached",
            f"Cannot add this source as public: it holds the rows of {holder}, which are private, "
            f"under this or another name.{otherwise}",
        )
    return ParameterError(
        "dataset_attached",
        f"This source holds the rows of {holder}, under this or another name, and would get a "
        f"fresh budget. Add it with {option('population', owner)}.{otherwise}",
    )
