"""Principals: their kinds, the permissions of each kind, and those of one principal.

A permission that the table does not name is refused. A principal's own shapes can only narrow those
of its kind. Decision `principals`.
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
"""The principal that draws on the budgets of the populations themselves."""

# ASCII alone: letters of other alphabets look like these, and pass for the name of another.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}", re.ASCII)


class PrincipalKind(StrEnum):
    """The relation of a principal to the data's owner, which decides the default permissions."""

    OWNER = "owner"
    PERMANENT_STAFF = "permanent-staff"
    TEMPORARY_STAFF = "temporary-staff"
    EXTERNAL = "external"
    PURCHASER = "purchaser"
    PUBLIC = "public"


SHAPES = ("explain", "query", "publish", "synthesize", "code", "download")
"""The shapes of answers, each of which a principal may have or not."""

PERMITTED: Mapping[PrincipalKind, frozenset[str]] = {
    PrincipalKind.OWNER: frozenset(SHAPES),
    PrincipalKind.PERMANENT_STAFF: frozenset(SHAPES),
    PrincipalKind.TEMPORARY_STAFF: frozenset({"explain", "query", "publish", "download"}),
    PrincipalKind.EXTERNAL: frozenset({"explain", "query", "code", "download"}),
    PrincipalKind.PURCHASER: frozenset({"explain", "query", "download"}),
    PrincipalKind.PUBLIC: frozenset({"download"}),
}
"""The only table of permissions: a pair that is not in it is refused."""

_ASKING = frozenset(SHAPES) - {"download"}
_DAYS = re.compile(r"(\d{1,5})d", re.ASCII)


