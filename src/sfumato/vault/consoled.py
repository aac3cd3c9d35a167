"""What a vault keeps for its console, opened only where a console is."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from sfumato.vault.history import History
    from sfumato.vault.logins import Logins
    from sfumato.vault.vault import Vault


class Consoled:
    """A vault with a console."""

    @cached_property
    def logins(self) -> Logins:
        """The passwords and sessions by which the console knows who visits."""
        from sfumato.vault.logins import Logins

        vault = cast("Vault", self)
        return Logins(vault.config, vault.people)

    @cached_property
    def history(self) -> History:
        """What was asked in the console, word for word."""
        from sfumato.vault.history import History

        return History(cast("Vault", self))

    def close_console(self) -> None:
        """Let go of what was opened."""
        for name in {"logins", "history"} & set(self.__dict__):
            getattr(self, name).close()
