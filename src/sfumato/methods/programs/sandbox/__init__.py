"""Choose the sandbox for programs of analysts: one that passes its self-test, or none runs.

Decision `sandbox`.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING, Final

from sfumato.errors import ParameterError
from sfumato.methods.programs.sandbox.base import (
    BlockLimits,
    Chamber,
    Probe,
    Program,
    Rehearsal,
    longest_seconds,
    unavailable,
)
from sfumato.methods.programs.sandbox.seccomp import MACHINES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "PROVIDERS",
    "VARIABLE",
    "BlockLimits",
    "Chamber",
    "Probe",
    "Program",
    "Rehearsal",
    "chamber",
    "chambers",
    "checked_choice",
    "longest_seconds",
]

PROVIDERS: Final = ("bubblewrap", "landlock")
"""In the order in which they are tried."""
VARIABLE: Final = "SFUMATO_SANDBOX"
"""Chooses among them, where a vault does not; there is no way to choose none."""


def chamber(choice: str | None = None) -> Chamber:
    """A sandbox that has just passed its self-test; if none does, no program is run.

    Ask for one before each job: what a machine allows may change. `choice` is the entry of a
    vault's configuration and takes precedence over the variable.
    """
    choice = checked_choice(choice or os.environ.get(VARIABLE))
    findings: list[str] = []
    for candidate in chambers():
        if choice in {None, candidate.name}:
            tried = candidate.probe()
            if tried.passed:
                return candidate
            findings += tried.findings
    raise unavailable("; ".join(findings) or f"{sys.platform} on {platform.machine()} has none")


def checked_choice(choice: str | None) -> str | None:
    """What somebody chose, if anything; what there is not is refused."""
    if choice and choice not in PROVIDERS:
        raise ParameterError(
            "choice_unknown",
            f"There is no sandbox '{choice}'. Write {' or '.join(PROVIDERS)}, or nothing to have "
            f"the first that passes its test: in vault.toml (sandbox = ...) or in {VARIABLE}.",
            parameter="sandbox",
        )
    return choice or None


def chambers() -> Iterator[Chamber]:
    """All sandboxes for this kind of machine, tested or not."""
    if sys.platform == "linux" and platform.machine() in MACHINES:
        from sfumato.methods.programs.sandbox.bubblewrap import Bubblewrap
        from sfumato.methods.programs.sandbox.landlock import Landlock

        yield Bubblewrap()
        yield Landlock()
