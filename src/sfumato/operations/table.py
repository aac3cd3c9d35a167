"""The table of operations: a noun, the module that declares its operations, and its chapter.

A new noun is a module beside this one and a line here. Only the module that a door asks for is
loaded, because a command must start quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.operations.operation import Operation


@dataclass(frozen=True)
class Noun:
    """What operations are about: a command with sub-commands."""

    module: str
    help: str
    chapter: str
    """Where the command line lists it."""


NOUNS = {
    "dataset": Noun(
        "sfumato.operations.datasets",
        "Add data sets, and see which there are and what is declared of each.",
        "Answer questions",
    ),
    "ledger": Noun(
        "sfumato.operations.ledger",
        "See what was spent, check the ledger, export it, or change a budget.",
        "Answer questions",
    ),
    "snapshot": Noun(
        "sfumato.operations.snapshots",
        "Tell the vault that there is new data, so that old answers are not given again.",
        "Answer questions",
    ),
    "principal": Noun(
        "sfumato.operations.principals",
        "Manage principals: who may query the vault, with which budget, until when.",
        "Answer questions",
    ),
    "token": Noun(
        "sfumato.operations.tokens",
        "Manage tokens, by which a server recognizes principals.",
        "Answer questions",
    ),
    "job": Noun(
        "sfumato.operations.jobs",
        "Manage jobs: long work of a vault, kept until it is done.",
        "Answer questions",
    ),
    "release": Noun(
        "sfumato.operations.releases",
        "Manage releases: list, show and save what jobs have produced, and share it.",
        "Answer questions",
    ),
    "feed": Noun(
        "sfumato.operations.feeds",
        "Manage feeds: questions that the vault answers for every period.",
        "Answer questions",
    ),
    "consent": Noun(
        "sfumato.operations.consent",
        "Manage consent: questions for a purpose see only people who agree to it.",
        "Answer questions",
    ),
    "survey": Noun(
        "sfumato.operations.surveys",
        "Ask a question whose answers are randomized before they leave people's devices.\n\n"
        "Only randomized reports are collected. The shares of the answers are estimated from them.",
        "Ask people",
    ),
    "pan": Noun(
        "sfumato.operations.pan_counters",
        "Count distinct visitors in a pan-private file: the file itself is differentially "
        "private.\n\nIt holds random bits about the people of a public list; a visit draws the "
        "bits of a person anew. A thief of one copy learns next to nothing about anybody.",
        "Ask people",
    ),
    "program": Noun(
        "sfumato.operations.programs",
        "Approve Python programs that others than the owner send, after reading them.",
        "Answer questions",
    ),
}


SHORTCUTS = {"add": "dataset add", "collect": "survey collect"}
"""Commands of one word, each with the operation that it is."""


def words_of(operation: Operation) -> list[str]:
    """The words by which the command line calls an operation."""
    for word, name in SHORTCUTS.items():
        if name == operation.name:
            return [word]
    return operation.name.split()


def operation_of(shortcut: str) -> Operation:
    """The operation that a command of one word is."""
    name = SHORTCUTS[shortcut]
    noun = name.partition(" ")[0]
    [found] = [operation for operation in operations_of(noun) if operation.name == name]
    return found


def operations_of(noun: str) -> tuple[Operation, ...]:
    """The operations of a noun, in the order of their declarations."""
    from sfumato.operations.operation import OPERATIONS  # the list of commands needs only NOUNS

    import_module(NOUNS[noun].module)
    return tuple(operation for operation in OPERATIONS.values() if operation.noun == noun)


def all_operations() -> tuple[Operation, ...]:
    """Every operation, noun by noun."""
    return tuple(operation for noun in NOUNS for operation in operations_of(noun))
