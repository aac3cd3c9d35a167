"""From what a person asks in words and numbers to criteria."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.anonymize.criteria import (
    BetaLikeness,
    DeltaDisclosure,
    DeltaPresence,
    DistinctDiversity,
    EntropyDiversity,
    FolkDiversity,
    KAnonymity,
    KMap,
    RecursiveDiversity,
    TCloseness,
)
from sfumato.errors import ParameterError
from sfumato.schema.column import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.criteria.t_closeness import Distance
    from sfumato.schema.schema import Schema

Diversity = Literal["distinct", "entropy", "recursive", "folk"]
_DIVERSITIES: dict[str, Callable[[int, str], Criterion]] = {
    "distinct": DistinctDiversity,
    "entropy": EntropyDiversity,
    "folk": FolkDiversity,
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The numbers that a person gave; decimals as text, so that they stay exact."""

    k: int | None = None
    l: int | None = None  # noqa: E741  # the literature's own name
    diversity: Diversity | None = None
    c: str | None = None
    t: str | None = None
    distance: Distance | None = None
    delta_disclosure: str | None = None
    beta: str | None = None
    presence: str | None = None
    population: bool = False

    def criteria(self, schema: Schema, sensitive: Sequence[str] = ()) -> list[Criterion]:
        """The criteria, those of sensitive values once for each column named or declared so."""
        self._check()
        found: list[Criterion] = []
        if self.k is not None:
            # A population that is not asked about presence is there to be hidden in.
            hidden_in_population = self.population and self.presence is None
            found.append(KMap(self.k) if hidden_in_population else KAnonymity(self.k))
        if self.presence is not None:
            found.append(_presence(self.presence))
        if (self.l, self.t, self.delta_disclosure, self.beta) == (None, None, None, None):
            return found
        columns = list(sensitive) or [one.name for one in schema.by_role(Role.SENSITIVE)]
        if not columns:
            raise ParameterError(
                "sensitive_none",
                "No column is sensitive, so l, t, beta and delta-disclosure have nothing to look "
                'at. Give a column role = "sensitive", or name it with --sensitive.',
            )
        for name in columns:
            schema.column(name)
            found += self._of(name)
        return found

    def _of(self, column: str) -> list[Criterion]:
        """The criteria of one sensitive column."""
        found: list[Criterion] = []
        if self.l is not None:
            if self.diversity == "recursive":
                assert self.c is not None
                found.append(RecursiveDiversity(self.l, column, c=self.c))
            else:
                found.append(_DIVERSITIES[self.diversity or "distinct"](self.l, column))
        if self.t is not None:
            found.append(TCloseness(self.t, column, distance=self.distance or "equal"))
        if self.delta_disclosure is not None:
            found.append(DeltaDisclosure(self.delta_disclosure, column))
        if self.beta is not None:
            found.append(BetaLikeness(self.beta, column))
        return found

    def _check(self) -> None:
        """Refuse numbers that belong to something that was not asked."""
        if self.diversity is not None and self.l is None:
            raise _lonely("--diversity", "--l")
        if self.distance is not None and self.t is None:
            raise _lonely("--distance", "--t")
        if (self.diversity == "recursive") != (self.c is not None):
            raise ParameterError(
                "recursive_needs_c",
                "Recursive diversity needs --c, and no other kind takes it. Give both "
                "--diversity recursive and --c C, or neither.",
            )
        if self.presence is not None and not self.population:
            raise _lonely("--presence", "--population")


def _lonely(given: str, needed: str) -> ParameterError:
    return ParameterError(
        "option_without_other", f"{given} means nothing without {needed}. Give both, or neither."
    )


def _presence(text: str) -> DeltaPresence:
    low, comma, high = text.partition(",")
    if not comma:
        raise ParameterError(
            "presence_not_two",
            f"Presence must be two shares such as 0,0.5, not {text!r}.",
        )
    return DeltaPresence(low, high)
