"""A registry of consent behind a server: changes are checked here and recorded there.

A file is checked whole before anything is sent, and sent in portions, since a request has a largest
size. A change that is sent again has no effect. Decision `client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sfumato import arguments
from sfumato.client.admin import reading
from sfumato.data.schema.column import Kind
from sfumato.operations.consent import (
    MOST_CHANGES,
    Change,
    ChangeConsent,
    ExportConsent,
    ListConsent,
    RegistryRecord,
    ShowConsent,
)
from sfumato.server.request_body import LARGEST
from sfumato.text import dumps
from sfumato.vault.consent.consent_filter import written
from sfumato.vault.consent.registry import AnyRegistry, no_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sfumato.operations.consent import Changed, ConsentFile, RegistryList, Standing
    from sfumato.operations.operation import Call
    from sfumato.vault.consent.registry import ConsentChange

_MOST_BYTES = LARGEST // 2
"""Bytes of one portion of changes; the other half is a reserve for the rest of the body."""
_COUNTS = ("changed", "unchanged", "older")


class RemoteRegistry(AnyRegistry):
    """The consent of a population, in the log of a vault behind a server."""

    def __init__(self, call: Call, record: RegistryRecord) -> None:
        super().__init__(record.population, tuple(record.purposes), Kind(record.person))
        self._call = call

    @property
    def version(self) -> int:
        """The number of entries of the log; the ledger records it with every answer."""
        return int(self.show()["version"])

    def to_csv(self) -> str:
        """The consent of everybody, as a CSV that can be imported."""
        file: ConsentFile = self._call(ExportConsent, population=self.population)
        return file.lines

    def show(self, person: str | int | None = None) -> dict[str, Any]:
        """How many people agree to each purpose; or the consent of one person, with its history."""
        text = None if person is None else written(person, self.kind)
        standing: Standing = self._call(ShowConsent, population=self.population, person=text)
        return standing.to_json()

    @property
    def _in_use(self) -> tuple[Path, ...]:
        return ()

    def _record(self, changes: Sequence[ConsentChange], operator: str) -> dict[str, Any]:
        total: dict[str, Any] = {"population": self.population, **dict.fromkeys(_COUNTS, 0)}
        for portion in _portions(changes):
            changed: Changed = self._call(
                ChangeConsent, operator, population=self.population, changes=portion
            )
            counts = changed.to_json()
            total |= {name: total[name] + counts[name] for name in _COUNTS}
            total["version"] = changed.version
        return total if changes else total | {"version": self.version}


def registries(call: Call) -> tuple[RegistryRecord, ...]:
    """All registries of a server."""
    listed: RegistryList = call(ListConsent)
    return listed.registries


def registry_of(
    call: Call, name: str | None, population_of: Callable[[str], str | None]
) -> RemoteRegistry:
    """The registry of a population, or of the population of a data set; by default the only one."""
    population = arguments.maybe_text(name, "name")
    known = {record.population: record for record in registries(call)}
    if population is not None:
        with reading("registries"):
            population = population_of(population) or population
    if population is None and len(known) == 1:
        [population] = known
    if population is None or population not in known:
        raise no_registry(population, sorted(known))
    return RemoteRegistry(call, known[population])


def _portions(changes: Sequence[ConsentChange]) -> Iterator[list[Change]]:
    """Changes in portions that a server accepts."""
    portion: list[Change] = []
    size = 0
    for answer in changes:
        change = Change(
            answer.person, answer.purpose, answer.agreed, answer.time if answer.dated else None
        )
        # Bytes in JSON, with a comma and a space.
        length = len(dumps(msgspec.to_builtins(change)).encode()) + 2
        if portion and (len(portion) == MOST_CHANGES or size + length > _MOST_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(change)
        size += length
    if portion:
        yield portion
