"""The people and the tokens of a vault behind a server, as its owner changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.client.admin import amount, part, reading, when
from sfumato.errors import ParameterError
from sfumato.report.display import Card, Shown
from sfumato.vault.config import OWNER, check_name
from sfumato.vault.principal_admin import card_of_people, unknown_here, unknown_principal
from sfumato.vault.principals import Principal, kind_named, words_of
from sfumato.vault.tokens import Token, card_of_tokens, id_of, unknown_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from sfumato.client.admin import Office
    from sfumato.exact_numbers import Number

_PEOPLE, _TOKENS = "principals", "tokens"


class RemotePeople(Shown):
    """Principals of a vault elsewhere: added, given budgets and let go by who holds the token."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def add(
        self,
        name: str,
        kind: str,
        *,
        operator: str = OWNER,
        epsilon: Number | None = None,
        delta: Number = 0,
        population: str | None = None,
        shapes: Iterable[str] | str | None = None,
        min_epsilon: Number | None = None,
        max_epsilon: Number | None = None,
        expires: str | datetime | None = None,
    ) -> Principal:
        """Add a principal of a kind, as `People.add` of a vault at hand does."""
        self._office.check(operator)
        check_name(arguments.text(name, "name"), "A principal")
        told = {
            "name": name,
            "kind": str(kind_named(kind)),
            **_budget(epsilon, delta, population),
            **_rights(shapes, min_epsilon, max_epsilon),
            "expires": when(expires),
        }
        return _principal(self._office.once(_PEOPLE, told))

    def grant(
        self,
        name: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str = OWNER,
    ) -> Principal:
        """Give a principal a budget for a population, or a larger one: its whole from now on."""
        return self._changed("grant", name, operator, **_budget(epsilon, delta, population))

    def lower(
        self,
        name: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str = OWNER,
    ) -> Principal:
        """Leave a principal a smaller budget for a population; epsilon 0 takes it away."""
        return self._changed("lower", name, operator, **_budget(epsilon, delta, population))

    def move(
        self,
        name: str,
        to: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str = OWNER,
    ) -> Principal:
        """Move a part of a principal's budget for a population to another; both or none change."""
        asked = {"to": arguments.text(to, "to"), **_budget(epsilon, delta, population)}
        return self._changed("move", name, operator, **asked)

    def expire(
        self, name: str, *, at: str | datetime | None = None, operator: str = OWNER
    ) -> Principal:
        """Let a principal's time end, now or at a day or time; nothing is given back."""
        return self._changed("expire", name, operator, at=when(at))

    def change(
        self,
        name: str,
        *,
        operator: str = OWNER,
        kind: str | None = None,
        shapes: Iterable[str] | str | None = None,
        min_epsilon: Number | None = None,
        max_epsilon: Number | None = None,
    ) -> Principal:
        """Change a principal's kind, shapes or range of prices; what is left out stays."""
        asked = _rights(shapes, min_epsilon, max_epsilon)
        if kind is not None:
            asked["kind"] = str(kind_named(kind))
        return self._changed("change", name, operator, **asked)

    def get(self, name: str) -> Principal:
        """A principal by name, also one whose time is over; the owner is 'owner'."""
        return _principal(self._told(name))

    def balances(self, name: str) -> list[dict[str, Any]]:
        """The accounts of one principal, as `accounts` tells them; of owners, all."""
        with reading("budgets"):
            return list(self._told(name)["budgets"])

    def list(self) -> list[Principal]:
        """Every principal, by name, also those whose time is over; not the owner of the vault."""
        with reading("principals"):
            return [_principal(one) for one in self._office.get(_PEOPLE)["principals"]]

    def _told(self, name: str) -> dict[str, Any]:
        if not _is_name(arguments.text(name, "name")):
            raise unknown_principal(name)
        return self._office.get(f"{_PEOPLE}/{name}")

    def _changed(self, action: str, name: str, operator: str, **asked: Any) -> Principal:
        self._office.check(operator)
        if not _is_name(arguments.text(name, "name")):
            raise unknown_here(name, [one.name for one in self.list()])
        # What is moved twice is twice as much; all else says how it is to be.
        send = self._office.once if action == "move" else self._office.send
        return _principal(send(f"{_PEOPLE}/{name}/{action}", asked))

    def _card(self) -> Card:
        return card_of_people(self.list())


class RemoteTokens(Shown):
    """The tokens of a vault elsewhere: made and revoked by who holds one that may."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def new(
        self,
        principal: str,
        *,
        operator: str = OWNER,
        scopes: Iterable[str] | str | None = None,
        expires: str | datetime | None = None,
    ) -> str:
        """Make a token for a principal and return its text, which is never shown again."""
        self._office.check(operator)
        told = {
            "principal": arguments.text(principal, "principal"),
            "scopes": None if scopes is None else list(words_of(scopes, "scopes")),
            "expires": when(expires),
        }
        with reading("a token"):
            return str(self._office.once(_TOKENS, told)["token"])

    def revoke(self, token: str, *, operator: str = OWNER) -> str:
        """Let a token never be used again, at any server, from now on; return its name."""
        self._office.check(operator)
        # The token itself goes into no address, where logs would keep it.
        name = id_of(arguments.text(token, "token"))
        if not name.isalnum():
            raise unknown_token(name, [one.id for one in self.list()])
        with reading("a token"):
            return str(self._office.once(f"{_TOKENS}/{part(name)}", None, "DELETE")["revoked"])

    def list(self) -> list[Token]:
        """Every token that was not revoked, by principal."""
        with reading("tokens"):
            return [Token.from_json(one) for one in self._office.get(_TOKENS)["tokens"]]

    def _card(self) -> Card:
        return card_of_tokens(self.list())


def _is_name(name: str) -> bool:
    """Whether a principal may be called so: what else comes into no address."""
    try:
        check_name(name, "A principal")
    except ParameterError:
        return False
    return True


def _principal(told: Mapping[str, Any]) -> Principal:
    with reading("a principal"):
        return Principal.from_json(told)


def _budget(epsilon: object, delta: object, population: object) -> dict[str, Any]:
    return {
        "epsilon": amount(epsilon, "epsilon"),
        "delta": amount(delta, "delta"),
        "population": arguments.maybe_text(population, "population"),
    }


def _rights(shapes: Any, low: object, high: object) -> dict[str, Any]:
    return {
        "shapes": None if shapes is None else list(words_of(shapes, "shapes")),
        "min_epsilon": amount(low, "min_epsilon"),
        "max_epsilon": amount(high, "max_epsilon"),
    }
