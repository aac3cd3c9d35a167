"""Findings: how often an attacker is right and how often a guess is, with confidence intervals.

*Success* is the attacker's share of right guesses. *Baseline* is the share of somebody who does not
have the release, or does not use it as the attack does. *Control* is the same attack on people who
are not in the data. *Risk* is the excess over the control, (success - control) / (1 - control),
between 0 and 1 (Giomi, Boenisch, Wehmeyer and Tasnadi 2023). *Excess* is the same against the
baseline, for attacks without a control group.
With several sensitive columns the headline is the column that leaks most. The finding also has the
rates of every column, because a requirement must hold for all of them. Decision `findings`.

Intervals are those of Clopper and Pearson, which never cover less often than they say. Their ends
are quantiles of beta distributions, found by Newton steps (or halvings where a step leaves the
bracket) on the regularized incomplete beta function, a continued fraction evaluated by Lentz. A
success that is an expectation lies between two whole numbers; its interval covers both of theirs.

*Reference*: Clopper and Pearson 1934; DLMF 8.17.22 for the fraction.
Findings are computed from the original, so they are for the owner. Decision `findings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, exp, floor, hypot, lgamma, log, log1p
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.names import count
from sfumato.errors import as_field, as_keyword, spell
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.errors import Spelling


ALPHA = 0.05
"""The chance that an interval misses the true share, both sides together."""


# Lentz's method divides by these terms; a tiny number in place of 0 leaves the result unchanged.
_TINY = 1e-300


_MOST_TERMS = 100_000


_MOST_STEPS = 100


_ROUNDING = 1e-14


def clopper_pearson(right: float, tried: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the exact confidence interval of a share; [0, 1] if nobody was tried."""
    if tried == 0:
        return 0.0, 1.0
    # An expected number of hits lies between two whole numbers: cover the intervals of both.
    low, high = max(floor(right), 0), min(ceil(right), tried)
    lower = 0.0 if low == 0 else _quantile(alpha / 2, low, tried - low + 1)
    upper = 1.0 if high == tried else _quantile(1 - alpha / 2, high + 1, tried - high)
    return lower, upper


def _quantile(chance: float, a: float, b: float) -> float:
    """Return the quantile of a beta distribution at a given chance."""
    low, high, at = 0.0, 1.0, a / (a + b)
    for _ in range(_MOST_STEPS):
        # The bracket [low, high] always holds the quantile, so the loop ends even where a step
        # overshoots.
        over = _incomplete_beta(at, a, b) - chance
        low, high = (low, at) if over > 0 else (at, high)
        density = exp(_log_kernel(at, a, b) - log(at) - log1p(-at))
        before, at = at, at - over / density if density > 0 else low
        if not low < at < high:
            at = (low + high) / 2
        if abs(at - before) <= _ROUNDING * before:
            break
    return at


