"""Who may ask: kinds of principals, the one table of what each may do, and one principal's rights.

What the table does not name is refused. A principal's own shapes can only narrow its kind's.
Decision `principals`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, PolicyError
from sfumato.exact_numbers import decimal_of, rho_of
from sfumato.privacy.accounting.price import amounts_in_words
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


OWNER = "owner"
"""The principal that draws on the budgets of the data sets themselves."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}", re.ASCII)


class PrincipalKind(StrEnum):
    """What somebody is to the owner of the data."""

    OWNER = "owner"
    PERMANENT_STAFF = "permanent-staff"
    TEMPORARY_STAFF = "temporary-staff"
    EXTERNAL = "external"
    PURCHASER = "purchaser"
    PUBLIC = "public"


SHAPES = ("explain", "query", "publish", "synthesize", "code", "download")
"""The shapes that an answer may have: each is permitted or not."""

PERMITTED: Mapping[PrincipalKind, frozenset[str]] = {
    PrincipalKind.OWNER: frozenset(SHAPES),
    PrincipalKind.PERMANENT_STAFF: frozenset(SHAPES),
    PrincipalKind.TEMPORARY_STAFF: frozenset({"explain", "query", "publish", "download"}),
    PrincipalKind.EXTERNAL: frozenset({"explain", "query", "code", "download"}),
    PrincipalKind.PURCHASER: frozenset({"explain", "query", "download"}),
    PrincipalKind.PUBLIC: frozenset({"download"}),
}
"""The one table: what is not in it is refused."""

_ASKING = frozenset(SHAPES) - {"download"}
_DAYS = re.compile(r"(\d{1,5})d", re.ASCII)


