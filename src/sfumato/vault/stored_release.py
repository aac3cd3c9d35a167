"""A release that can be had again, of a vault at hand or elsewhere: what it is, and as a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.filesystem import check_target, whole
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.release.release import Release
    from sfumato.vault.release_files import ReleaseFile


@dataclass(frozen=True, repr=False)
class AnyRelease(Shown, ABC):
    """A release that can be had again, by whom it was made for or opened to."""

    id: str
    family: str
    dataset: str
    made: str | None
    is_own: bool
    principal: str | None = None
    """Who had it made; told to its owner and to the vault's."""
    opened_to: tuple[str, ...] | None = None
    """To whom it is open; told to the vault's owner."""

    @property
    @abstractmethod
    def release(self) -> Release:
        """The release itself, its tables, what it guarantees and how far off it is."""

    @abstractmethod
    def file(self, name: str) -> ReleaseFile:
        """It as a file, by its name."""

    def save(self, path: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write it as a file, by its ending: tables as any release does, .arrow, .html or .zip."""
        target = arguments.path(path, "path")
        kind = {".html": "report.html", ".zip": "release.zip", ".arrow": "release.arrow"}
        name = kind.get(target.suffix.lower())
        if name is None:
            return self.release.public.save(target, overwrite=overwrite)
        file = self.file(name)
        check_target(target, overwrite=overwrite, kept=self.release.kept)
        with whole(target, overwrite=overwrite) as new:
            new.write_bytes(file.content)
        return [target]

    def to_json(self) -> dict[str, Any]:
        """What it is, without a look at it."""
        told: dict[str, Any] = {
            "release": self.id,
            "family": self.family,
            "dataset": self.dataset,
            "made": self.made,
            "own": self.is_own,
        }
        if self.principal is not None:
            told["principal"] = self.principal
        if self.opened_to is not None:
            told["opened_to"] = list(self.opened_to)
        return told

    def _card(self) -> Card:
        to = {} if self.opened_to is None else {"Open to": ", ".join(self.opened_to) or "nobody"}
        facts = {"Made": self.made or "", **to}
        return Card(f"{self.id}, {self.family} of {self.dataset}", facts)
