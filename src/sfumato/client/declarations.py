"""The declarations of a server's data sets, fetched when needed and cached for a while."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.client.error_reader import unexpected
from sfumato.data.schema.json_form import schema_from_json
from sfumato.data.schema.names import quoted
from sfumato.errors import BudgetError, SfumatoError
from sfumato.methods.query.sql.tables import PrivateRows, PublicRows
from sfumato.vault.datastore import check_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.operations.datasets import DatasetRecord
    from sfumato.operations.operation import Call

FRESH_SECONDS = 60.0
"""The time that declarations are cached. A plan of outdated ones is refused, never charged."""


@dataclass(frozen=True)
class Declared:
    """A data set: its declarations, the number of its database, and the cost of a query."""

    entry: PrivateRows | PublicRows
    place: int
    """Data sets with the same number are in one database and can be joined."""
    usual: Fraction | None
    maximum: Fraction | None
    purposes: tuple[str, ...] = ()
    """The purposes that people consent to. If there are any, every query names one."""


class RemoteCatalogue(Mapping[str, PrivateRows | PublicRows]):
    """The data sets that a token may see, as planning takes them."""

    def __init__(self, call: Call, is_closed: Callable[[], bool]) -> None:
        self._call, self._is_closed = call, is_closed
        self._seen: tuple[float, dict[str, str]] | None = None
        self._holder: str | None = None
        self._declared: dict[str, tuple[float, Declared]] = {}

    @property
    def listed(self) -> dict[str, str]:
        """The names of the data sets, each with what it hides."""
        return self._fetched()

    @property
    def principal(self) -> str:
        """The holder of the token. A token never changes its holder, so this is fetched once."""
        if self._holder is None:
            self._fetched()
        return str(self._holder)

    def _fetched(self) -> dict[str, str]:
        if self._seen is None or self._is_old(self._seen[0]):
            from sfumato.operations.datasets import DatasetList, ListDatasets

            answer: DatasetList = self._call(ListDatasets)
            self._holder = answer.principal
            promises = {dataset.name: dataset.hides for dataset in answer.datasets}
            self._seen = time.monotonic(), promises
        return self._seen[1]

    def declared(self, name: str) -> Declared:
        """The declarations of a data set."""
        if name not in self._declared or self._is_old(self._declared[name][0]):
            # Planning reads declarations many times; asking the server each time would be slow.
            self._declared[name] = time.monotonic(), declared_by(self._record(name))
        return self._declared[name][1]

    def left(self, name: str) -> tuple[Mapping[str, float], str]:
        """The largest cost of one more query about a data set, as amounts and in words."""
        record = self._record(name)
        if record.remaining is None:
            raise no_budget(name)
        return record.remaining, str(record.balance)

    def _record(self, name: str) -> DatasetRecord:
        """The record of a data set as it is now."""
        from sfumato.operations.datasets import ShowDataset

        record: DatasetRecord = self._call(ShowDataset, name=name)
        return record

    def _is_old(self, fetched: float) -> bool:
        """Whether to fetch something again; a closed vault fetches nothing."""
        return time.monotonic() - fetched > FRESH_SECONDS and not self._is_closed()

    def forget(self) -> None:
        """Fetch everything again when it is next needed."""
        self._seen, self._declared = None, {}

    def asked_for_consent(self, name: str) -> str | None:
        """The population of a data set whose people are asked for consent; None for others."""
        entry = self.get(name)
        if not isinstance(entry, PrivateRows) or not self.declared(name).purposes:
            return None
        return entry.population

    def check(self, names: tuple[str, ...]) -> None:
        """Refuse a query that joins private data sets of different databases."""
        check_together({name: self.declared(name).place for name in names})

    def __getitem__(self, name: str) -> PrivateRows | PublicRows:
        if name not in self.listed:
            raise KeyError(name)
        return self.declared(name).entry

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.listed)


def no_budget(name: str) -> BudgetError:
    """The error for a principal who may see a data set and has no budget for it."""
    return BudgetError(
        "budget_missing", f"You have no budget for {quoted(name)}. Ask its owner for one."
    )


def _amount(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def declared_by(record: DatasetRecord) -> Declared:
    """Read the declarations of a data set from its record."""
    try:
        # A server may send anything, so each failure below is one error about the server.
        schema = schema_from_json(record.schema)
        entry: PrivateRows | PublicRows
        if record.public:
            entry = PublicRows(schema, {keys.columns: keys.rows for keys in record.keys})
        else:
            entry = PrivateRows(schema, schema.unit, str(record.population))
        return Declared(
            entry,
            record.place,
            _amount(record.usual_epsilon),
            _amount(record.largest_epsilon),
            record.purposes,
        )
    except (
        KeyError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        SfumatoError,
    ) as error:
        raise unexpected("declarations that cannot be read") from error
