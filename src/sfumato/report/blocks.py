"""The blocks that pages are made of: plain text, tables and pictures. Templates draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.report.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    Cell = str | int | float


@dataclass(frozen=True)
class Heading:
    """A heading: level 2 starts a section of the page, levels 3 and 4 a part of one."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Note:
    """A remark set apart from the text, or a warning that nobody must miss."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class PageTable:
    """A small table; a `folded` one stays closed until the reader opens it."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False


@dataclass(frozen=True)
class KeyFigures:
    """A few important numbers, each as text, with what it counts."""

    figures: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Headline:
    """One number in very large type, the sentence that continues it, and a picture."""

    figure: str
    sentence: str
    picture: Picture


@dataclass(frozen=True)
class FileLinks:
    """Links to files beside the page, with a description of each."""

    files: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Folded:
    """Blocks that stay closed under a line of text until the reader opens them."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Listing:
    """A list of sentences, one per point."""

    items: Sequence[str]


@dataclass(frozen=True)
class Commands:
    """Commands to type, and what they are for."""

    caption: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Glossary:
    """Terms with their meaning, closed until the reader opens them."""

    terms: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class SignatureLines:
    """Lines to fill in by hand."""

    labels: Sequence[str]


Block = (
    Heading
    | Paragraph
    | Note
    | PageTable
    | Picture
    | KeyFigures
    | Headline
    | FileLinks
    | Folded
    | Listing
    | Commands
    | Glossary
    | SignatureLines
)
