"""What an object shows of itself: one line anywhere, a small card in a notebook.

An object says it as plain values; only the page that draws cards knows HTML, and is loaded when a
notebook asks. A card is made of what is public or its holder's, and never of a read of rows; it
never fails, because a repr is asked for while something else already has. Decision 0227.
"""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sfumato import arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LONGEST = 100


@dataclass(frozen=True)
class CardTable:
    """Some rows under their titles; `more` says how many are not shown.

    Columns of numbers stand to the right, or those that `right` says.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: int = 0
    right: Sequence[bool] | None = None


@dataclass(frozen=True)
class Card:
    """A line, facts by name, a table and remarks; values may be of any plain kind."""

    line: str
    facts: Mapping[str, Any]
    table: CardTable | None = None
    notes: Sequence[str] = ()


class Shown:
    """An object with a card."""

    @abstractmethod
    def _card(self) -> Card:
        """What it shows of itself."""

    def _line(self) -> str:
        """The line of its card, where that can be had without the rest."""
        return self._card().line

    def __repr__(self) -> str:
        try:
            told = " ".join(_plain(self._line()).split())
        except Exception:  # noqa: BLE001  a repr that fails hides what has failed before
            told = "that cannot be shown"
        whole = f"{type(self).__name__}: {told}"
        return f"<{whole if len(whole) <= _LONGEST - 2 else whole[: _LONGEST - 5] + '...'}>"

    def _repr_html_(self) -> str | None:
        from sfumato.report.notebook import html

        try:
            return html(type(self).__name__, self._card())
        except Exception:  # noqa: BLE001  the notebook then shows the line
            return None


class Drawn(Protocol):
    """A picture: what it is of, the drawing, and how it is shown and written."""

    @property
    def label(self) -> str:
        """What it is of."""
        ...

    @property
    def svg(self) -> str:
        """The drawing as a whole SVG file."""
        ...

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write it as an SVG file."""
        ...

    def _repr_html_(self) -> str: ...


class Pictures(tuple[Drawn, ...]):
    """The pictures of a release, one below the other in a notebook."""

    def _repr_html_(self) -> str:
        return "\n".join(f"<div>{one._repr_html_()}</div>" for one in self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write each as an SVG file: the first as it is named, others with a number behind."""
        first = arguments.path(path, "path")
        places = [first.with_stem(f"{first.stem}-{n}") for n in range(2, len(self) + 1)]
        for one, place in zip(self, [first, *places], strict=True):
            one.save(place, overwrite=overwrite)
        return [first, *places]


def _plain(text: str) -> str:
    """A text without signs that could steer a terminal."""
    return "".join(
        "\ufffd" if unicodedata.category(sign)[0] == "C" and not sign.isspace() else sign
        for sign in text
    )
