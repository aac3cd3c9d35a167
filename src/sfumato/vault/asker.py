"""Who asks a question: their name, their purpose, and the accounts that pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, option

if TYPE_CHECKING:
    from sfumato.vault.principals import Principal


@dataclass(frozen=True)
class Asker:
    """Who asks, what for, and which accounts pay: the data sets' and, if any, the asker's own."""

    principal: str
    shared: tuple[str, ...]
    own: tuple[str, ...] = ()
    purpose: str | None = None
    rights: Principal | None = None
    """What a vault's principal may do; who holds a table in memory may do all."""

    @property
    def is_owner(self) -> bool:
        """Whether the rows are the asker's own to look at."""
        return self.rights is None or self.rights.is_owner

    def checked_owner(self) -> Asker:
        """Themselves, refused unless they may look at rows without a budget."""
        if not self.is_owner:
            raise ParameterError(
                "owner_only",
                f"{quoted(self.principal)} may not do this: candidates are compared by rows of "
                f"people, which is for the owner. Leave {option('principal')} out, or ask for one "
                "release.",
            )
        return self
