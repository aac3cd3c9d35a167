"""The forecast of a program on blocks: its cost and its error, before anything is charged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.privacy.accounting.price import amounts_in_words
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, repr=False)
class ProgramForecast(Shown):
    """A dry run: the program was tried on made-up rows. Nothing was spent."""

    choices: Mapping[str, Any]
    error: Mapping[str, Any]
    seconds: float
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON-able data."""
        return {
            "choices": self.choices,
            "error": list(self.error.values()),
            "blocks": self.choices["method"]["blocks"],
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    def _card(self) -> Card:
        first, *body = self.text().splitlines()
        return Card(first, {}, notes=body)

    def text(self) -> str:
        """The forecast for people."""
        method = self.choices["method"]
        repeated = f", everybody in {method['repeats']} of them" if method["repeats"] > 1 else ""
        lines = (
            f"Cost: {amounts_in_words(self.choices['cost'])}. Nothing was spent; the program ran "
            f"well on made-up rows.\nBlocks: {method['blocks']}{repeated}, at most "
            f"{method['seconds']:g} seconds each. The answer comes after {self.seconds:,.0f} "
            "seconds, never sooner."
        )
        errors = (
            f"Expected error, {name}: {_error_text(error)}" for name, error in self.error.items()
        )
        return "\n".join([lines, *errors, *self.notes])


def _error_text(error: Mapping[str, float]) -> str:
    if "blocks95" in error:
        return f"in 95 % of cases at most {error['blocks95']:,} blocks from the middle one"
    return f"± {error['bound95']:,.4g} in 95 % of cases, standard deviation {error['sd']:,.4g}"
