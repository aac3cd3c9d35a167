"""The snapshot of a vault: within it, a repeated query gets its stored answer, free of charge."""

from __future__ import annotations

from typing import Annotated

from sfumato.operations.fields import Request, arg
from sfumato.operations.operation import OWNERS, Context, Result, operation


class Snapshot(Result):
    """The number of the snapshot."""

    snapshot: int


class ShowSnapshot(Request):
    """Show the snapshot number; within it, a repeated query gets its stored answer."""


class RaiseSnapshot(Request):
    """Raise the snapshot after the data changed: repeated queries get new answers."""

    to: Annotated[int | None, arg("To which number; by default the next.")] = None


@operation("snapshot show", allowed=OWNERS, examples=[{}], method="GET", path="/admin/snapshot")
def show_snapshot(context: Context, request: ShowSnapshot) -> Snapshot:  # noqa: ARG001
    """Read the number from the configuration."""
    return Snapshot(snapshot=context.vault.config.snapshot)


@operation(
    "snapshot raise",
    allowed=OWNERS,
    examples=[{"to": 2}],
    path="/admin/snapshot",
)
def raise_snapshot(context: Context, request: RaiseSnapshot) -> Snapshot:
    """Write the number into the configuration; it never falls.

    At a lower number stored answers about older rows would be returned as new ones.
    """
    from sfumato.vault import config

    number = config.raise_snapshot(context.vault.config.folder, request.to)
    context.vault.refresh()
    return Snapshot(snapshot=number)
