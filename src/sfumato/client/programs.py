"""The approved programs of a vault behind a server, as its owner changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.client.admin import part, reading
from sfumato.methods.programs.language import PYTHON
from sfumato.methods.programs.source import program_of, text_of
from sfumato.report.display import Card, Shown
from sfumato.vault.principals import OWNER
from sfumato.vault.programs import (
    Approval,
    card_of_programs,
    is_digest,
    needless_approval,
    unknown_program,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.client.admin import Office

_PROGRAMS = "programs"


class RemotePrograms(Shown):
    """The native programs that others than the owner may run, of a vault elsewhere."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def approve(
        self,
        program: Callable[..., Any] | str | Path,
        *,
        operator: str = OWNER,
        function: str | None = None,
        helper: str | None = None,
    ) -> Approval:
        """Let every principal who may send code run this program, which you have read."""
        self._office.check(operator)
        text, name, language = text_of(program, function)
        if language != PYTHON:
            raise needless_approval()
        made = program_of(text, name)
        sent = {
            "program": text,
            "function": made.function,
            "helper": arguments.maybe_text(helper, "helper"),
        }
        with reading("an approval"):
            return Approval.from_json(self._office.send(_PROGRAMS, sent))

    def revoke(self, digest: str, *, operator: str = OWNER) -> str:
        """Let a program no longer be run for others, from now on; return its digest."""
        self._office.check(operator)
        name = arguments.text(digest, "digest").strip().lower()
        if not is_digest(name):  # what else comes into no address
            raise unknown_program(name)
        with reading("an approval"):
            return str(self._office.once(f"{_PROGRAMS}/{part(name)}", None, "DELETE")["revoked"])

    def list(self) -> list[Approval]:
        """Every approved program, the last approved first."""
        with reading("approvals"):
            return [Approval.from_json(one) for one in self._office.get(_PROGRAMS)["programs"]]

    def _card(self) -> Card:
        return card_of_programs(self.list())
