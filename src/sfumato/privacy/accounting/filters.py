"""Budgets for adaptive use: filters whose guarantee holds however questions depend on answers.

A filter limits a loss and counts in whole units: what an event costs is computed exactly and
rounded up once, a limit is rounded down. All counts fit a signed 64-bit integer, because a cost
above the limit is not counted but breaks the filter.

A budget is one guarantee, enforced by several filters of which at least one must stay unbroken. Why
their deltas add up: let the last filter break at the end. On the transcripts on which filter i is
that last one, the loss is its loss when it stopped, so the chance mass above exp(epsilon) is at
most delta_i there; summed over the filters it is at most the sum of the deltas. A filter that was
passed over once stays broken, because counts only grow.

Decision `budgets`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato import exact_numbers
from sfumato.errors import ParameterError
from sfumato.exact_numbers import DELTA_UNIT, EPSILON_UNIT, RHO_UNIT, store, store_positive
from sfumato.privacy.accounting import renyi, zcdp
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.losses import (
    Approx,
    Pure,
    Zcdp,
    renyi_epsilon,
    spendable_rho,
    zcdp_to_approx,
)
from sfumato.privacy.accounting.purchase import event_of, summed_event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.privacy.accounting.composition import Amounts
    from sfumato.privacy.accounting.events import Leaf
    from sfumato.privacy.accounting.purchase import Charged


@dataclass(frozen=True, kw_only=True)
class PureFilter:
    """Epsilons add up to at most `epsilon`.

    *Guarantee*: epsilon-differential privacy.
    *Edges*: an event with a delta, and Gaussian noise, break it.
    *Reference*: Rogers et al. 2016, Theorem 3.6.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")

    @property
    def limits(self) -> Quantities:
        """Name the limit and its unit."""
        return (("epsilon", self.epsilon, EPSILON_UNIT),)

    def price(self, leaf: Leaf) -> Amounts | None:
        """Price a leaf by its epsilon."""
        amounts = basic_price(leaf)
        return None if amounts is None or amounts[1] else amounts[:1]

    def loss(self) -> Pure:
        """State what the filter promises on its own."""
        return Pure(epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ApproxFilter:
    """Epsilons and deltas add up to at most `epsilon` and `delta`.

    *Guarantee*: (epsilon, delta)-differential privacy.
    *Edges*: Gaussian noise breaks it, as it has no epsilon of its own.
    *Reference*: Rogers et al. 2016, Theorem 3.6.
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        store(self, delta=exact_numbers.positive_delta(self.delta))

    @property
    def limits(self) -> Quantities:
        """Name the limits and their units."""
        return ("epsilon", self.epsilon, EPSILON_UNIT), ("delta", self.delta, DELTA_UNIT)

    def price(self, leaf: Leaf) -> Amounts | None:
        """Price a leaf by its epsilon and delta."""
        return basic_price(leaf)

    def loss(self) -> Approx:
        """State what the filter promises on its own."""
        return Approx(epsilon=self.epsilon, delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class ZcdpFilter:
    """Rhos and deltas of approximate zCDP add up to at most `rho` and `delta`.

    *Guarantee*: delta-approximate rho-zCDP; (epsilon, delta + conversion_delta)-differential
    privacy by the tight conversion.
    *Edges*: expresses every event; pure ones enter as epsilon^2 / 2.
    *Reference*: Feldman & Zrnic 2021; Whitehouse et al. 2023, Theorem 1.
    """

    rho: Fraction
    delta: Fraction
    conversion_delta: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "rho")
        store(self, delta=exact_numbers.probability(self.delta, "delta"))
        store(self, conversion_delta=exact_numbers.positive_delta(self.conversion_delta))

    @property
    def limits(self) -> Quantities:
        """Name the limits and their units."""
        return ("rho", self.rho, RHO_UNIT), ("delta", self.delta, DELTA_UNIT)

    def price(self, leaf: Leaf) -> Amounts | None:
        """Price a leaf by its rho and delta."""
        return zcdp.price(leaf)

    def loss(self) -> Approx:
        """State what the filter promises on its own, epsilon rounded up."""
        loss = zcdp_to_approx(Zcdp(rho=self.rho), delta=self.conversion_delta)
        return Approx(epsilon=loss.epsilon, delta=self.delta + self.conversion_delta)


@dataclass(frozen=True, kw_only=True)
class RenyiFilter:
    """Renyi divergences of one order, fixed at creation, add up to at most `divergence`.

    *Guarantee*: (order, divergence)-Renyi differential privacy; (epsilon, conversion_delta)-
    differential privacy by the tight conversion.
    *Edges*: an event with a delta breaks it.
    *Reference*: Feldman & Zrnic 2021, Theorem 4.3; Lécuyer 2021.
    """

    order: Fraction
    divergence: Fraction
    conversion_delta: Fraction

    def __post_init__(self) -> None:
        store(self, order=exact_numbers.exact(self.order, "order"))
        store_positive(self, "divergence")
        store(self, conversion_delta=exact_numbers.positive_delta(self.conversion_delta))
        if self.order <= 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"order must be above 1, but {self.order} was given.",
                parameter="order",
            )

    @property
    def limits(self) -> Quantities:
        """Name the limit and its unit."""
        return (("divergence", self.divergence, EPSILON_UNIT),)

    def price(self, leaf: Leaf) -> Amounts | None:
        """Price a leaf by its divergence of the filter's order."""
        delta, divergence = renyi.price(leaf, (self.order,))
        return None if delta else (divergence,)

    def loss(self) -> Approx:
        """State what the filter promises on its own, epsilon rounded up."""
        delta = self.conversion_delta
        epsilon = renyi_epsilon(order=self.order, divergence=self.divergence, delta=delta)
        return Approx(epsilon=epsilon, delta=delta)


Filter = PureFilter | ApproxFilter | ZcdpFilter | RenyiFilter
"""A limit on the total loss under one accountant."""

Quantities = tuple[tuple[str, Fraction, Fraction], ...]
"""The name, the limit and the unit of each quantity that a filter counts."""


def units_of(budget_filter: Filter) -> tuple[int, ...]:
    """Count the whole units that a filter allows."""
    counts = tuple(
        exact_numbers.floor_units(limit, unit) for _, limit, unit in budget_filter.limits
    )
    if max(counts) >= 2**63:
        raise ParameterError(
            "parameter_out_of_range",
            "A limit must fit a 64-bit count of its units: epsilon below 9e9, rho below 9.2.",
            parameter="budget",
        )
    return counts


def cost_of(budget_filter: Filter, charged: Charged) -> tuple[int, ...] | None:
    """Count the units that a charge takes, rounded up; None when it would break the filter."""
    # A sum counts the pair that was paid; concentrated and Renyi privacy count the event itself.
    sums = isinstance(budget_filter, PureFilter | ApproxFilter)
    amounts = total(summed_event(charged) if sums else event_of(charged), budget_filter.price)
    if amounts is None:
        return None
    # Rounded up once, after the exact total, so that a composed event loses at most one unit.
    counts = tuple(
        exact_numbers.ceil_units(amount, unit)
        for amount, (_, _, unit) in zip(amounts, budget_filter.limits, strict=True)
    )
    return counts if within(counts, units_of(budget_filter)) else None


def within(counts: tuple[int, ...], limits: tuple[int, ...]) -> bool:
    """Whether every count is within its limit."""
    return all(count <= limit for count, limit in zip(counts, limits, strict=True))


SUMS_SHARE = Fraction(9, 10)
"""The share of a budget's delta that belongs to sums of epsilons and deltas.

People add up what they paid, so most of the delta is theirs. Measured against one half: for epsilon
0.1 to 10 and delta 1e-9 to 1e-5, the rho that the rest pays for is 6 to 17 % smaller.
"""

Charge = tuple[tuple[int, ...] | None, ...]
"""One entry per filter: whole units, or None where the filter is, or would be, broken for good."""

_VERSION = 1
_KINDS: dict[str, type[Filter]] = {
    "pure": PureFilter,
    "approx": ApproxFilter,
    "zcdp": ZcdpFilter,
    "renyi": RenyiFilter,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class Budget:
    """A total privacy loss; a charge is granted while it leaves at least one filter unbroken.

    *Guarantee*: (largest epsilon, sum of deltas) of the filters, under fully adaptive composition:
    questions, their parameters and the time to stop may depend on all earlier answers.
    *Edges*: an event that no filter can express is never granted.
    *Reference*: the module's argument, over the references of the filters.

    Example
    -------
    >>> from fractions import Fraction
    >>> from sfumato.privacy.accounting.events import PureEvent
    >>> budget = Budget.for_epsilon_delta(epsilon=1)
    >>> charge = budget.charge(PureEvent(epsilon=Fraction(1, 4)))
    >>> spent = budget.add(budget.zero(), charge)
    >>> budget.describe(budget.remaining(spent))
    'epsilon 0.75'
    """

    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        if not self.filters:
            raise ParameterError(
                "parameter_missing", "A budget must have at least one filter.", parameter="budget"
            )
        self.limits()
        self.loss()

    @classmethod
    def for_epsilon_delta(
        cls,
        *,
        epsilon: object,
        delta: object = 0,
        maximum: Fraction = exact_numbers.EPSILON_MAXIMUM,
    ) -> Budget:
        """Build the usual budget for a total loss.

        Without a delta it is one pure filter. With a delta, `SUMS_SHARE` of it goes to a filter
        that adds up epsilons and deltas. The rest goes to a filter that adds up rhos: half of it
        for the deltas of events and half for the conversion to (epsilon, delta).

        Parameters
        ----------
        epsilon, delta : number or text
            The total loss. Read exactly: 0.1 and "1/10" are one tenth.
        maximum : Fraction
            The largest epsilon that the owner of the data allows.

        Raises
        ------
        ParameterError
            If epsilon is not above 0, is above `maximum`, or delta is not below 1.
        """
        epsilon = exact_numbers.epsilon(epsilon, maximum=maximum)
        delta = exact_numbers.delta(delta)
        if delta == 0:
            return cls((PureFilter(epsilon=epsilon),))
        zcdp_delta = delta * (1 - SUMS_SHARE)
        # Counts are 64-bit integers, so the rho of a huge epsilon is cut at 2^63 - 1 units.
        rho = min(spendable_rho(epsilon=epsilon, delta=zcdp_delta / 2), (2**63 - 1) * RHO_UNIT)
        # A delta so small that its conversion costs more than the epsilon: only sums are left.
        if rho <= 0:
            return cls((ApproxFilter(epsilon=epsilon, delta=delta),))
        sums = ApproxFilter(epsilon=epsilon, delta=delta - zcdp_delta)
        return cls(
            (sums, ZcdpFilter(rho=rho, delta=zcdp_delta / 2, conversion_delta=zcdp_delta / 2))
        )

    def sums_only(self) -> Budget | None:
        """The whole delta of a usual budget for its filter of sums; None for any other budget.

        It may replace the budget only before any output: then no filter shares the delta.
        """
        match self.filters:
            case (ApproxFilter() as sums, ZcdpFilter() as concentrated):
                delta = sums.delta + concentrated.delta + concentrated.conversion_delta
                return Budget((ApproxFilter(epsilon=sums.epsilon, delta=delta),))
            case _:
                return None

    def charge(self, charged: Charged) -> Charge:
        """Count what an event or a purchase costs in each filter, rounded up."""
        return tuple(cost_of(budget_filter, charged) for budget_filter in self.filters)

    def limits(self) -> tuple[tuple[int, ...], ...]:
        """Count what each filter allows in total, rounded down."""
        return self._limits

    @cached_property
    def _limits(self) -> tuple[tuple[int, ...], ...]:
        return tuple(units_of(budget_filter) for budget_filter in self.filters)

    def zero(self) -> Charge:
        """The charge of a budget from which nothing is spent."""
        return tuple((0,) * len(limit) for limit in self.limits())

    def admits(self, spent: Charge, charge: Charge) -> bool:
        """Whether at least one filter stays unbroken after a charge."""
        return any(after is not None for after in self.add(spent, charge))

    def add(self, spent: Charge, charge: Charge) -> Charge:
        """Add a charge; a filter that it takes past its limit is broken from then on."""
        return tuple(_add(*counts) for counts in zip(spent, charge, self.limits(), strict=True))

    def remaining(self, spent: Charge) -> Charge:
        """Count what each filter still allows; None where it is broken."""
        return tuple(
            None if counts is None else tuple(map(int.__sub__, limit, counts))
            for counts, limit in zip(spent, self.limits(), strict=True)
        )

    def loss(self) -> Pure | Approx:
        """State the total guarantee."""
        losses = [budget_filter.loss() for budget_filter in self.filters]
        epsilon = max(loss.epsilon for loss in losses)
        delta = sum((loss.delta for loss in losses if isinstance(loss, Approx)), Fraction(0))
        return Approx(epsilon=epsilon, delta=delta) if delta else Pure(epsilon=epsilon)

    def sentence(self) -> str:
        """State the guarantee of the budget in one sentence."""
        loss = self.loss()
        delta = f" and delta {_text(loss.delta)}" if isinstance(loss, Approx) else ""
        return (
            f"All answers together keep within epsilon {_text(loss.epsilon)}{delta}, "
            "however questions depend on earlier answers."
        )

    def describe(self, charge: Charge) -> str:
        """Describe a charge, or a remaining amount, in each filter that can express it."""
        alternatives = [
            " and ".join(
                f"{name} {_text(count * unit)}"
                for count, (name, _, unit) in zip(counts, budget_filter.limits, strict=True)
            )
            for budget_filter, counts in zip(self.filters, charge, strict=True)
            if counts is not None
        ]
        return " or ".join(alternatives) if alternatives else "more than the whole budget"

    def to_record(self) -> dict[str, object]:
        """Write the budget as JSON-able data; exact numbers become texts like "1/10"."""
        return {
            "version": _VERSION,
            "filters": [_encode(budget_filter) for budget_filter in self.filters],
        }

    @classmethod
    def from_record(cls, record: object) -> Budget:
        """Read what `to_record` wrote; anything else is refused."""
        if (
            not isinstance(record, dict)
            or record.keys() != {"version", "filters"}
            or record["version"] != _VERSION
            or not isinstance(record["filters"], list)
        ):
            raise _bad_record(f"it must list filters in version {_VERSION}")
        return cls(tuple(_decode(filter_record) for filter_record in record["filters"]))


def charge_from_record(record: object) -> Charge:
    """Read a charge back from JSON, where tuples have become lists."""
    if not isinstance(record, list | tuple):
        raise _bad_record("a charge must be a list")
    return tuple(None if counts is None else tuple(_checked_counts(counts)) for counts in record)


def _checked_counts(record: object) -> Iterable[int]:
    if not isinstance(record, list | tuple):
        raise _bad_record("a charge must list counts, or null, per filter")
    for count in record:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise _bad_record("a count must be a whole number of at least 0")
        yield count


def _add(
    spent: tuple[int, ...] | None, charge: tuple[int, ...] | None, limit: tuple[int, ...]
) -> tuple[int, ...] | None:
    # A filter that a charge would break stays broken permanently: its stopping rule has fired.
    if spent is None or charge is None:
        return None
    after = tuple(before + count for before, count in zip(spent, charge, strict=True))
    return after if within(after, limit) else None


def _encode(budget_filter: Filter) -> dict[str, str]:
    parameters = {
        field.name: str(getattr(budget_filter, field.name)) for field in fields(budget_filter)
    }
    return {"kind": _NAMES[type(budget_filter)], **parameters}


def _decode(record: object) -> Filter:
    kind = _KINDS.get(str(record.get("kind"))) if isinstance(record, dict) else None
    if not isinstance(record, dict) or kind is None:
        raise _bad_record(f"kind of a filter must be one of {', '.join(_KINDS)}")
    names = [field.name for field in fields(kind)]
    if sorted(record) != sorted(["kind", *names]):
        raise _bad_record(f"a filter of kind {record['kind']} must have {', '.join(names)}")
    return kind(**{name: exact_numbers.exact(record[name], name) for name in names})


def _bad_record(reason: str) -> ParameterError:
    return ParameterError("record_invalid", f"The record of a budget cannot be read: {reason}.")


def _text(number: Fraction) -> str:
    return f"{float(number):.10g}"
