"""A field of a request as every door shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Field:
    """A field: its name, its line of help, and how the command line writes its value."""

    name: str
    help: str
    metavar: str | None
    """The placeholder of its value in help."""
    type: Any = str
    default: object = None
    required: bool = False
    positional: bool = False
    flag: str | None = None
    """The option of the command, if it differs from the name."""
    topic: str = ""
    """The heading of help above it; empty for the common one."""
    from_file: bool = False
    """Whether the command takes the path of a file."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """The allowed words with their meanings, if there are few."""
