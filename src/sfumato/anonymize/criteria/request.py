"""The numbers that a person asks for, read into criteria."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from sfumato import arguments
from sfumato.anonymize.criteria.closeness import BetaLikeness, DeltaDisclosure, Distance, TCloseness
from sfumato.anonymize.criteria.diversity import (
    DistinctDiversity,
    EntropyDiversity,
    FolkDiversity,
    RecursiveDiversity,
)
from sfumato.anonymize.criteria.identity import DeltaPresence, KAnonymity, KMap
from sfumato.data.schema.column import Role
from sfumato.errors import ParameterError, option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.anonymize.criteria.base import Criterion
    from sfumato.data.schema.schema import Schema
    from sfumato.exact_numbers import Number

Diversity = Literal["distinct", "entropy", "recursive", "folk"]
_DIVERSITIES: dict[str, Callable[[int, str], Criterion]] = {
    "distinct": DistinctDiversity,
    "entropy": EntropyDiversity,
    "folk": FolkDiversity,
}


@dataclass(frozen=True, kw_only=True)
class CriteriaRequest:
    """The numbers that a person gave; decimals as they were written, so that they stay exact."""

    k: int | None = None
    l: int | None = None  # noqa: E741  # the literature's own name
    diversity: Diversity | None = None
    c: Number | None = None
    t: Number | None = None
    distance: Distance | None = None
    delta_disclosure: Number | None = None
    beta: Number | None = None
    presence: str | tuple[Number, Number] | None = None
    population: bool = False

    def criteria(self, schema: Schema, sensitive: Sequence[str] = ()) -> list[Criterion]:
        """Return the criteria; those of sensitive values once for each named or declared column."""
        self._check()
        criteria: list[Criterion] = []
        if self.k is not None:
            # A population that is not asked about presence is there to be hidden in.
            hidden_in_population = self.population and self.presence is None
            criteria.append(KMap(self.k) if hidden_in_population else KAnonymity(self.k))
        if self.presence is not None:
            criteria.append(_presence(self.presence))
        if (self.l, self.t, self.delta_disclosure, self.beta) == (None, None, None, None):
            return criteria
        columns = list(sensitive) or [column.name for column in schema.by_role(Role.SENSITIVE)]
        if not columns:
            raise ParameterError(
                "role_invalid",
                "No column is sensitive, so l, t, beta and delta-disclosure have nothing to look "
                f'at. Give a column role = "sensitive", or name it with {option("sensitive")}.',
            )
        for name in columns:
            schema.column(name)
            criteria += self._of(name)
        return criteria

    def _of(self, column: str) -> list[Criterion]:
        """Return the criteria of one sensitive column."""
        criteria: list[Criterion] = []
        if self.l is not None:
            if self.diversity == "recursive":
                assert self.c is not None
                criteria.append(RecursiveDiversity(self.l, column, c=self.c))
            else:
                criteria.append(_DIVERSITIES[self.diversity or "distinct"](self.l, column))
        if self.t is not None:
            criteria.append(TCloseness(self.t, column, distance=self.distance or "equal"))
        if self.delta_disclosure is not None:
            criteria.append(DeltaDisclosure(self.delta_disclosure, column))
        if self.beta is not None:
            criteria.append(BetaLikeness(self.beta, column))
        return criteria

    def _check(self) -> None:
        """Refuse numbers that belong to something that was not asked."""
        if self.diversity is not None:
            arguments.one_of(self.diversity, "diversity", get_args(Diversity))
        if self.distance is not None:
            arguments.one_of(self.distance, "distance", get_args(Distance))
        if self.diversity is not None and self.l is None:
            raise _lonely(option("diversity"), option("l"))
        if self.distance is not None and self.t is None:
            raise _lonely(option("distance"), option("t"))
        if (self.diversity == "recursive") != (self.c is not None):
            raise ParameterError(
                "options_conflict",
                f"Recursive diversity needs {option('c')}, and no other kind takes it. Give both "
                f"{option('diversity', 'recursive')} and {option('c', metavar='C')}, or neither.",
            )
        if self.presence is not None and not self.population:
            raise _lonely(option("presence"), option("population"))


def _lonely(asked: str, needed: str) -> ParameterError:
    return ParameterError(
        "options_conflict", f"{asked} has no effect without {needed}. Give both, or neither."
    )


def _presence(shares: str | tuple[Number, Number]) -> DeltaPresence:
    ends: Any = shares.split(",") if isinstance(shares, str) else shares
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        raise ParameterError(
            "parameter_type_wrong",
            f"Presence must be two shares such as 0,0.5, not {arguments.shown(shares)}.",
            parameter="presence",
            given=arguments.shown(shares),
        )
    return DeltaPresence(*ends)
