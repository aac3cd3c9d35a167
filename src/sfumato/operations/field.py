"""A field of a request as every door shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Field:
    """One value that a request may hold: its name, a line of help, and how it is written."""

    name: str
    help: str
    metavar: str | None
    """What stands for its value in help."""
    type: Any = str
    default: object = None
    required: bool = False
    positional: bool = False
    flag: str | None = None
    """The option of the command, where it differs from the name."""
    topic: str = ""
    """The heading of help under which it stands, where that is not the common one."""
    from_file: bool = False
    """Whether the command takes the path of a file."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """The words that it may be, where they are few, each with what it means."""
