"""Programs that the owner has read and approved, so that other principals may run them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.arguments import text
from sfumato.operations.fields import FIELD_TYPES, FieldType, Name, Request, arg
from sfumato.operations.operation import (
    OWNERS,
    Call,
    Context,
    Result,
    operation,
    print_table,
)
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import minute
from sfumato.vault.principals import OWNER

if TYPE_CHECKING:
    from sfumato.vault.programs import Approval


class ProgramSource(str):
    """The source of a Python program; a command takes the file that holds it."""

    __slots__ = ()


class Digest(str):
    """The digest of an approved program."""

    __slots__ = ()


def _read_file(path: str) -> str:
    from sfumato.methods.programs.language import PYTHON
    from sfumato.methods.programs.source import text_of
    from sfumato.vault.programs import needless_approval

    source, _, language = text_of(path, None)
    if language != PYTHON:
        raise needless_approval()
    return source


def _read_digest(value: object, name: str) -> str:
    from sfumato.vault.programs import is_digest, unknown_program

    digest = text(value, name).strip().lower()
    if not is_digest(digest):  # a digest is a part of the address of a request
        raise unknown_program(digest)
    return digest


FIELD_TYPES[ProgramSource] = FieldType(
    "PROGRAM",
    # The limit of `methods.programs.source`; importing it would make commands start slowly.
    {"type": "string", "maxLength": 64 * 1024},
    text,
    read_file=_read_file,
)
FIELD_TYPES[Digest] = FieldType(
    "DIGEST", {"type": "string", "minLength": 1, "maxLength": 256}, _read_digest
)


class ApprovalRecord(Result):
    """An approved program."""

    digest: str
    function: str
    helper: str | None
    approved: str
    operator: str

    @property
    def approval(self) -> Approval:
        """The approval as the library has it."""
        from sfumato.vault.programs import Approval

        return Approval.from_json(self.to_json())

    def show(self) -> None:
        """Print one sentence."""
        print(f"Approved {self.digest}.")  # noqa: T201


class ApprovalList(Result):
    """Approved programs, the last approved first."""

    programs: tuple[ApprovalRecord, ...]

    def show(self) -> None:
        """Print a table."""
        rows = [
            (program.digest, program.function, minute(program.approved), program.operator)
            for program in self.programs
        ]
        titles = ("Digest", "Function", "Approved", "By")
        print_table(titles, rows, "No programs are approved.")


class RevokedProgram(Result):
    """The digest of a program that is no longer approved."""

    revoked: str

    def show(self) -> None:
        """Print one sentence."""
        print(f"Revoked {self.revoked}.")  # noqa: T201


class ApproveProgram(Request):
    """Approve a Python program, which you have read, for all who may send code."""

    program: Annotated[ProgramSource, arg("The source; a command takes its file.", positional=True)]
    function: Annotated[
        Name | None, arg("The function that is called with each block.", metavar="F")
    ] = None
    helper: Annotated[
        Name | None, arg("The function that makes ranges, if there is one.", metavar="F")
    ] = None


class ListPrograms(Request):
    """List the approved programs, the last approved first."""


class RevokeProgram(Request):
    """Revoke the approval of a program, from now on."""

    digest: Annotated[Digest, arg("The digest of the program.", positional=True)]


@operation(
    "program approve",
    allowed=OWNERS,
    examples=[{"program": "def one(rows):\n    return 1", "function": "one"}],
    command_examples=[{"program": "ages.py", "function": "mean_age"}],
    path="/admin/programs",
    status=201,
    recorded=True,
)
def approve_program(context: Context, request: ApproveProgram) -> ApprovalRecord:
    """Write the digest of this source, function and helper into the ledger."""
    approval = context.vault.program_registry.approve_source(
        request.program, request.function, request.helper, operator=context.operator
    )
    return ApprovalRecord.from_json(approval.to_json())


@operation("program list", allowed=OWNERS, examples=[{}], method="GET", path="/admin/programs")
def list_programs(context: Context, request: ListPrograms) -> ApprovalList:  # noqa: ARG001
    """Read the approvals from the ledger."""
    programs = [approval.to_json() for approval in context.vault.program_registry.list()]
    return ApprovalList.from_json({"programs": programs})


@operation(
    "program revoke",
    allowed=OWNERS,
    examples=[{"digest": 64 * "0"}],
    method="DELETE",
    path="/admin/programs/{digest}",
    repeatable=False,
    recorded=True,
)
def revoke_program(context: Context, request: RevokeProgram) -> RevokedProgram:
    """Remove the approval from the ledger."""
    digest = context.vault.program_registry.revoke(request.digest, operator=context.operator)
    return RevokedProgram(revoked=digest)


class Programs(Shown):
    """The approved programs of a vault, local or behind a server."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def approve(
        self,
        program: Callable[..., Any] | str | Path,
        *,
        function: str | None = None,
        helper: str | None = None,
        operator: str = OWNER,
    ) -> Approval:
        """Let every principal who may send code run this program, which you have read.

        The approval holds for this source, function and helper: a program with one byte changed
        needs another approval.

        Parameters
        ----------
        program
            A Python function, or the path of a file.
        function
            The function of the file that is called with each block.
        helper
            The function that makes ranges, if there is one.
        operator
            Who decided it; the ledger records the name.

        Returns
        -------
        Approval
            The approval with the digest of the program.

        Raises
        ------
        ParameterError
            The program cannot be read, or is in Starlark, which needs no approval.
        """
        from sfumato.methods.programs.language import PYTHON
        from sfumato.methods.programs.source import text_of
        from sfumato.vault.programs import needless_approval

        # The source is read on this machine: a server gets text and opens no file.
        source, name, language = text_of(program, function)
        if language != PYTHON:
            raise needless_approval()
        approved: ApprovalRecord = self._call(
            ApproveProgram, operator, program=source, function=name, helper=helper
        )
        return approved.approval

    def revoke(self, digest: str, *, operator: str = OWNER) -> str:
        """Revoke the approval of a program, from now on; return its digest."""
        record: RevokedProgram = self._call(RevokeProgram, operator, digest=digest)
        return record.revoked

    def list(self) -> list[Approval]:
        """List the approved programs, the last approved first."""
        listed: ApprovalList = self._call(ListPrograms)
        return [program.approval for program in listed.programs]

    def _card(self) -> Card:
        rows = [
            (program.digest, program.function, program.approved, program.operator)
            for program in self.list()
        ]
        table = CardTable(("Digest", "Function", "Approved", "By"), rows)
        return Card(f"{len(rows)} approved programs", {}, table if rows else None)
