"""Before spending: how far noise would take a parent's and a child's model off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from sfumato.methods.synth.forecast import SynthesisForecast


@dataclass(frozen=True, repr=False)
class LinkedForecast(Shown):
    """What two tables would cost together, and what each method would be worth for either."""

    parent_name: str
    child_name: str
    parent: SynthesisForecast
    child: SynthesisForecast

    def _card(self) -> Card:
        first, *more = self.text().splitlines()
        return Card(first, {}, notes=more)

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON-able data: that of the parent, and that of the child in it."""
        return {**self.parent.to_json(), "child": self.child.to_json()}

    def text(self) -> str:
        """The forecast for people."""
        cost, *parent = self.parent.text().splitlines()
        _, *child = self.child.text().splitlines()
        return "\n".join([cost, f"{self.parent_name}:", *parent, f"{self.child_name}:", *child])
