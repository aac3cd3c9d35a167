"""What an owner requires of attacks before a release may leave: `link<0.05`.

Compared is the finding's success, a share of those tried. Behind a dot stands another figure of it:
`link.high` is the upper end of the interval, `link.risk` and `link.excess` what goes beyond a
control group or a guess. Of an attack on sensitive columns the largest figure of any column counts.
An attack that did not run has shown nothing, and fails.

Decisions 0292, 0305.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato import given
from sfumato.attack.catalogue import ATTACKS, NEED_MORE
from sfumato.attack.finding import percent
from sfumato.errors import ParameterError, PolicyError
from sfumato.privacy.numbers import probability
from sfumato.schema.names import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from fractions import Fraction

    from sfumato.attack.finding import ColumnRates, Findings

_WRITTEN = re.compile(r"\s*([\w-]+)(?:\.(\w+))?\s*(<=?)\s*([\d.]+(?:[eE]-?\d+)?\s*%?)\s*")
_FIGURES: dict[str, Callable[[ColumnRates], float]] = {
    "success": lambda rates: rates.success.value,
    "high": lambda rates: rates.success.high,
    "risk": lambda rates: rates.risk,
    "excess": lambda rates: rates.excess,
}


@dataclass(frozen=True)
class Requirement:
    """A figure of an attack, and what it must be below, or `at_most`."""

    text: str
    attack: str
    figure: str
    limit: Fraction
    at_most: bool

    def failure(self, findings: Findings) -> str | None:
        """In words why it is not met; None where it is."""
        found = next((one for one in findings.findings if one.attack == self.attack), None)
        if found is None:
            reason = findings.not_run.get(self.attack, "it was not tried.")
            return f"{self.text!r} is not shown, since {self.attack} did not run: {reason}"
        figure = _FIGURES[self.figure]
        worst = max(found.by_column, key=figure)
        value = figure(worst)
        if value < self.limit or (self.at_most and value == self.limit):
            return None
        named = self.attack if self.figure == "success" else f"{self.attack}.{self.figure}"
        named += f" of {worst.column}" if worst.column else ""
        return f"{self.text!r} does not hold, since {named} is {percent(value)} ({value:.6g})."


def read_requirements(written: Sequence[str] | str) -> tuple[Requirement, ...]:
    """Requirements as they are written; those that cannot be met by any release are refused."""
    found = tuple(map(_read, given.names(written, "require", "requirements")))
    for one in found:
        if one.attack in NEED_MORE:
            raise PolicyError(
                "requirement_failed",
                f"{one.text!r} cannot be shown before a release: the attack {one.attack!r} needs "
                f"{NEED_MORE[one.attack]}. Nothing was done. Drop it here, and try the release "
                f"with sfumato attack {one.attack}.",
            )
    return found


def _read(text: str) -> Requirement:
    matched = _WRITTEN.fullmatch(text)
    if matched is None:
        raise _unreadable(text)
    attack, figure, sign, limit = matched.groups()
    if attack not in ATTACKS:
        raise ParameterError(
            "requirement_unknown",
            f"There is no attack {attack!r}, of which {text!r} could be required; "
            + suggestion(attack, ATTACKS),
        )
    if figure is not None and figure not in _FIGURES:
        raise ParameterError(
            "requirement_unknown",
            f"A finding has no figure {figure!r}, of which {text!r} could be required; "
            + suggestion(figure, _FIGURES),
        )
    try:
        share = probability(limit.replace(" ", ""), "require")
    except ParameterError:
        raise _unreadable(text) from None
    return Requirement(text.strip(), attack, figure or "success", share, sign == "<=")


def _unreadable(text: str) -> ParameterError:
    return ParameterError(
        "requirement_unreadable",
        f"Cannot read the requirement {text!r}. Write an attack, < or <=, and a share from 0 "
        "to below 1, such as 'link<0.05', 'homogeneity<=0' or 'link.high<5%'.",
    )


def check(requirements: Iterable[Requirement], findings: Findings, *, mend: str) -> None:
    """Refuse a release that does not meet them all; `mend` says what to change."""
    failed = [one for one in (r.failure(findings) for r in requirements) if one is not None]
    if failed:
        raise PolicyError(
            "requirement_failed", f"Not released: {' '.join(failed)} Nothing was written. {mend}"
        )
