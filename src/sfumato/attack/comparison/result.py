"""The result of a comparison: risk and utility of each candidate, and the Pareto frontier.

The *privacy* of a candidate is set by the attack that certainly learns most: its excess over a
guess, or over people who are not in the data (the `risk` of its finding). An attack that is often
right about anybody counts only with such a control group. Changes of belief and the utility of
joins do not count. If no attack ran, the risk is the most that epsilon allows for a guess whether a
person is in the data. A candidate beats another if it is no worse in both risk and utility, better
in one, and has no larger epsilon, because epsilon also covers attacks that nobody tried. The
frontier has the candidates that no other beats. All figures are computed from the original, for the
owner.
Decisions `release-gate` and `matching`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, tanh
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato import arguments
from sfumato.attack.finding import percent
from sfumato.attack.registry import ATTACKS
from sfumato.data.schema.names import count
from sfumato.errors import ParameterError, as_field
from sfumato.filesystem import check_target, whole
from sfumato.report.display import Card, CardTable, Pictures, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sfumato.attack.comparison.utility import Utility
    from sfumato.attack.finding import Finding, Findings

PROMISE = "promise"
"""The name in place of an attack if none ran."""
FOR_THE_OWNER = "for the owner: computed from the original"


class Exposure(NamedTuple):
    """The excess of the best attack over a guess, its interval, and the name of the attack."""

    risk: float
    low: float
    high: float
    attack: str

    @classmethod
    def of(cls, finding: Finding) -> Exposure:
        """Return the exposure of a finding; its interval compares opposite ends of both rates."""
        against, success = finding.control or finding.baseline, finding.success
        pairs = ((success.low, against.high), (success.high, against.low))
        ends = ((mine - theirs) / max(1 - theirs, 1e-12) for mine, theirs in pairs)
        low, high = (min(max(end, 0.0), 1.0) for end in ends)
        risk = finding.risk if low else 0.0  # an interval that reaches the guess may be chance
        return cls(risk, min(low, risk), max(high, risk), finding.attack)

    @classmethod
    def promised(cls, epsilon: float, delta: float) -> Exposure:
        """Return the largest excess over a coin that differential privacy allows."""
        # 2 (e^eps + delta) / (1 + e^eps) - 1: the bound of a balanced guess as an excess over a
        # coin.
        most = min(tanh(epsilon / 2) + 2 * delta / (1 + exp(epsilon)), 1.0)
        return cls(most, 0.0, most, PROMISE)


@dataclass(frozen=True)
class Candidate:
    """One candidate: its guarantee, its measures, the findings of attacks, and its utility."""

    name: str
    path: str
    kind: str
    """A word for its form, such as rows, two tables, or counts."""
    findings: Findings
    guarantee: str | None = None
    k: int | None = None
    l: int | None = None  # noqa: E741  # the literature's own name
    t: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    utility: Utility | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    """Other measures of releases of its kind: loss, rows, suppressed rows."""
    remarks: tuple[str, ...] = ()

    @property
    def exposure(self) -> Exposure | None:
        """The attack that certainly learns most, or the bound of epsilon; None without both."""
        exposures = [
            Exposure.of(finding)
            for finding in self.findings.findings
            if ATTACKS[finding.attack].measures_leak
            and (finding.control is not None or not ATTACKS[finding.attack].needs_control)
        ]
        if not exposures and self.epsilon is not None:
            return Exposure.promised(self.epsilon, self.delta or 0.0)
        return max(
            exposures,
            key=lambda exposure: (exposure.low, exposure.risk, -exposure.high),
            default=None,
        )

    @property
    def joined(self) -> Finding | None:
        """The finding of the join with the list of people, if a list was given."""
        return next((finding for finding in self.findings if finding.attack == "join"), None)

    def beats(self, candidate: Candidate) -> bool:
        """Return whether it is as good in both, better in one, and has no larger epsilon."""
        mine, theirs = self._coordinates(), candidate._coordinates()
        if mine is None or theirs is None:
            return False
        if candidate.epsilon is not None and (
            self.epsilon is None or self.epsilon > candidate.epsilon
        ):
            return False
        return mine != theirs and all(a >= b for a, b in zip(mine, theirs, strict=True))

    def _coordinates(self) -> tuple[float, float] | None:
        exposure, utility = self.exposure, self.utility
        return None if exposure is None or utility is None else (1 - exposure.risk, utility.kept)

    def json(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
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
            "risk": {finding.attack: finding.json(examples=False) for finding in self.findings},
            "not_run": self.findings.reasons(as_field),
            "utility": {**({} if utility is None else utility.json()), **self.figures},
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Candidates for the release of one table, in the given order.

    Iterate over the candidates, or take one by name or path: `comparison["k5"]`. All figures are
    computed from the original, so they are for the owner only.

    Attributes
    ----------
    candidates
        Each candidate with its guarantee, findings, utility and remarks.
    rows
        The number of rows of the original.
    columns
        The columns whose counts are compared.
    remarks
        What a reader should know about the comparison.
    files
        The compared files, which no report may overwrite.

    Example
    -------
    >>> comparison = sf.compare([a, b], original=people)  # doctest: +SKIP
    >>> [(best.name, best.exposure.risk, best.utility.kept) for best in comparison.frontier]
    ... # doctest: +SKIP
    >>> comparison.save_report("comparison.html")  # doctest: +SKIP
    """

    candidates: tuple[Candidate, ...]
    rows: int
    columns: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, name: str) -> Candidate:
        for candidate in self.candidates:
            if name in (candidate.name, candidate.path):
                return candidate
        raise KeyError(name)

    @property
    def frontier(self) -> tuple[Candidate, ...]:
        """The candidates that no other beats; attackers learn least from the first.

        A candidate with a smaller epsilon is beaten by none with a larger one, so utility need not
        increase along the frontier.
        """
        placed = [
            candidate for candidate in self.candidates if candidate.exposure and candidate.utility
        ]
        best = [entry for entry in placed if not any(rival.beats(entry) for rival in placed)]
        return tuple(sorted(best, key=lambda entry: (entry.exposure.risk, -entry.utility.kept)))  # type: ignore[union-attr]

    def json(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        best = {entry.name for entry in self.frontier}
        return {
            "candidates": [
                {**candidate.json(), "frontier": candidate.name in best}
                for candidate in self.candidates
            ],
            "frontier": [entry.name for entry in self.frontier],
            "original": {"rows": self.rows, "columns": list(self.columns)},
            "remarks": list(self.remarks),
            "for": FOR_THE_OWNER,
        }

    def save_report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the comparison as an HTML page that only the owner may read (mode 0600).

        Parameters
        ----------
        path
            The file to write.
        overwrite
            Whether to replace an existing file; compared files are never replaced.

        Raises
        ------
        OutputError
            If the file exists, cannot be written, or is one of the compared files.
        """
        from sfumato.attack.comparison.page import page

        target = arguments.path(path, "path")
        check_target(target, overwrite=arguments.flag(overwrite, "overwrite"), kept=self.files)
        with whole(target, overwrite=overwrite, private=True) as temporary:
            temporary.write_text(page(self), encoding="utf-8")

    def plot(self) -> Pictures:
        """Draw privacy against utility, one point for each candidate.

        A notebook shows the picture; its method `save` writes SVG.

        Raises
        ------
        ParameterError
            If no candidate has both risk and utility.
        """
        from sfumato.attack.comparison.page import picture

        drawn = picture(self)
        if drawn is None:
            raise ParameterError(
                "comparison_impossible",
                "No candidate could be both attacked and counted, so there is nothing to draw. "
                "The reasons are in comparison.json().",
            )
        return Pictures([drawn])

    def _card(self) -> Card:
        rows = [
            (
                candidate.name,
                candidate.k,
                candidate.epsilon,
                "–" if candidate.exposure is None else percent(candidate.exposure.risk),
                "–" if candidate.exposure is None else candidate.exposure.attack,
                "–" if candidate.utility is None else percent(candidate.utility.kept),
            )
            for candidate in self.candidates
        ]
        titles = ("Candidate", "k", "epsilon", "Learned beyond a guess", "By", "Counts kept")
        best = ", ".join(entry.name for entry in self.frontier) or "none"
        line = f"{count(len(self.candidates), 'candidate')}, best: {best}"
        return Card(line, {}, CardTable(titles, rows), [f"{FOR_THE_OWNER}.", *self.remarks])
