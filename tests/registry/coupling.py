"""Run a method on a table, run it again on a neighbour with the same outputs, and compare.

What must hold, for every pair of neighbours: the same outcome; the same mechanism calls with the
same public parameters; inputs no further apart than each mechanism claims; the same release; and a
loss, over all calls of the pair, of at most what was charged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.registry.mechanism_calls import DivergenceError
from tests.registry.recorder import Call, Recorder, patched

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import SfumatoError
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.composition import basic_price, flatten, total
from sfumato.privacy.accounting.events import Composed, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

Result = tuple[Event, dict[str, "pa.Table"]]
"""The event that was charged, and the tables that were released."""


@dataclass(frozen=True)
class Outcome:
    """What one run did: its calls and draws, what was charged, and tables or a refusal."""

    calls: list[Call]
    draws: list[int]
    event: Event | None
    tables: dict[str, Any]
    refusal: str | None
    divergence: str | None

    @property
    def summary(self) -> str:
        """An answer, or the code of the refusal: all that an analyst sees besides figures."""
        return "answer" if self.refusal is None else f"refusal {self.refusal}"


@dataclass(frozen=True)
class Coupled:
    """A pair of runs: what is wrong with it, and what the pair lost of what was charged."""

    findings: tuple[str, ...]
    outcome: str
    calls: int
    loss_share: Fraction = Fraction(0)
    """The loss of this pair as a part of what was charged."""
    claimed_share: Fraction = Fraction(0)
    """What all calls cost by their own claims, as a part of what was charged.

    Above 1 where calls share one price (steps of a stream, boxes of a level, blocks of a
    partition), below 1 where one call holds several tables or a part is left unspent. What must
    hold is that no pair loses more than was charged: `loss_share` is at most 1.
    """


def run(method: Callable[[], Result], recorder: Recorder) -> Outcome:
    """Run a method under a recorder."""
    event, refusal = None, None
    tables: dict[str, Any] = {}
    with patched(recorder):
        try:
            event, tables = method()
        except SfumatoError as error:
            refusal = error.code
        except DivergenceError:
            refusal = "diverged"  # the recorder says where
    return Outcome(recorder.calls, recorder.draws, event, tables, refusal, recorder.divergence)


def couple(
    first: Callable[[], Result],
    second: Callable[[], Result],
    relation: Neighbours = Neighbours.ADD_REMOVE,
    *,
    seed: int = 1,
) -> Coupled:
    """Couple the runs of one method on two tables that are neighbours by a relation."""
    ours = run(first, Recorder(seed))
    theirs = run(second, Recorder(seed, forced=ours.calls))
    return compare(ours, theirs, relation)


def compare(ours: Outcome, theirs: Outcome, relation: Neighbours) -> Coupled:
    """What is wrong with a coupled pair of runs."""
    findings: list[str] = []
    if ours.refusal is not None:
        findings.append(f"outcome: planned and charged, then {ours.summary}")
    if theirs.divergence is not None:
        findings.append(f"control flow: {theirs.divergence}")
    elif ours.summary != theirs.summary:
        findings.append(f"outcome: {ours.summary}, on the neighbour {theirs.summary}")
    elif len(ours.calls) != len(theirs.calls):
        findings.append(f"control flow: {len(ours.calls)} calls, then {len(theirs.calls)}")
    elif ours.draws != theirs.draws:
        findings.append("control flow: other draws outside of mechanisms")
    pairs = list(zip(ours.calls, theirs.calls, strict=False))
    events: list[Event] = []
    for found, broken in changes(pairs, ours.event, relation):
        events += found
        findings += [f"sensitivity: {broken}"] if broken else []
    findings += _releases(ours, theirs) if not findings else []
    if ours.event is None:
        return Coupled(tuple(findings), ours.summary, len(pairs))
    lost = share(events, ours.event)
    if lost > 1:
        findings.append(f"loss: {float(lost):g} times what was charged")
    claims = [call.patch.claim(call.mechanism) for call in ours.calls]
    claimed = share([one for one in claims if one is not None], ours.event)
    return Coupled(tuple(findings), ours.summary, len(pairs), lost, claimed)


def changes(
    pairs: Sequence[tuple[Call, Call]], charged: Event | None, relation: Neighbours
) -> list[tuple[tuple[Event, ...], str | None]]:
    """The losses of coupled calls, and the claims that they break."""
    found: list[tuple[tuple[Event, ...], str | None]] = []
    joined: dict[str, list[tuple[Call, Call]]] = {}
    paid: Counter[Any] = Counter() if charged is None else flatten(charged)
    made = Counter(ours.name for ours, _ in pairs)
    for place, (ours, theirs) in enumerate(pairs):
        if ours.patch.joined is not None:
            joined.setdefault(ours.name, []).append((ours, theirs))
            continue
        try:
            change = ours.patch.change(ours.mechanism, ours.values, theirs.values, ours.output)
        except ValueError as error:  # shapes that cannot be compared: a divergence stopped there
            found.append(((), f"call {place}, {ours.name}: {error}"))
            continue
        broken = change.broken
        if broken and change.reach:
            # One call may hold several tables, each of which is paid for by itself. What is paid
            # for is told by the charged event alone, so that no method can widen its own claim;
            # the loss of the whole change is priced below in any case, with nothing let off.
            allowed = max(paid[ours.patch.claim(ours.mechanism)] // made[ours.name], 1)
            if relation is Neighbours.REPLACE_ONE and ours.patch.twice(ours.mechanism):
                allowed *= 2
            broken = broken if change.reach > allowed else None
        found.append((change.events, broken and f"call {place}, {ours.name}: {broken}"))
    for name, calls in joined.items():
        patch, mechanism = calls[0][0].patch, calls[0][0].mechanism
        assert patch.joined is not None
        values = [(ours.values, theirs.values, ours.output) for ours, theirs in calls]
        change = patch.joined(mechanism, values)
        found.append((change.events, change.broken and f"{name}: {change.broken}"))
    return found


def share(events: Sequence[Event], charged: Event) -> Fraction:
    """What events cost as a part of what was charged, in the quantity where that is largest.

    A ledger counts an event as (epsilon, delta) where it has one, and as (rho, delta) always; the
    loss must be covered in every quantity.
    """
    found = [Fraction(0)]
    for leaf_price in (basic_price, zcdp.price):
        limits = total(charged, leaf_price)
        if limits is None or not events:
            continue
        spent = total(Composed(tuple(events)), leaf_price)
        if spent is None:  # Gaussian noise, paid for by a pure epsilon
            return _UNPAID
        pairs = zip(spent, limits, strict=True)
        found += [one / most if most else _UNPAID * bool(one) for one, most in pairs]
    return max(found)


_UNPAID = Fraction(10**9)
"""Stands for a loss of something that was not charged at all."""


def _releases(ours: Outcome, theirs: Outcome) -> list[str]:
    """Whether both runs released the same, as they must, given the same outputs."""
    if ours.tables.keys() != theirs.tables.keys():
        return [f"release: tables {sorted(ours.tables)}, then {sorted(theirs.tables)}"]
    return [
        f"release: table {name!r} differs though all outputs are equal"
        for name, table in ours.tables.items()
        if not _same(table, theirs.tables[name])
    ]


def _same(first: Any, second: Any) -> bool:
    if not hasattr(first, "to_pydict"):
        return bool(first == second)
    return first.schema == second.schema and repr(first.to_pydict()) == repr(second.to_pydict())
