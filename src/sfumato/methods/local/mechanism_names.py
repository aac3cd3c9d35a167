"""Names of mechanisms: written with hyphens as all of the command are; underscores are read too.

What is kept, before reports and in sketches, has them with underscores, and stays as it is.
"""

from __future__ import annotations

from typing import TypeVar

Name = TypeVar("Name")


def hyphened(name: Name) -> Name:
    """A name in the one spelling by which mechanisms are found; what is no text stays."""
    return name.replace("_", "-") if isinstance(name, str) else name  # type: ignore[return-value]


def kept(name: str) -> str:
    """A name as it is kept."""
    return name.replace("-", "_")
