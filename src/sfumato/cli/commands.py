"""All commands, chapter by chapter. A new command is a file beside this one and a line here.

The families of private methods bring their own: those of `vault.families`, each in its chapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.cli.add import add
from sfumato.cli.anonymize import anonymize
from sfumato.cli.demo import demo
from sfumato.cli.init import init
from sfumato.cli.inspect import inspect
from sfumato.cli.ledger import ledger
from sfumato.cli.measure import measure
from sfumato.cli.worlds import worlds

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Look around": (demo,),
    "See the risk": (inspect,),
    "Release a table": (anonymize, measure, worlds),
    "Answer questions": (init, add, ledger),
}
