"""What a comparison has found: each candidate's risk and use, and which of them no other beats.

*Privacy* of a candidate is told by the attack that surely gets most out of it: how far it is right
beyond a guess, or beyond what it knows of people who are not in the data (the `risk` of its
finding). An attack that knows much of anybody, because the world is like that, counts only where
such people were given; one that makes a belief grow does not count, nor does what a join is worth.
Where no attack could be run, the most that an epsilon allows is told of whoever guesses, as likely
as not, whether a person is in the data. A candidate beats another if it is no worse in both, better
in one, and gives no epsilon up: attacks that nobody tried are what it is for. Those that none beats
are the frontier. All is computed from the original: it is for the owner. Decisions 0294, 0304.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, tanh
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato import arguments
from sfumato.attack.catalogue import OF_BELIEF, OF_USE, WITH_OTHERS
from sfumato.attack.finding import percent
from sfumato.data.schema.names import count
from sfumato.errors import ParameterError
from sfumato.filesystem import check_target, whole
from sfumato.report.display import Card, CardTable, Pictures, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sfumato.attack.comparison.utility import Utility
    from sfumato.attack.finding import Finding, Findings

PROMISE = "promise"
"""What stands in the place of an attack where none ran."""
FOR_THE_OWNER = "for the owner: computed from the original"


class Exposure(NamedTuple):
    """How far an attacker is right beyond a guess, with its ends, and by which attack."""

    risk: float
    low: float
    high: float
    attack: str

    @classmethod
    def of(cls, finding: Finding) -> Exposure:
        """That of a finding, its ends taken from those of the success."""
        against, success = finding.control or finding.baseline, finding.success
        pairs = ((success.low, against.high), (success.high, against.low))
        ends = ((mine - theirs) / max(1 - theirs, 1e-12) for mine, theirs in pairs)
        low, high = (min(max(one, 0.0), 1.0) for one in ends)
        risk = finding.risk if low else 0.0  # what reaches the guess cannot be told from chance
        return cls(risk, min(low, risk), max(high, risk), finding.attack)

    @classmethod
    def promised(cls, epsilon: float, delta: float) -> Exposure:
        """The most that differential privacy allows beyond the toss of a coin."""
        most = min(tanh(epsilon / 2) + 2 * delta / (1 + exp(epsilon)), 1.0)
        return cls(most, 0.0, most, PROMISE)


@dataclass(frozen=True)
class Candidate:
    """One release: what it promises, what it reaches, what attacks get, what it is good for."""

    name: str
    path: str
    kind: str
    """What it is in a word, such as table, two tables, or counts."""
    findings: Findings
    guarantee: str | None = None
    k: int | None = None
    l: int | None = None  # noqa: E741  # the literature's own name
    t: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    utility: Utility | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    """What else is told of releases of its kind: loss, rows, suppressed ones."""
    remarks: tuple[str, ...] = ()

    @property
    def exposure(self) -> Exposure | None:
        """The attack that surely gets most, else what is promised; None where neither is known."""
        found = [
            Exposure.of(one)
            for one in self.findings.findings
            if one.attack not in OF_BELIEF | OF_USE
            and (one.control is not None or one.attack not in WITH_OTHERS)
        ]
        if not found and self.epsilon is not None:
            return Exposure.promised(self.epsilon, self.delta or 0.0)
        return max(found, key=lambda one: (one.low, one.risk, -one.high), default=None)

    @property
    def joined(self) -> Finding | None:
        """What a join with the list of people is worth, where there was one."""
        return next((one for one in self.findings if one.attack in OF_USE), None)

    def beats(self, other: Candidate) -> bool:
        """Whether it is as good in both, better in one, and promises no larger epsilon."""
        mine, theirs = self._places(), other._places()
        if mine is None or theirs is None:
            return False
        if other.epsilon is not None and (self.epsilon is None or self.epsilon > other.epsilon):
            return False
        return mine != theirs and all(a >= b for a, b in zip(mine, theirs, strict=True))

    def _places(self) -> tuple[float, float] | None:
        exposure, utility = self.exposure, self.utility
        return None if exposure is None or utility is None else (1 - exposure.risk, utility.kept)

    def json(self) -> dict[str, Any]:
        """All of it, ready to be written."""
        exposure, utility = self.exposure, self.utility
        return {
            "path": self.path,
            "name": self.name,
            "kind": self.kind,
            "guarantee": self.guarantee,
            "k": self.k,
            "l": self.l,
            "t": self.t,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "privacy": None
            if exposure is None
            else {
                "attack": exposure.attack,
                "risk": exposure.risk,
                "interval": [exposure.low, exposure.high],
            },
            "risk": {one.attack: one.json(examples=False) for one in self.findings},
            "not_run": dict(self.findings.not_run),
            "utility": {**({} if utility is None else utility.json()), **self.figures},
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Candidates for the release of one table, in the order in which they were given."""

    candidates: tuple[Candidate, ...]
    rows: int
    """How many rows the original has."""
    columns: tuple[str, ...]
    """The columns whose counts are compared."""
    remarks: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """What it was made from, which no report may replace."""

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, name: str) -> Candidate:
        for one in self.candidates:
            if name in (one.name, one.path):
                return one
        raise KeyError(name)

    @property
    def frontier(self) -> tuple[Candidate, ...]:
        """Those that no other beats, first those of which attacks get least.

        Whichever promises an epsilon stays, so a later one need not keep more of the counts.
        """
        placed = [one for one in self.candidates if one.exposure and one.utility]
        best = [one for one in placed if not any(other.beats(one) for other in placed)]
        return tuple(sorted(best, key=lambda one: (one.exposure.risk, -one.utility.kept)))  # type: ignore[union-attr]

    def json(self) -> dict[str, Any]:
        """All of it, ready to be written."""
        best = {one.name for one in self.frontier}
        return {
            "candidates": [{**one.json(), "frontier": one.name in best} for one in self.candidates],
            "frontier": [one.name for one in self.frontier],
            "original": {"rows": self.rows, "columns": list(self.columns)},
            "remarks": list(self.remarks),
            "for": FOR_THE_OWNER,
        }

    def save_report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write it as a page for people; it is for the owner, and only the owner may read it."""
        from sfumato.attack.comparison.page import page

        target = arguments.path(path, "path")
        check_target(target, overwrite=arguments.flag(overwrite, "overwrite"), kept=self.files)
        with whole(target, overwrite=overwrite, private=True) as temporary:
            temporary.write_text(page(self), encoding="utf-8")

    def plot(self) -> Pictures:
        """Privacy against use, a point a candidate; a notebook shows it, `save` writes SVG."""
        from sfumato.attack.comparison.page import picture

        drawn = picture(self)
        if drawn is None:
            raise ParameterError(
                "nothing_to_draw",
                "No candidate could be both attacked and counted, so there is nothing to draw. "
                "Look at what each says: comparison.json().",
            )
        return Pictures([drawn])

    def _card(self) -> Card:
        rows = [
            (
                one.name,
                one.k,
                one.epsilon,
                "–" if one.exposure is None else percent(one.exposure.risk),
                "–" if one.exposure is None else one.exposure.attack,
                "–" if one.utility is None else percent(one.utility.kept),
            )
            for one in self.candidates
        ]
        titles = ("Candidate", "k", "epsilon", "Found out beyond a guess", "By", "Counts kept")
        best = ", ".join(one.name for one in self.frontier) or "none"
        line = f"{count(len(self.candidates), 'candidate')}, no other beats {best}"
        return Card(line, {}, CardTable(titles, rows), [f"{FOR_THE_OWNER}.", *self.remarks])
