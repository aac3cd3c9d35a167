"""What attacks found on a release of our own before it left, and who may know of it.

Findings are computed from the original: they are the holder's. Where the holder publishes them, the
release says so. Numbers tried are not rounded then: shares, victims and the ends of intervals would
tell them again. Decisions 0292, 0305.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.attack.finding import Findings

_PUBLISHED = (
    "Findings of attacks travel with this release. They were computed from the original rows, and "
    "nothing that is guaranteed here covers what they tell of people. They say how many were "
    "tried, from which the exact number of rows of the original, and of suppressed ones, may be "
    "told."
)


@dataclass(frozen=True)
class TriedAttacks:
    """The findings, where any attack was tried, what was required of them, and if all may know."""

    findings: Findings | None = None
    required: tuple[str, ...] = ()
    published: bool = False

    @property
    def kept(self) -> dict[str, Any]:
        """What the holder keeps, by its name; nobody is named in it."""
        if self.findings is None:
            return {}
        told = {"required": list(self.required), **self.findings.json(examples=False)}
        return {"attacks": told}

    @property
    def travels(self) -> dict[str, Any]:
        """The same for everybody: nothing, unless the holder publishes it."""
        return self.kept if self.published else {}

    @property
    def notes(self) -> list[str]:
        """What a receiver must know of findings that are published."""
        return [_PUBLISHED] if self.travels else []


NOT_TRIED = TriedAttacks()
"""Of a release that no attack was tried on."""
