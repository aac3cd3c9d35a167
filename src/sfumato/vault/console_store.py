"""What a vault keeps for its console and for programs of others, opened only where it is needed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from sfumato.vault.history import History
    from sfumato.vault.logins import Logins
    from sfumato.vault.principals import Principal
    from sfumato.vault.programs import PrincipalRules, Programs
    from sfumato.vault.vault import Vault


class Consoled:
    """A vault with a console, and with programs of others than its owner."""

    @cached_property
    def programs(self) -> Programs:
        """The programs that others than the owner may run."""
        from sfumato.vault.programs import Programs

        vault = cast("Vault", self)
        return Programs(vault.ledger, lambda: vault.config)

    def _rules_for(self, rights: Principal | None) -> PrincipalRules | None:
        """What binds the programs of a principal; the owner's are bound by nothing."""
        if rights is None or rights.is_owner:
            return None
        from sfumato.vault.programs import PrincipalRules

        return PrincipalRules(self.programs, rights.name)

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
        for name in {"logins", "history", "programs"} & set(self.__dict__):
            getattr(self, name).close()
