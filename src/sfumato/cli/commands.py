"""All commands, chapter by chapter. A new command is a file beside this one and its name here.

It is loaded when it is asked, or when all are listed. Families of private methods
(`vault.families`) and nouns of operations (`operations.table`) bring their own commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sfumato.cli.operation_commands import command_of
from sfumato.operations.table import SHORTCUTS, operation_of

COMMANDS: dict[str, tuple[str, ...]] = {
    "Look around": ("demo",),
    "See the risk": ("inspect",),
    "Release a table": ("anonymize", "measure", "worlds", "evaluate", "attack", "compare"),
    "Answer questions": (
        "init",
        "add",
        "serve",
        "sandbox",
    ),
    "Learn": ("predict",),
    "Ask people": ("survey", "collect", "locate", "pan"),
}


def command_named(name: str) -> Any:
    """The function of a command, in the file of its name or made from its operation."""
    if name in SHORTCUTS:
        return command_of(operation_of(name))
    return getattr(import_module(f"sfumato.cli.{name}"), name)
