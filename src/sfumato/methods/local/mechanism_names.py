"""Names of mechanisms: written with hyphens as all of the command are; underscores are read too.

Files of reports and sketches store them with underscores, so that older files are read.
"""

from __future__ import annotations

from typing import TypeVar

Name = TypeVar("Name")


def hyphened(name: Name) -> Name:
    """A name in the one spelling by which mechanisms are found; what is no text stays."""
    return name.replace("_", "-") if isinstance(name, str) else name  # type: ignore[return-value]


def stored_name(name: str) -> str:
    """A name as files of reports and sketches store it."""
    return name.replace("-", "_")
