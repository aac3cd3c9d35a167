"""What a page is made of: plain text and figures; how they look is the page's affair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.report.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    Cell = str | int | float


@dataclass(frozen=True)
class Heading:
    """A heading: level 2 opens a section of the page, 3 and 4 a part of one."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of running text."""

    text: str


@dataclass(frozen=True)
class Note:
    """A remark set apart from the text; a warning is a remark that must not be missed."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class PageTable:
    """A small table; long ones stay folded until the reader opens them."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False


@dataclass(frozen=True)
class KeyFigures:
    """A few numbers that matter, each already written out, with what it counts."""

    figures: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Headline:
    """One number in very large type, the sentence that it completes, and its picture."""

    figure: str
    sentence: str
    picture: Picture


@dataclass(frozen=True)
class FileLinks:
    """Files that lie beside the page: file name and what is in it."""

    files: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Folded:
    """Blocks that stay folded under a line of text until the reader opens them."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Listing:
    """Sentences that stand beside each other, one point each."""

    items: Sequence[str]


@dataclass(frozen=True)
class Commands:
    """Lines to be typed, and what they are for."""

    caption: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Glossary:
    """Words of the field with what they mean, folded until the reader opens them."""

    terms: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class SignatureLines:
    """Lines to be filled in by hand."""

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