@dataclass(frozen=True, repr=False, kw_only=True)
class Principal(Shown):
    """Somebody who may ask: what, about which populations, how dearly and until when."""

    name: str
    kind: PrincipalKind
    shapes: frozenset[str]
    min_epsilon: Fraction | None = None
    """The least that one question may cost; many that are almost free are how answers add up."""
    max_epsilon: Fraction | None = None
    expires: datetime | None = None
    populations: tuple[str, ...] = ()
    """Those that they have a budget for; no other is known to them."""

    @property
    def is_owner(self) -> bool:
        """Whether they draw on the populations' own budgets, and see everything."""
        return self.kind is PrincipalKind.OWNER

    def sees(self, population: str) -> bool:
        """Whether data sets about these people exist for them."""
        return self.is_owner or (population in self.populations and bool(self.shapes & _ASKING))

    def check(self, shape: str | None, cost: Mapping[str, str] | None = None) -> None:
        """Refuse a shape that is not permitted, and a price out of their range."""
        if self.is_owner:
            return
        if shape is not None and shape not in self.shapes:
            may = ", ".join(one for one in SHAPES if one in self.shapes) or "nothing"
            raise PolicyError(
                "permission_missing",
                f"{quoted(self.name)} ({self.kind}) may not ask for the shape '{shape}'; "
                f"permitted: {may}. Ask the vault's owner for it.",
            )
        low, high = self.min_epsilon, self.max_epsilon
        if cost is None or _within(cost, low, high):
            return
        bounds = [f"at least {_told(low)}"] if low is not None else []
        bounds += [f"at most {_told(high)}"] if high is not None else []
        raise PolicyError(
            "permission_missing",
            f"One question of {quoted(self.name)} may cost epsilon {' and '.join(bounds)}, or the "
            f"rho that is half its square, not {amounts_in_words(cost)}. Ask within that, or ask "
            "the vault's owner.",
        )

    def usual(self, epsilon: Fraction) -> Fraction:
        """What a question costs when nobody says how much: the usual, within their range."""
        least = epsilon if self.min_epsilon is None else max(epsilon, self.min_epsilon)
        return least if self.max_epsilon is None else min(least, self.max_epsilon)

    def expired(self, now: datetime) -> bool:
        """Whether their time is over."""
        return self.expires is not None and self.expires <= now

    def to_json(self) -> dict[str, Any]:
        """The principal as JSON-able data; exact numbers become texts."""
        return {
            "name": self.name,
            "kind": str(self.kind),
            "shapes": [one for one in SHAPES if one in self.shapes],
            "min_epsilon": None if self.min_epsilon is None else decimal_of(self.min_epsilon),
            "max_epsilon": None if self.max_epsilon is None else decimal_of(self.max_epsilon),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "populations": list(self.populations),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        low, high, end = told["min_epsilon"], told["max_epsilon"], told["expires"]
        kind, shapes = PrincipalKind(told["kind"]), frozenset(told["shapes"])
        if kind is PrincipalKind.OWNER:
            # Entries from before such limits were refused may hold some; they never bound anybody.
            low, high, shapes = None, None, PERMITTED[kind]
        return cls(
            name=told["name"],
            kind=kind,
            shapes=shapes,
            min_epsilon=None if low is None else Fraction(low),
            max_epsilon=None if high is None else Fraction(high),
            expires=None if end is None else datetime.fromisoformat(end),
            populations=tuple(told["populations"]),
        )

    def _card(self) -> Card:
        told = self.to_json()
        shown = {"Shapes": ", ".join(told["shapes"]), "Populations": ", ".join(self.populations)}
        shown |= {
            "Smallest epsilon": told["min_epsilon"] or "",
            "Largest epsilon": told["max_epsilon"] or "",
            "Expires": told["expires"] or "",
        }
        line = f"{self.name}, {self.kind}: {shown['Shapes']}"
        return Card(line, {title: one for title, one in shown.items() if one})


def _within(cost: Mapping[str, str], low: Fraction | None, high: Fraction | None) -> bool:
    """Whether a price lies in a range of epsilons; a rho is compared with half their squares."""
    if "rho" in cost:
        amount = Fraction(cost["rho"])
        low, high = (None if one is None else rho_of(one) for one in (low, high))
    else:
        amount = Fraction(cost["epsilon"])
    return (low is None or amount >= low) and (high is None or amount <= high)


def _told(epsilon: Fraction) -> str:
    return decimal_of(epsilon)


def check_name(name: str, what: str) -> None:
    """Refuse names that could be mistaken for others or need quotes."""
    if not _NAME.fullmatch(name):
        raise ParameterError(
            "name_invalid",
            f"{what} cannot be named {quoted(name)}. Use a letter, then letters, digits, '_' and "
            "'-', at most 63 in all.",
            parameter="name",
        )


def kind_named(word: object) -> PrincipalKind:
    """A kind by its word."""
    try:
        return PrincipalKind(arguments.text(word, "kind"))
    except ValueError:
        kinds = [str(one) for one in PrincipalKind]
        raise ParameterError(
            "choice_unknown",
            f"There is no kind of principal {quoted(str(word))}; {suggestion(str(word), kinds)}",
            parameter="kind",
        ) from None


def shapes_named(kind: PrincipalKind, words: Iterable[str] | str | None) -> frozenset[str]:
    """Some of the shapes that a kind is permitted, or all of them."""
    if words is None:
        return PERMITTED[kind]
    named = frozenset(words_of(words, "shapes"))
    for one in sorted(named - PERMITTED[kind]):
        permitted = [shape for shape in SHAPES if shape in PERMITTED[kind]]
        raise ParameterError(
            "choice_unknown",
            f"{kind} may not be given the shape {quoted(one)}; {suggestion(one, permitted)}",
        )
    return named


def the_public(people: Iterable[Principal], now: datetime) -> Principal | None:
    """In whose name who shows no token reads: the first of kind public whose time is not over."""
    return next(
        (one for one in people if one.kind is PrincipalKind.PUBLIC and not one.expired(now)), None
    )


def words_of(said: Iterable[str] | str, name: str) -> tuple[str, ...]:
    """Some words: in one text, parted by commas, or several of them."""
    if isinstance(said, set | frozenset):
        said = sorted(said)
    return arguments.names(said.replace(",", " ").split() if isinstance(said, str) else said, name)


def moment(said: object, now: datetime) -> datetime | None:
    """When something ends: a day or time in ISO form (UTC unless it says), or days such as 90d."""
    if said is None:
        return None
    words = str(said) if isinstance(said, datetime) else arguments.text(said, "expires").strip()
    try:
        if days := _DAYS.fullmatch(words):
            return (now + timedelta(days=int(days[1]))).replace(microsecond=0)
        return _aware(said if isinstance(said, datetime) else datetime.fromisoformat(words))
    except (ValueError, OverflowError):
        raise ParameterError(
            "time_malformed",
            f"{quoted(words)} is no time to expire at. Give a day such as 2031-01-31, a time such "
            "as 2031-01-31T18:00+01:00, or days from now such as 90d.",
            parameter="expires",
        ) from None


def _aware(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
