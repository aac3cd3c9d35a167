"""What people say of purposes, and how they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sfumato.privacy.ledger.chain import utc_now

if TYPE_CHECKING:
    from sfumato.privacy.ledger.chain import Position


class Said(NamedTuple):
    """What one person says of one purpose; `dated` where the time came with it."""

    purpose: str
    person: str
    agreed: bool
    time: str
    dated: bool = False


class Recorded(NamedTuple):
    """What came of a number of changes."""

    version: int
    changed: int
    older: int


class ConsentStanding(NamedTuple):
    """How people stand at a position: all who agreed, or all who changed since another one."""

    position: Position
    people: list[str]
    agreed: list[bool]
    whole: bool


def now() -> str:
    """The time, as it is written beside a change."""
    return utc_now().isoformat(timespec="seconds")