def _log_kernel(x: float, a: float, b: float) -> float:
    """Return the logarithm of x^a (1 - x)^b / B(a, b)."""
    return lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges fast for the other side
        return 1 - _incomplete_beta(1 - x, b, a)
    return exp(_log_kernel(x, a, b)) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function (DLMF 8.17.22)."""
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def _away(number: float) -> float:
    return number if abs(number) > _TINY else _TINY


MOST_EXAMPLES = 5
"""Examples of victims that the owner sees at most."""


@dataclass(frozen=True)
class Rate:
    """A share of `tried` people, with its 95 % confidence interval from `low` to `high`."""

    value: float
    low: float
    high: float
    tried: int

    @classmethod
    def share(cls, right: float, tried: float) -> Rate:
        """Return the share of `right` in `tried`; both may be expectations."""
        people = round(tried)
        right = min(max(right, 0.0), people)
        value = right / people if people else 0.0
        return cls(value, *clopper_pearson(right, people), people)

    @classmethod
    def estimate(cls, value: float, deviation: float, tried: int) -> Rate:
        """Return a rate from an estimate and its standard deviation."""
        # 1.96 is the 97.5 % quantile of the normal curve: both tails together are 5 %.
        ends = value - 1.96 * deviation, value + 1.96 * deviation
        value, low, high = (min(max(share, 0.0), 1.0) for share in (value, *ends))
        return cls(value, low, high, tried)

    def widened(self, deviation: float) -> Rate:
        """Widen the interval to at least 1.96 standard deviations.

        People of one class are hit together, so an interval for independent people is too narrow.
        """
        low, high = self.value - 1.96 * deviation, self.value + 1.96 * deviation
        return Rate(
            self.value, max(min(self.low, low), 0.0), min(max(self.high, high), 1.0), self.tried
        )

    def minus(self, baseline: Rate) -> Rate:
        """Return the excess over a baseline, at least 0 (Newcombe 1998, method 10)."""
        value = self.value - baseline.value
        # Newcombe's square-and-add: distances to the ends add in quadrature for independent
        # shares.
        below = hypot(self.value - self.low, baseline.high - baseline.value)
        above = hypot(self.high - self.value, baseline.value - baseline.low)
        value, low, high = (max(share, 0.0) for share in (value, value - below, value + above))
        return Rate(value, low, high, self.tried)

    def beyond(self, reference: Rate) -> float:
        """Return the excess over a reference, as a share of the largest possible excess."""
        if reference.value >= 1:
            return 0.0
        return min(max((self.value - reference.value) / (1 - reference.value), 0.0), 1.0)


@dataclass(frozen=True, kw_only=True)
class ColumnRates:
    """The rates of an attack on one column, where it was run on several."""

    column: str
    success: Rate
    baseline: Rate
    control: Rate | None = None

    @property
    def excess(self) -> float:
        """The excess of the attacker over a guess."""
        return self.success.beyond(self.baseline)

    @property
    def risk(self) -> float:
        """The excess over the control group, or over a guess if there is no control group."""
        return self.excess if self.control is None else self.success.beyond(self.control)

    def json(self) -> dict[str, Any]:
        """Return the rates as plain data for JSON."""
        return {"column": self.column, **_rates_json(self), "tried": self.success.tried}


@dataclass(frozen=True, repr=False)
class Finding(Shown):
    """The measured success of one attack on one release.

    Findings are computed from the original, and examples are real people: both are for the owner
    only.

    Attributes
    ----------
    attack, attacker, meaning, reference
        The name of the attack, what the attacker has, what is counted as success, and where the
        attack was published.
    success, baseline, control
        The share of right guesses of the attacker, of a guess without the release, and of the same
        attacker on people who are not in the data (None without such people). Each has its 95 %
        confidence interval.
    bound
        The largest success that the guarantee of the release allows; None without one.
    victims
        The number of people who are certainly hit.
    examples, remarks
        Some of the victims, and what a reader should know besides.
    figures
        What only this attack counts, such as the pairs of a join.
    rows, seconds
        The rows that were read, and the running time.
    columns
        The rates of each sensitive column, if the attack guesses these.

    Example
    -------
    >>> finding = people.attack("link", known=voters)  # doctest: +SKIP
    >>> finding.success.value, finding.interval, finding.risk  # doctest: +SKIP
    """

    attack: str
    attacker: str
    meaning: str
    success: Rate
    baseline: Rate
    reference: str
    control: Rate | None = None
    bound: float | None = None
    victims: int = 0
    examples: Sequence[Mapping[str, Any]] = ()
    remarks: Sequence[str] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 0
    seconds: float = 0.0
    columns: Sequence[ColumnRates] = ()

    @property
    def excess(self) -> float:
        """The excess of the attacker over a guess."""
        return self._headline.excess

    @property
    def risk(self) -> float:
        """The excess over the control group, or over a guess if there is no control group."""
        return self._headline.risk

    @property
    def by_column(self) -> Sequence[ColumnRates]:
        """The rates of each column; one entry without a name if the attack guesses no column."""
        return self.columns or (self._headline,)

    @property
    def _headline(self) -> ColumnRates:
        return ColumnRates(
            column="", success=self.success, baseline=self.baseline, control=self.control
        )

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the success."""
        return self.success.low, self.success.high

    @property
    def passes_bound(self) -> bool:
        """Whether the attacker is better than the guarantee allows, beyond chance."""
        return self.bound is not None and self.success.low > self.bound

    @property
    def beats_baseline(self) -> bool:
        """Whether the attacker is better than a guess, beyond chance."""
        return self.success.low > self.baseline.high

    def json(self, *, examples: bool = True) -> dict[str, Any]:
        """Return the finding as plain data for JSON; `examples` are people and for the owner."""
        return {
            "attack": self.attack,
            **_rates_json(self._headline),
            "bound": self.bound,
            "victims": self.victims,
            "tried": self.success.tried,
            "examples": [dict(example) for example in self.examples] if examples else [],
            "attacker": self.attacker,
            "meaning": self.meaning,
            "remarks": list(self.remarks),
            "figures": dict(self.figures),
            "cost": {"rows": self.rows, "seconds": self.seconds},
            "reference": self.reference,
            "columns": [column.json() for column in self.columns],
        }

    def words(self) -> str:
        """Return the finding in one sentence."""
        success, baseline = self.success, self.baseline
        sentence = (
            f"{self.meaning}: {percent(success.value)} of {success.tried:,} "
            f"({percent(success.low)} to {percent(success.high)}), by a guess "
            f"{percent(baseline.value)}"
        )
        if self.control is not None:
            sentence += f", of people who are not in the data {percent(self.control.value)}"
        return f"{sentence}.{self.right_more_often}"

    @property
    def right_more_often(self) -> str:
        """A sentence about the column with the highest success, if the headline is another."""
        most = max(self.by_column, key=lambda rates: rates.success.value)
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
    """The findings of several attacks, and the reasons why others did not run.

    An attack that did not run shows nothing, so it is never left out. Iterate over the findings, or
    take one by its name: `findings["link"]`.

    Attributes
    ----------
    findings
        One finding for each attack that ran.
    refusals
        The reason for each attack that did not run. Parameters in it are written by
        `errors.option`; `not_run` has the reasons as Python spells them.

    Example
    -------
    >>> findings = people.attack(known=voters)  # doctest: +SKIP
    >>> findings["link"].success.value, findings.not_run["join"]  # doctest: +SKIP
    """

    findings: tuple[Finding, ...]
    refusals: Mapping[str, str]

    @property
    def not_run(self) -> dict[str, str]:
        """The reason for each attack that did not run, with parameters as Python spells them."""
        return self.reasons(as_keyword)

    def reasons(self, spelling: Spelling) -> dict[str, str]:
        """Return the reasons with parameters as one door spells them."""
        return {attack: spell(reason, spelling) for attack, reason in self.refusals.items()}

    def __iter__(self) -> Any:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, name: str) -> Finding:
        return next(finding for finding in self.findings if finding.attack == name)

    def json(self, *, examples: bool = True, spelling: Spelling = as_field) -> dict[str, Any]:
        """Return all findings as plain data for JSON."""
        return {
            "findings": [finding.json(examples=examples) for finding in self.findings],
            "not_run": [
                {"attack": name, "reason": reason}
                for name, reason in self.reasons(spelling).items()
            ],
        }

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Findings:
        """Read what `json` wrote; raise ValueError if it was damaged."""
        try:
            findings = tuple(map(_read, stored["findings"]))
            return cls(
                findings, {refusal["attack"]: refusal["reason"] for refusal in stored["not_run"]}
            )
        except (KeyError, TypeError, AttributeError):
            raise ValueError("these are no findings") from None

    def _card(self) -> Card:
        rows = [
            (
                finding.attack,
                percent(finding.success.value),
                percent(finding.baseline.value),
                finding.victims,
            )
            for finding in self.findings
        ]
        beaten = sum(finding.beats_baseline for finding in self.findings)
        return Card(
            f"{count(len(self.findings), 'attack')}, {beaten} better than a guess",
            {},
            CardTable(("Attack", "Right", "By a guess", "Victims"), rows),
            [f"{name} did not run: {reason}" for name, reason in self.not_run.items()],
        )


