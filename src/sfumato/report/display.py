"""How objects show themselves: one line anywhere, a small card in a notebook.

An object gives plain values; the module that makes HTML from them is loaded when a notebook asks.
A card shows public facts or those of its holder and never reads rows. It never fails, because a
repr is often asked for while an error is being handled. Decision `pages`.
"""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato import arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sfumato.report.picture import Picture

_LONGEST = 100


@dataclass(frozen=True)
class CardTable:
    """Some rows with their titles; `hidden_rows` is the number of rows that are not shown.

    Columns of numbers are aligned to the right, unless `right` says which columns are.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[Any]]
    hidden_rows: int = 0
    right: Sequence[bool] | None = None


@dataclass(frozen=True)
class Card:
    """One line, facts by name, a table and notes; values may be of any plain type."""

    line: str
    facts: Mapping[str, Any]
    table: CardTable | None = None
    notes: Sequence[str] = ()


class Shown:
    """An object that shows itself as a card."""

    @abstractmethod
    def _card(self) -> Card:
        """Return the card of this object."""

    def _line(self) -> str:
        """Return the line of the card; a subclass may compute it without the rest."""
        return self._card().line

    def __repr__(self) -> str:
        try:
            line = " ".join(_replace_controls(self._line()).split())
        except Exception:  # noqa: BLE001  a repr that fails hides the error being handled
            line = "cannot be shown"
        text = f"{type(self).__name__}: {line}"
        return f"<{text if len(text) <= _LONGEST - 2 else text[: _LONGEST - 5] + '...'}>"

    def _repr_html_(self) -> str | None:
        from sfumato.report.notebook import html

        try:
            return html(type(self).__name__, self._card())
        except Exception:  # noqa: BLE001  the notebook then shows the repr
            return None


class Pictures(tuple["Picture", ...]):
    """The pictures of a release, one below the other in a notebook."""

    def _repr_html_(self) -> str:
        return "\n".join(f"<div>{picture._repr_html_()}</div>" for picture in self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write each as an SVG file: the first to `path`, the others with a number in the name."""
        first = arguments.path(path, "path")
        paths = [first]
        paths += [first.with_stem(f"{first.stem}-{number}") for number in range(2, len(self) + 1)]
        for picture, target in zip(self, paths, strict=True):
            picture.save(target, overwrite=overwrite)
        return paths


def _replace_controls(text: str) -> str:
    """Text with a mark in place of characters that could control a terminal."""
    return "".join(
        "\ufffd" if unicodedata.category(letter)[0] == "C" and not letter.isspace() else letter
        for letter in text
    )
