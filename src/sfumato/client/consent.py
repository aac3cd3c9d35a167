"""A registry of consent behind a server: what people say is checked here, and written down there.

A file is checked whole before anything is sent, and sent in portions, since a request may not be of
any size; what was sent before counts for nothing when it is sent again. Decision 0369.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.client.admin import part, reading
from sfumato.data.schema.column import Kind
from sfumato.server.request_body import LARGEST
from sfumato.text import dumps
from sfumato.vault.consent.consent_filter import written
from sfumato.vault.consent.registry import AnyRegistry, no_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sfumato.client.admin import Office
    from sfumato.vault.consent.registry import Said

_CONSENT = "consent"
MOST_CHANGES = 10_000
"""So many changes a request may have."""
_MOST_BYTES = LARGEST // 2
_COUNTS = ("changed", "unchanged", "older")


class RemoteRegistry(AnyRegistry):
    """Who of a population agreed to which purpose, in the log of a vault elsewhere."""

    def __init__(
        self, office: Office, population: str, purposes: tuple[str, ...], kind: Kind
    ) -> None:
        super().__init__(population, purposes, kind)
        self._office, self._path = office, f"{_CONSENT}/{part(population)}"

    @property
    def version(self) -> int:
        """How many entries the log has; it stands beside every answer in the ledger."""
        with reading("a registry"):
            return int(self.show()["version"])

    def to_csv(self) -> str:
        """All that stands, as a CSV that can be imported."""
        return self._office.file(f"{self._path}/file", "text/csv").decode()

    def show(self, person: str | int | None = None) -> dict[str, Any]:
        """How many agree to each purpose; or how one person stands, and all that they said."""
        if person is not None:
            asked = written(person, self.kind)
            return self._office.send(f"{self._path}/person", {"person": asked})
        with reading("registries"):
            [told] = [
                one for one in registries(self._office) if one["population"] == self.population
            ]
            return {name: one for name, one in told.items() if name != "person"}

    @property
    def _in_use(self) -> tuple[Path, ...]:
        return ()

    def _record(self, said: Sequence[Said], operator: str) -> dict[str, Any]:
        self._office.check(operator)
        found: dict[str, Any] = {"population": self.population, **dict.fromkeys(_COUNTS, 0)}
        with reading("what was changed"):
            for portion in _portions(said):
                told = self._office.send(f"{self._path}/changes", {"changes": portion})
                found |= {name: found[name] + int(told[name]) for name in _COUNTS}
                found["version"] = told["version"]
        return found if said else found | {"version": self.version}


def registries(office: Office) -> list[dict[str, Any]]:
    """All registries as a server tells of them."""
    with reading("registries"):
        return list(office.get(_CONSENT)["registries"])


def registry_of(
    office: Office, name: str | None, population_of: Callable[[str], str | None]
) -> RemoteRegistry:
    """The registry of a population, or of a data set's; the only one where none is named."""
    wanted = arguments.maybe_text(name, "name")
    with reading("registries"):
        known = {str(one["population"]): one for one in registries(office)}
        if wanted is not None:
            wanted = population_of(wanted) or wanted
        if wanted is None and len(known) == 1:
            [wanted] = known
        if wanted is None or wanted not in known:
            raise no_registry(wanted, sorted(known))
        found = known[wanted]
        return RemoteRegistry(office, wanted, tuple(found["purposes"]), Kind(found["person"]))


def _portions(said: Sequence[Said]) -> Iterator[list[dict[str, Any]]]:
    """Changes in portions that a server takes."""
    portion: list[dict[str, Any]] = []
    size = 0
    for one in said:
        told: dict[str, Any] = {"person": one.person, "purpose": one.purpose, "agreed": one.agreed}
        if one.dated:
            told["time"] = one.time
        length = len(dumps(told).encode()) + 2
        if portion and (len(portion) == MOST_CHANGES or size + length > _MOST_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(told)
        size += length
    if portion:
        yield portion
