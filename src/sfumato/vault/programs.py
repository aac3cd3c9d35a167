"""Programs of principals who are not the owner: approvals, and limits on rehearsals.

Native code can observe the machine it runs on, so it runs for others only after the owner's
approval, which is an entry of the ledger under the program's digest. Programs in a strict language
need no approval. Rehearsals of both are limited, because they cost no budget. Decision
`programs`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import Column, Float, MetaData, Table, delete, func, insert, select

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, PolicyError, option
from sfumato.methods.programs.language import PYTHON, program_digest
from sfumato.methods.programs.source import check_visible, program_of
from sfumato.privacy.ledger.records import Amendment
from sfumato.release.files_in_use import CONSOLE
from sfumato.report.display import Card, Shown
from sfumato.vault.side_database import Name, SideDatabase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.records import BookState
    from sfumato.vault.config import Config

TOPIC = "program"
"""The topic of records about approved programs."""

WINDOW_SECONDS: Final = 3600
MOST_REHEARSALS: Final = 60
MOST_REHEARSED_SECONDS: Final = 1800
"""The limits of one principal in `WINDOW_SECONDS`: rehearsals, and the sum of their time limits.

Half an hour is one rehearsal on three made-up tables at the longest time of a block."""

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_metadata = MetaData()
_rehearsals = Table(
    "sfumato_rehearsals",
    _metadata,
    Column("principal", Name, nullable=False, index=True),
    Column("at", Float(53), nullable=False),
    Column("seconds", Float(53), nullable=False),
)


@dataclass(frozen=True, repr=False)
class Approval(Shown):
    """A native program that principals other than the owner may run."""

    digest: str
    function: str
    helper: str | None
    approved: str
    """When, in ISO form."""
    operator: str
    """Who approved it."""

    def to_json(self) -> dict[str, Any]:
        """The approval as JSON-able data."""
        return {
            "digest": self.digest,
            "function": self.function,
            "helper": self.helper,
            "approved": self.approved,
            "operator": self.operator,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        names = ("digest", "function", "helper", "approved", "operator")
        return cls(*(record[name] for name in names))

    def _card(self) -> Card:
        return Card(f"{self.digest}: {self.function}, approved by {self.operator}", {})


class ProgramRegistry:
    """The programs of a vault that others than its owner may run, and how often they rehearse."""

    def __init__(
        self,
        ledger: Ledger,
        config: Callable[[], Config],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger, self._config, self._clock = ledger, config, clock

    def approve_source(
        self,
        source: str,
        function: str | None,
        helper: str | None,
        *,
        operator: str,
        language: str = PYTHON,
    ) -> Approval:
        """Approve a program that the operator has read: all who may send code may run it.

        The approval is for this source with this `function` and `helper`. A program that differs in
        one byte needs another one.
        """
        if language != PYTHON:
            raise needless_approval()
        program = program_of(source, function)
        # An approval says that a person has read the program, so all of it must be there to see.
        check_visible(source)
        digest = program_digest(program, arguments.maybe_text(helper, "helper"))
        approved_by = arguments.text(operator, "operator")

        def decide(book: BookState) -> Amendment:
            moment = book.time.replace(microsecond=0).isoformat()
            approval = Approval(digest, program.function, helper, moment, approved_by)
            return Amendment(records={(TOPIC, digest): approval.to_json()})

        written = self._ledger.amend(decide, operator=approved_by)
        record: Any = written.records[TOPIC, digest]
        return Approval.from_json(record)

    def revoke(self, digest: str, *, operator: str) -> str:
        """Revoke the approval of a program from now on; return its digest."""
        name = arguments.text(digest, "digest").strip().lower()

        def decide(book: BookState) -> Amendment:
            if name not in book.of(TOPIC):
                raise unknown_program(name)
            return Amendment(records={(TOPIC, name): None})

        self._ledger.amend(decide, operator=arguments.text(operator, "operator"))
        return name

    def list(self) -> list[Approval]:
        """Every approved program, the last approved first."""
        approvals = [Approval.from_json(record) for record in self._ledger.records(TOPIC).values()]
        return sorted(
            approvals, key=lambda approval: (approval.approved, approval.digest), reverse=True
        )

    def check_approved(self, digest: str, principal: str) -> None:
        """Refuse a principal's native code unless the owner has approved it."""
        if digest not in self._ledger.records(TOPIC):
            raise PolicyError(
                "program_not_approved",
                f"{quoted(principal)} may run a Python program only once the vault's owner has "
                f"approved it. Send the program to the owner, who runs 'sfumato program approve' "
                f"on it; its digest is {digest}. Or write it in Starlark, which needs no approval.",
            )

    def count_rehearsal(self, principal: str, seconds: float) -> None:
        """Count a rehearsal that may take `seconds`; refused above the limits of an hour."""
        moment = self._clock()
        mine = _rehearsals.c.principal == principal
        with self._store.writing() as connection:
            # Without the lock several servers would each count before the others have added.
            self._store.lock(connection, f"rehearsals {principal}")
            connection.execute(
                delete(_rehearsals).where(_rehearsals.c.at <= moment - WINDOW_SECONDS)
            )
            spent = select(func.count(), func.coalesce(func.sum(_rehearsals.c.seconds), 0.0)).where(
                mine
            )
            # Counted before the run, so by the time limit and not by the time that it takes.
            number, seconds_used = connection.execute(spent).one()
            if number < MOST_REHEARSALS and seconds_used + seconds <= MOST_REHEARSED_SECONDS:
                row = {"principal": principal, "at": moment, "seconds": seconds}
                connection.execute(insert(_rehearsals).values(row))
                return
        raise PolicyError(
            "rehearsals_too_many",
            f"{quoted(principal)} may try programs on made-up rows {MOST_REHEARSALS} times in an "
            f"hour, and for {MOST_REHEARSED_SECONDS:,} seconds in all by the {option('seconds')} "
            "of their blocks. Nothing was run or charged. Try again later, or with fewer "
            f"{option('seconds')}.",
        )

    @cached_property
    def _store(self) -> SideDatabase:
        return SideDatabase(self._config(), CONSOLE, _metadata, "rehearsals")

    def close(self) -> None:
        """Close the database."""
        if "_store" in self.__dict__:
            self._store.close()


@dataclass(frozen=True)
class PrincipalRules:
    """The rules for programs of one principal who is not the owner."""

    programs: ProgramRegistry
    principal: str

    def check_approved(self, digest: str) -> None:
        """Refuse native code unless the owner has approved it."""
        self.programs.check_approved(digest, self.principal)

    def count_rehearsal(self, seconds: float) -> None:
        """Count a rehearsal that may take `seconds`; refused above the limits of an hour."""
        self.programs.count_rehearsal(self.principal, seconds)


def needless_approval() -> ParameterError:
    """The error for approving a program in a strict language."""
    return ParameterError(
        "option_not_applicable",
        "A program in Starlark cannot observe the machine and needs no approval: whoever may send "
        "code may run it.",
    )


def unknown_program(digest: str) -> ParameterError:
    """The error for a digest under which no program is approved."""
    return ParameterError(
        "program_unknown",
        f"No program with the digest {quoted(digest[:80])} is approved. 'sfumato program list' has "
        "those that are.",
    )


def is_digest(text: str) -> bool:
    """Whether a text has the form of a program's digest."""
    return bool(_DIGEST.fullmatch(text))
