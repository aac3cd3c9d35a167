"""What an attack found: how often the attacker is right, and how often a guess would be.

*Success* is the attacker's share of right guesses, *baseline* that of somebody who does not have
the release, or does not use it as the attack does; both with an interval. Where there are people
who are not in the data, the *control* is the same attack on them, and the *risk* is how far it is
right beyond that: (success - control) / (1 - control), between 0 and 1 (Giomi, Boenisch, Wehmeyer
and Tasnadi 2023). Without them the same is told against the baseline, as the *excess*.

Of several sensitive columns the headline is that of the one that tells most beyond a guess; what
the attacker gets of each is told beside it, for what is required holds of all. Decision 0305.

What is computed from the original is about people: findings are for the owner. Decision 0290.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import hypot
from typing import TYPE_CHECKING, Any

from sfumato.attack.intervals import clopper_pearson
from sfumato.data.schema.names import count
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_EXAMPLES = 5
"""So many people are shown to the owner as examples."""


@dataclass(frozen=True)
class Rate:
    """A share of people, between two ends that hold it in 95 of 100 cases, of so many `tried`."""

    value: float
    low: float
    high: float
    tried: int

    @classmethod
    def share(cls, right: float, tried: float) -> Rate:
        """So many right of so many; both may be expectations."""
        people = round(tried)
        right = min(max(right, 0.0), people)
        value = right / people if people else 0.0
        return cls(value, *clopper_pearson(right, people), people)

    @classmethod
    def estimate(cls, value: float, deviation: float, tried: int) -> Rate:
        """A figure that is no share of those tried, with its standard deviation."""
        ends = value - 1.96 * deviation, value + 1.96 * deviation
        value, low, high = (min(max(one, 0.0), 1.0) for one in (value, *ends))
        return cls(value, low, high, tried)

    def widened(self, deviation: float) -> Rate:
        """The same with ends no nearer than two standard deviations: people hang together."""
        low, high = self.value - 1.96 * deviation, self.value + 1.96 * deviation
        return Rate(
            self.value, max(min(self.low, low), 0.0), min(max(self.high, high), 1.0), self.tried
        )

    def less(self, other: Rate) -> Rate:
        """What is left of it without another, at least nothing (Newcombe 1998, method 10)."""
        value = self.value - other.value
        below = hypot(self.value - self.low, other.high - other.value)
        above = hypot(self.high - self.value, other.value - other.low)
        value, low, high = (max(one, 0.0) for one in (value, value - below, value + above))
        return Rate(value, low, high, self.tried)

    def beyond(self, other: Rate) -> float:
        """How far it lies above another, of all that could be."""
        if other.value >= 1:
            return 0.0
        return min(max((self.value - other.value) / (1 - other.value), 0.0), 1.0)


@dataclass(frozen=True, kw_only=True)
class ColumnRates:
    """What an attack gets of one column, of several that it was tried on."""

    column: str
    success: Rate
    baseline: Rate
    control: Rate | None = None

    @property
    def excess(self) -> float:
        """How far the attacker is right beyond a guess."""
        return self.success.beyond(self.baseline)

    @property
    def risk(self) -> float:
        """How far the attacker is right beyond what holds of others too, else beyond a guess."""
        return self.excess if self.control is None else self.success.beyond(self.control)

    def json(self) -> dict[str, Any]:
        """All of it, ready to be written."""
        return {"column": self.column, **_rates_json(self), "tried": self.success.tried}


@dataclass(frozen=True, repr=False)
class Finding(Shown):
    """One attack on one release. `meaning` says of what a share is told.

    `victims` are people who are hit for certain. Examples and victims are real people.
    """

    attack: str
    attacker: str
    meaning: str
    success: Rate
    baseline: Rate
    reference: str
    control: Rate | None = None
    bound: float | None = None
    """What no attacker can pass, where a guarantee says so."""
    victims: int = 0
    examples: Sequence[Mapping[str, Any]] = ()
    remarks: Sequence[str] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What an attack counts besides: of a join its pairs."""
    rows: int = 0
    seconds: float = 0.0
    columns: Sequence[ColumnRates] = ()
    """The same of each sensitive column, where the attack is on these."""

    @property
    def excess(self) -> float:
        """How far the attacker is right beyond a guess."""
        return self._headline.excess

    @property
    def risk(self) -> float:
        """How far the attacker is right beyond what holds of others too, else beyond a guess."""
        return self._headline.risk

    @property
    def by_column(self) -> Sequence[ColumnRates]:
        """What the attacker gets of each column; one without a name where it is on no column."""
        return self.columns or (self._headline,)

    @property
    def _headline(self) -> ColumnRates:
        return ColumnRates(
            column="", success=self.success, baseline=self.baseline, control=self.control
        )

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the success."""
        return self.success.low, self.success.high

    @property
    def passes_bound(self) -> bool:
        """Whether the attacker is better than the guarantee allows, chance set aside."""
        return self.bound is not None and self.success.low > self.bound

    @property
    def beats_baseline(self) -> bool:
        """Whether the attacker is better than a guess, chance set aside."""
        return self.success.low > self.baseline.high

    def json(self, *, examples: bool = True) -> dict[str, Any]:
        """All of it, ready to be written; `examples` name people, and stay with the owner."""
        return {
            "attack": self.attack,
            **_rates_json(self._headline),
            "bound": self.bound,
            "victims": self.victims,
            "tried": self.success.tried,
            "examples": [dict(one) for one in self.examples] if examples else [],
            "attacker": self.attacker,
            "meaning": self.meaning,
            "remarks": list(self.remarks),
            "figures": dict(self.figures),
            "cost": {"rows": self.rows, "seconds": self.seconds},
            "reference": self.reference,
            "columns": [one.json() for one in self.columns],
        }

    def words(self) -> str:
        """What was found, in a sentence."""
        success, baseline = self.success, self.baseline
        told = (
            f"{self.meaning}: {percent(success.value)} of {success.tried:,} "
            f"({percent(success.low)} to {percent(success.high)}), by a guess "
            f"{percent(baseline.value)}"
        )
        if self.control is not None:
            told += f", of people who are not in the data {percent(self.control.value)}"
        return f"{told}.{self.right_more_often}"

    @property
    def right_more_often(self) -> str:
        """In words the column of which the attacker is right most often, where it is another."""
        most = max(self.by_column, key=lambda one: one.success.value)
        if most.success.value <= self.success.value:
            return ""
        return (
            f" Of {most.column} it is {percent(most.success.value)}, by a guess "
            f"{percent(most.baseline.value)}."
        )

    def _card(self) -> Card:
        rates = [("attacker", self.success), ("guess", self.baseline)]
        if self.control is not None:
            rates.append(("attacker, of others", self.control))
        rows = [(name, percent(r.value), percent(r.low), percent(r.high)) for name, r in rates]
        over = "Excess over a guess" if self.control is None else "Risk"
        return Card(
            f"{self.attack}, {percent(self.success.value)} right, by a guess "
            f"{percent(self.baseline.value)}, {count(self.victims, 'victim')}",
            {"The attacker": self.attacker, over: self.risk, "Victims": self.victims},
            CardTable(("Who", "Right", "From", "To"), rows),
            [self.words(), *self.remarks, "For the owner: computed from rows of people."],
        )


@dataclass(frozen=True, repr=False)
class Findings(Shown):
    """What all attacks found; those that cannot run say why, because silence is not safety."""

    findings: tuple[Finding, ...]
    not_run: Mapping[str, str]

    def __iter__(self) -> Any:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, name: str) -> Finding:
        return next(one for one in self.findings if one.attack == name)

    def json(self, *, examples: bool = True) -> dict[str, Any]:
        """All of it, ready to be written."""
        return {
            "findings": [one.json(examples=examples) for one in self.findings],
            "not_run": [
                {"attack": name, "reason": reason} for name, reason in self.not_run.items()
            ],
        }

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Findings:
        """Findings as `json` wrote them; ValueError where somebody edited that."""
        try:
            found = tuple(map(_read, told["findings"]))
            return cls(found, {one["attack"]: one["reason"] for one in told["not_run"]})
        except (KeyError, TypeError, AttributeError):
            raise ValueError("these are no findings") from None

    def _card(self) -> Card:
        rows = [
            (one.attack, percent(one.success.value), percent(one.baseline.value), one.victims)
            for one in self.findings
        ]
        beaten = sum(one.beats_baseline for one in self.findings)
        return Card(
            f"{count(len(self.findings), 'attack')}, {beaten} better than a guess",
            {},
            CardTable(("Attack", "Right", "By a guess", "Victims"), rows),
            [f"{name} did not run: {reason}" for name, reason in self.not_run.items()],
        )


def of_columns(found: Mapping[str, Finding]) -> Finding:
    """Of a finding for each column that of the one that tells most, with what is got of each.

    First comes what cannot be chance, then what goes furthest beyond what is known without.
    """
    worst = max(found.values(), key=lambda one: (one.beats_baseline, one.risk, one.success.value))
    rates = [
        ColumnRates(column=name, success=one.success, baseline=one.baseline, control=one.control)
        for name, one in found.items()
    ]
    return replace(worst, columns=rates)


def _rates_json(told: ColumnRates) -> dict[str, Any]:
    """Shares with their intervals, and what goes beyond others or a guess."""
    control = told.control
    return {
        "success": told.success.value,
        "interval": [told.success.low, told.success.high],
        "baseline": told.baseline.value,
        "baseline_interval": [told.baseline.low, told.baseline.high],
        "control": None if control is None else control.value,
        "control_interval": None if control is None else [control.low, control.high],
        "risk": told.risk,
        "risk_over": "baseline" if control is None else "control",
        "excess": told.excess,
    }


def _read(told: Mapping[str, Any]) -> Finding:
    """One finding as its `json` wrote it; what earlier ones did not have is left out."""
    same = ["attack", "attacker", "meaning", "reference"]
    same += ["bound", "victims", "examples", "remarks", "figures"]
    columns = [
        ColumnRates(column=one["column"], **_read_rates(one)) for one in told.get("columns", ())
    ]
    return Finding(
        **{name: told[name] for name in same}, **_read_rates(told), **told["cost"], columns=columns
    )


def _read_rates(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: Rate(told[name], ends[0], ends[1], told["tried"])
        for name, ends in (
            ("success", told["interval"]),
            ("baseline", told["baseline_interval"]),
            ("control", told["control_interval"]),
        )
        if ends is not None
    }


def plain(value: object) -> Any:
    """A value as JSON can have it."""
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def percent(share: float) -> str:
    """A share in words, with as many digits as tell something."""
    if 0 < share < 0.0001:
        return "below 0.01 %"
    digits = 0 if share in (0, 1) else 2 if share < 0.0995 or share > 0.9 else 1
    return f"{100 * share:.{digits}f} %"
