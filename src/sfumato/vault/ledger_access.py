"""A vault's configuration and ledger with who may query it, without its data sets."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato.vault.accounts import open_ledger
from sfumato.vault.config import load
from sfumato.vault.principal_registry import PrincipalRegistry
from sfumato.vault.tokens import TokenRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.vault.config import Config
    from sfumato.vault.consent.registry import Consents
    from sfumato.vault.programs import ProgramRegistry


class LedgerAccess:
    """What administration needs: it works also where the data sets cannot be read."""

    config: Config

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, opened at its first use: what acknowledges a loss opens its own."""
        return open_ledger(self.config)

    @cached_property
    def principal_registry(self) -> PrincipalRegistry:
        """The principals, as the ledger and vault.toml have them."""
        return PrincipalRegistry(self.ledger, lambda: self.config)

    @cached_property
    def token_registry(self) -> TokenRegistry:
        """The tokens by which a server recognizes principals."""
        return TokenRegistry(self.ledger, self.principal_registry, self.config.folder)

    @cached_property
    def program_registry(self) -> ProgramRegistry:
        """The programs that others than the owner may run, and how often they rehearse."""
        from sfumato.vault.programs import ProgramRegistry  # most commands run no program

        return ProgramRegistry(self.ledger, lambda: self.config)

    @cached_property
    def consent_registries(self) -> Consents:
        """Who agreed to what. It needs no ledger: to withdraw is always possible."""
        from sfumato.vault.consent.registry import Consents  # most commands ask for no consent

        return Consents(self.config)

    def refresh(self) -> None:
        """Read the configuration again."""
        self.config = load(self.config.folder)


@contextmanager
def ledger_access(folder: Path) -> Iterator[LedgerAccess]:
    """Open only the configuration and the ledger of a vault."""
    access = LedgerAccess()
    access.config = load(folder)
    try:
        yield access
    finally:
        for name in {"consent_registries", "ledger"} & set(access.__dict__):
            getattr(access, name).close()
