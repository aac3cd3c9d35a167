"""A vault's configuration and ledger with who may query it, without its data sets."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato.vault.accounts import open_ledger
from sfumato.vault.config import load
from sfumato.vault.principal_admin import PrincipalRegistry
from sfumato.vault.tokens import TokenRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.vault.config import Config


class LedgerAccess:
    """What administration needs: it works also where the data sets cannot be read."""

    config: Config
    ledger: Ledger

    @cached_property
    def principal_registry(self) -> PrincipalRegistry:
        """The principals, as the ledger and vault.toml have them."""
        return PrincipalRegistry(self.ledger, lambda: self.config)

    @cached_property
    def token_registry(self) -> TokenRegistry:
        """The tokens by which a server recognizes principals."""
        return TokenRegistry(self.ledger, self.principal_registry, self.config.folder)


@contextmanager
def ledger_access(folder: Path) -> Iterator[LedgerAccess]:
    """Open only the configuration and the ledger of a vault."""
    access = LedgerAccess()
    access.config = load(folder)
    access.ledger = open_ledger(access.config)
    try:
        yield access
    finally:
        access.ledger.close()
