"""Limits on what principals may ask and keep: groups, bytes of an answer, bytes in store.

A question may cost next to no privacy and still a million groups, which take memory and disk. Every
limit is checked against public facts, before anything is charged. Who holds the vault as its owner
is bound by the vault's own limit alone. Decision 0508.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.data.schema.parser import Parser
from sfumato.errors import PolicyError
from sfumato.methods.method import AnswerLimit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.toml_document import Place
    from sfumato.methods.method import AnswerSize, Prepared
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.vault.asker import Asker

MEBIBYTE = 1 << 20
_KEYS = ("groups", "answer_mebibytes", "stored_mebibytes")


@dataclass(frozen=True)
class PrincipalLimits:
    """What one principal may ask and keep."""

    groups: int = 100_000
    answer_mebibytes: int = 32
    stored_mebibytes: int = 1024


@dataclass(frozen=True)
class VaultLimits:
    """The limits of a vault, for all its principals and for some by their names."""

    usual: PrincipalLimits = PrincipalLimits()
    of: Mapping[str, PrincipalLimits] = field(default_factory=dict)
    vault_mebibytes: int = 10 * 1024

    def of_answer(self, asker: Asker) -> AnswerLimit | None:
        """How large one answer may be; None for an owner, whose machine it is."""
        if asker.is_owner:
            return None
        found = self._of(asker)
        return AnswerLimit(found.groups, found.answer_mebibytes * MEBIBYTE)

    def check_answer(self, prepared: Prepared, asker: Asker) -> None:
        """Refuse an answer that has too many groups, or may take too many bytes."""
        limit, size = self.of_answer(asker), size_of(prepared)
        if limit is None or size is None:
            return
        if size.groups > limit.groups:
            raise PolicyError(
                "groups_not_permitted",
                f"The declared values make {size.groups:,} groups, all of which would be answered; "
                f"{quoted(asker.principal)} may have {limit.groups:,} in one answer. Group by "
                "fewer or coarser columns, or ask the vault's owner for a higher limit of groups.",
            )
        if size.bytes > limit.bytes:
            raise PolicyError(
                "answer_too_large",
                f"The answer may take {_mebibytes(size.bytes)} MiB; {quoted(asker.principal)} may "
                f"have {_mebibytes(limit.bytes)} MiB in one answer. Ask for fewer groups or fewer "
                "figures at a time, or ask the vault's owner for a higher limit.",
            )

    def check_stored(self, prepared: Prepared, asker: Asker, ledger: Ledger) -> None:
        """Refuse an answer that the store of its principal, or the vault, has no room for.

        An answer of which no bound is known counts as the largest that the principal may have.
        Questions that run at the same time may together pass a limit by their own sizes.
        """
        size, limits = size_of(prepared), self._of(asker)
        needed = limits.answer_mebibytes * MEBIBYTE if size is None else size.bytes
        stored = ledger.stored_bytes()
        own = stored.get(asker.principal, 0)
        if not asker.is_owner and own + needed > limits.stored_mebibytes * MEBIBYTE:
            raise PolicyError(
                "store_full",
                f"The answers of {quoted(asker.principal)} in store take {_mebibytes(own)} MiB of "
                f"{limits.stored_mebibytes:,}, and this one may take {_mebibytes(needed)} more. "
                "What is in store is still given again. Ask for less, or ask the vault's owner for "
                "a higher limit.",
            )
        if sum(stored.values()) + needed > self.vault_mebibytes * MEBIBYTE:
            raise PolicyError(
                "vault_full",
                "The vault has no room for another answer of this size. What is in store is still "
                "given again. Let its owner raise vault_mebibytes under [limits] in vault.toml.",
            )
        ledger.check_room(needed)

    def _of(self, asker: Asker) -> PrincipalLimits:
        return self.of.get(asker.principal, self.usual)


def size_of(prepared: Prepared) -> AnswerSize | None:
    """At most how large an answer is; None for a method that cannot say so from public facts."""
    found: AnswerSize | None = getattr(prepared, "answer_size", None)
    return found


def work_of(prepared: Prepared) -> int:
    """The weight of a method among heavy work, in bytes; 0 where it is not known."""
    size = size_of(prepared)
    return 0 if size is None else size.work


def _mebibytes(size: int) -> str:
    return f"{-(-size // MEBIBYTE):,}"


class LimitsParser(Parser):
    """Reads the limits that vault.toml sets: `[limits]`, and `[limits.principals.NAME]`."""

    def _limits(self, told: object) -> VaultLimits:
        place: Place = ("limits",)
        raw = self._typed(told, dict, place)
        self._known(raw, (*_KEYS, "vault_mebibytes", "principals"), place)
        usual = self._principal_limits(raw, PrincipalLimits(), place)
        of: dict[str, PrincipalLimits] = {}
        named = self._typed(raw.get("principals", {}), dict, (*place, "principals"))
        for name, one in named.items():
            at = (*place, "principals", name)
            self._known(self._typed(one, dict, at), _KEYS, at)
            of[name] = self._principal_limits(one, usual, at)
        whole = self._limit(raw, "vault_mebibytes", VaultLimits.vault_mebibytes, place)
        return VaultLimits(usual, of, whole)

    def _principal_limits(
        self, raw: Mapping[str, object], usual: PrincipalLimits, place: Place
    ) -> PrincipalLimits:
        return PrincipalLimits(
            **{name: self._limit(raw, name, getattr(usual, name), place) for name in _KEYS}
        )

    def _limit(self, raw: Mapping[str, object], key: str, default: int, place: Place) -> int:
        number = self._typed(raw.get(key, default), int, (*place, key))
        if number < 1:
            raise self._lines.error("vault_number", (*place, key), f"{key} must be at least 1.")
        return number