def of_columns(by_column: Mapping[str, Finding]) -> Finding:
    """Return the finding of the column that leaks most, with the rates of every column.

    Findings beyond chance come first, then the largest risk, then the largest success.
    """
    worst = max(
        by_column.values(),
        key=lambda finding: (finding.beats_baseline, finding.risk, finding.success.value),
    )
    rates = [
        ColumnRates(
            column=name, success=finding.success, baseline=finding.baseline, control=finding.control
        )
        for name, finding in by_column.items()
    ]
    return replace(worst, columns=rates)


def _rates_json(rates: ColumnRates) -> dict[str, Any]:
    """Return shares with their intervals, risk and excess as plain data for JSON."""
    control = rates.control
    return {
        "success": rates.success.value,
        "interval": [rates.success.low, rates.success.high],
        "baseline": rates.baseline.value,
        "baseline_interval": [rates.baseline.low, rates.baseline.high],
        "control": None if control is None else control.value,
        "control_interval": None if control is None else [control.low, control.high],
        "risk": rates.risk,
        "risk_over": "baseline" if control is None else "control",
        "excess": rates.excess,
    }


def _read(stored: Mapping[str, Any]) -> Finding:
    """Read one finding that `json` wrote; findings of earlier versions have no columns."""
    copied = ["attack", "attacker", "meaning", "reference"]
    copied += ["bound", "victims", "examples", "remarks", "figures"]
    columns = [
        ColumnRates(column=column["column"], **_read_rates(column))
        for column in stored.get("columns", ())
    ]
    return Finding(
        **{name: stored[name] for name in copied},
        **_read_rates(stored),
        **stored["cost"],
        columns=columns,
    )


def _read_rates(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: Rate(stored[name], ends[0], ends[1], stored["tried"])
        for name, ends in (
            ("success", stored["interval"]),
            ("baseline", stored["baseline_interval"]),
            ("control", stored["control_interval"]),
        )
        if ends is not None
    }


def plain(value: object) -> Any:
    """Return a value that JSON can hold: other types become text."""
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def percent(share: float) -> str:
    """Write a share in per cent, with two digits near 0 and 1 and one digit between."""
    if 0 < share < 0.0001:
        return "below 0.01 %"
    digits = 0 if share in (0, 1) else 2 if share < 0.0995 or share > 0.9 else 1
    return f"{100 * share:.{digits}f} %"