@dataclass(frozen=True, repr=False, kw_only=True)
class Principal(Shown):
    """A person or organization that may query the vault: what, for how much and until when."""

    name: str
    kind: PrincipalKind
    shapes: frozenset[str]
    min_epsilon: Fraction | None = None
    """The least cost of one query: many almost free queries would add up unnoticed."""
    max_epsilon: Fraction | None = None
    expires: datetime | None = None
    populations: tuple[str, ...] = ()
    """The populations of their budgets; they see no other population."""

    @property
    def is_owner(self) -> bool:
        """Whether they pay from the populations' own budgets and see everything."""
        return self.kind is PrincipalKind.OWNER

    def sees(self, population: str) -> bool:
        """Whether they see data sets of a population."""
        return self.is_owner or (population in self.populations and bool(self.shapes & _ASKING))

    def check(self, shape: str | None, cost: Mapping[str, str] | None = None) -> None:
        """Refuse a shape that is not permitted, and a cost out of their range.

        Raises
        ------
        PolicyError
            `permission_missing`. Owners are never refused.
        """
        if self.is_owner:
            return
        # The shape before the cost: who may not ask at all learns nothing of ranges.
        if shape is not None and shape not in self.shapes:
            raise PolicyError(
                "permission_missing",
                f"{quoted(self.name)} ({self.kind}) may not ask for the shape '{shape}'; "
                f"permitted: {', '.join(self._listed_shapes()) or 'nothing'}.",
                given=shape,
                allowed=self._listed_shapes(),
                hint="Ask the vault's owner for it.",
            )
        low, high = self.min_epsilon, self.max_epsilon
        if cost is None or _is_within(cost, low, high):
            return
        bounds = [f"at least {decimal_of(low)}"] if low is not None else []
        bounds += [f"at most {decimal_of(high)}"] if high is not None else []
        raise PolicyError(
            "permission_missing",
            f"One question of {quoted(self.name)} may cost epsilon {' and '.join(bounds)}, or the "
            f"rho that is half its square, not {amounts_in_words(cost)}.",
            parameter="epsilon",
            allowed=" and ".join(bounds),
            hint="Ask within that, or ask the vault's owner.",
        )

    def usual(self, epsilon: Fraction) -> Fraction:
        """The default cost of a question, moved into their range."""
        least = epsilon if self.min_epsilon is None else max(epsilon, self.min_epsilon)
        return least if self.max_epsilon is None else min(least, self.max_epsilon)

    def has_expired(self, time: datetime) -> bool:
        """Whether their access has ended at a time."""
        return self.expires is not None and self.expires <= time

    def _listed_shapes(self) -> list[str]:
        return [shape for shape in SHAPES if shape in self.shapes]

    def to_json(self) -> dict[str, Any]:
        """The principal as JSON-able data; exact numbers become texts."""
        return {
            "name": self.name,
            "kind": str(self.kind),
            "shapes": self._listed_shapes(),
            "min_epsilon": None if self.min_epsilon is None else decimal_of(self.min_epsilon),
            "max_epsilon": None if self.max_epsilon is None else decimal_of(self.max_epsilon),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "populations": list(self.populations),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; the ledger keeps principals in this form."""
        low, high, end = record["min_epsilon"], record["max_epsilon"], record["expires"]
        kind, shapes = PrincipalKind(record["kind"]), frozenset(record["shapes"])
        if kind is PrincipalKind.OWNER:
            # Older entries may hold limits of an owner, which were never applied.
            low, high, shapes = None, None, PERMITTED[kind]
        return cls(
            name=record["name"],
            kind=kind,
            shapes=shapes,
            min_epsilon=None if low is None else Fraction(low),
            max_epsilon=None if high is None else Fraction(high),
            expires=None if end is None else datetime.fromisoformat(end),
            populations=tuple(record["populations"]),
        )

    def _card(self) -> Card:
        record = self.to_json()
        facts = {
            "Shapes": ", ".join(record["shapes"]),
            "Populations": ", ".join(self.populations),
            "Smallest epsilon": record["min_epsilon"],
            "Largest epsilon": record["max_epsilon"],
            "Expires": record["expires"],
        }
        line = f"{self.name}, {self.kind}: {facts['Shapes']}"
        return Card(line, {title: fact for title, fact in facts.items() if fact})


def _is_within(cost: Mapping[str, str], low: Fraction | None, high: Fraction | None) -> bool:
    """Whether a cost lies in a range of epsilons; a rho is compared with half their squares."""
    if "rho" in cost:
        amount = Fraction(cost["rho"])
        # epsilon-DP implies zCDP with rho = epsilon^2 / 2, so both ranges mean the same
        # protection.
        low, high = (None if epsilon is None else rho_of(epsilon) for epsilon in (low, high))
    else:
        amount = Fraction(cost["epsilon"])
    return (low is None or amount >= low) and (high is None or amount <= high)


def check_name(name: str, subject: str) -> None:
    """Refuse names that are easily mistaken or need quotes; `subject` says what has the name."""
    if not _NAME.fullmatch(name):
        raise ParameterError(
            "name_invalid",
            f"{subject} cannot be named {quoted(name)}.",
            parameter="name",
            hint="Use a letter, then letters, digits, '_' and '-', at most 63 in all.",
        )


def kind_named(name: object) -> PrincipalKind:
    """A kind of principal by its name."""
    try:
        return PrincipalKind(arguments.text(name, "kind"))
    except ValueError:
        kinds = [str(kind) for kind in PrincipalKind]
        raise ParameterError(
            "choice_unknown",
            f"There is no kind of principal {quoted(str(name))}; {suggestion(str(name), kinds)}",
            parameter="kind",
            allowed=kinds,
        ) from None


def shapes_named(kind: PrincipalKind, names: Iterable[str] | str | None) -> frozenset[str]:
    """Some of the shapes that a kind is permitted, or all of them."""
    if names is None:
        return PERMITTED[kind]
    shapes = frozenset(split_names(names, "shapes"))
    for shape in sorted(shapes - PERMITTED[kind]):
        permitted = [shape for shape in SHAPES if shape in PERMITTED[kind]]
        raise ParameterError(
            "choice_unknown",
            f"{kind} may not be given the shape {quoted(shape)}; {suggestion(shape, permitted)}",
            parameter="shapes",
            allowed=permitted,
        )
    return shapes


def public_principal(principals: Iterable[Principal], time: datetime) -> Principal | None:
    """The principal of requests without a token: the first of kind public that has not expired."""
    publics = (person for person in principals if person.kind is PrincipalKind.PUBLIC)
    return next((person for person in publics if not person.has_expired(time)), None)


def split_names(names: Iterable[str] | str, parameter: str) -> tuple[str, ...]:
    """Read names that are given as one text with commas, or as several texts."""
    if isinstance(names, set | frozenset):
        names = sorted(names)
    listed = names.replace(",", " ").split() if isinstance(names, str) else names
    return arguments.names(listed, parameter)


def read_expiry(value: object, time: datetime) -> datetime | None:
    """Read the end of access: a day or time in ISO form (UTC by default), or days such as "90d".

    Days are counted from `time`, the present time of the ledger.
    """
    if value is None:
        return None
    text = str(value) if isinstance(value, datetime) else arguments.text(value, "expires").strip()
    try:
        if days := _DAYS.fullmatch(text):
            return (time + timedelta(days=int(days[1]))).replace(microsecond=0)
        end = value if isinstance(value, datetime) else datetime.fromisoformat(text)
        return end.replace(tzinfo=UTC) if end.tzinfo is None else end.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ParameterError(
            "time_malformed",
            f"{quoted(text)} is no time to expire at.",
            parameter="expires",
            hint="Give a day such as 2031-01-31, a time such as 2031-01-31T18:00+01:00, or days "
            "from now such as 90d.",
        ) from None
