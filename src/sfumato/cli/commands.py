"""All commands, chapter by chapter. A new command is a file beside this one and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.cli.demo import demo
from sfumato.cli.inspect import inspect

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Look around": (demo,),
    "See the risk": (inspect,),
}
