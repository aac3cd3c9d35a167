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
    """A group of operations about the same thing: a command with sub-commands."""

    module: str
    help: str
    chapter: str
    """The heading under which the command line lists it."""


NOUNS = {
    "dataset": Noun(
        "sfumato.operations.datasets",
        "Manage data sets: add one, list them, show what is declared.",
        "Vaults: budgeted answers",
    ),
    "ledger": Noun(
        "sfumato.operations.ledger",
        "Manage the ledger: show spending, verify, export, change a budget.",
        "Vaults: budgeted answers",
    ),
    "snapshot": Noun(
        "sfumato.operations.snapshots",
        "Manage the snapshot: raise it after the data changed, so that queries get new answers.",
        "Vaults: budgeted answers",
    ),
    "principal": Noun(
        "sfumato.operations.principals",
        "Manage principals: who may query the vault, with which budget, until when.",
        "Vaults: budgeted answers",
    ),
    "token": Noun(
        "sfumato.operations.tokens",
        "Manage access tokens, which identify principals to a server.",
        "Vaults: budgeted answers",
    ),
    "job": Noun(
        "sfumato.operations.jobs",
        "Manage jobs: long-running work of a vault.",
        "Vaults: budgeted answers",
    ),
    "release": Noun(
        "sfumato.operations.releases",
        "Manage releases: list, show, save and share what jobs have produced.",
        "Vaults: budgeted answers",
    ),
    "feed": Noun(
        "sfumato.operations.feeds",
        "Manage feeds: queries that the vault answers anew for every period.",
        "Vaults: budgeted answers",
    ),
    "consent": Noun(
        "sfumato.operations.consent",
        "Manage consent: queries for a purpose count only people who agreed to it.",
        "Vaults: budgeted answers",
    ),
    "survey": Noun(
        "sfumato.operations.surveys",
        "Manage surveys: answers are randomized on people's devices before they are sent.\n\n"
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
        "Manage programs: approve Python programs of other principals after review.",
        "Vaults: budgeted answers",
    ),
}


_METHODS, _VAULTS = "sfumato.operations.private_methods", "Vaults: budgeted answers"
METHOD_COMMANDS = {
    "query": Noun(
        _METHODS,
        "Answer an SQL query about the data sets of a vault, with noise and error bounds.",
        _VAULTS,
    ),
    "publish": Noun(
        _METHODS,
        "Publish statistics of a data set with differential privacy.",
        "Publish statistics",
    ),
    "watch": Noun(
        _METHODS,
        "List the ranges with more rows than a threshold (sparse vector); only hits use up the "
        "cost.",
        "Publish statistics",
    ),
    "synthesize": Noun(
        _METHODS,
        "Generate a synthetic table that resembles a data set, with differential privacy.",
        "Release a table",
    ),
    "learn": Noun(_METHODS, "Train a model on a data set with differential privacy.", "Learn"),
    "run": Noun(
        _METHODS,
        "Run a program on blocks of rows and release a private aggregate of its outputs.",
        _VAULTS,
    ),
}
"""The commands of private methods."""

SHORTCUTS = {"add": "dataset add", "collect": "survey collect"}
"""Commands of one word, with the operation that each runs."""


def words_of(operation: Operation) -> list[str]:
    """The words of the command: a shortcut if there is one, else noun and verb."""
    shortcuts = [shortcut for shortcut, name in SHORTCUTS.items() if name == operation.name]
    return shortcuts or operation.name.split()


def operation_of(shortcut: str) -> Operation:
    """The operation that a command of one word runs."""
    name = SHORTCUTS[shortcut]
    noun = name.partition(" ")[0]
    return next(operation for operation in operations_of(noun) if operation.name == name)


def operations_of(noun: str) -> tuple[Operation, ...]:
    """The operations of a noun, in the order of their declarations."""
    from sfumato.operations.operation import OPERATIONS  # the list of commands needs only NOUNS

    # Importing the module declares its operations.
    import_module(NOUNS[noun].module)
    return tuple(operation for operation in OPERATIONS.values() if operation.noun == noun)


def all_operations() -> tuple[Operation, ...]:
    """Every operation, noun by noun."""
    return tuple(operation for noun in NOUNS for operation in operations_of(noun))
