"""Requirements that a release must meet before it leaves, such as `link<0.05`, and its findings.

A requirement compares the success of a finding. A suffix names another figure: `link.high` is the
upper end of the interval, `link.risk` and `link.excess` are the excess over a control group or a
guess. For attacks on sensitive columns the largest figure of any column counts. A requirement fails
if its attack did not run.

Findings are computed from the original and belong to the owner. The owner may publish them; the
release then says so. Published shares are not rounded, because the number of victims and the ends
of the intervals would give the number of tried people away anyway.
Decision `findings`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.arguments import shown
from sfumato.attack.case import PERSON
from sfumato.attack.finding import percent
from sfumato.attack.registry import ATTACKS, SYNTHETIC_ATTACKS
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, PolicyError, option
from sfumato.exact_numbers import probability

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from fractions import Fraction

    from sfumato.attack.finding import ColumnRates, Findings
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema


# attack[.figure] < limit, with the limit as a share or in per cent.
_WRITTEN = re.compile(r"\s*([\w-]+)(?:\.(\w+))?\s*(<=?)\s*([\d.]+(?:[eE]-?\d+)?\s*%?)\s*")


_FIGURES: dict[str, Callable[[ColumnRates], float]] = {
    "success": lambda rates: rates.success.value,
    "high": lambda rates: rates.success.high,
    "risk": lambda rates: rates.risk,
    "excess": lambda rates: rates.excess,
}


_CALLED = {Role.QUASI: "a quasi-identifier", Role.SENSITIVE: "a sensitive column"}


_DROP = "Drop it here, and try the release with sfumato attack."


@dataclass(frozen=True)
class Requirement:
    """An upper limit for one figure of an attack; the limit itself is allowed if `at_most`."""

    text: str
    attack: str
    figure: str
    limit: Fraction
    at_most: bool

    def failure(self, findings: Findings) -> str | None:
        """Return a sentence about why the findings do not meet it, or None if they do."""
        tried = next(
            (finding for finding in findings.findings if finding.attack == self.attack), None
        )
        if tried is None:
            reason = findings.refusals.get(self.attack, "it was not tried.")
            return f"{shown(self.text)} is not shown, since {self.attack} did not run: {reason}"
        figure = _FIGURES[self.figure]
        # The headline column is not always the one with the largest figure (decision `findings`).
        worst = max(tried.by_column, key=figure)
        value = figure(worst)
        if value < self.limit or (self.at_most and value == self.limit):
            return None
        named = self.attack if self.figure == "success" else f"{self.attack}.{self.figure}"
        named += f" of {worst.column}" if worst.column else ""
        value_text = f"{percent(value)} ({value:.6g})"
        return f"{shown(self.text)} does not hold, since {named} is {value_text}."


def read_requirements(written: Sequence[str] | str) -> tuple[Requirement, ...]:
    """Parse requirements, and refuse those that no release could meet before it leaves."""
    requirements = tuple(map(_read, arguments.names(written, "require", "requirements")))
    for requirement in requirements:
        needs = ATTACKS[requirement.attack].needs
        if needs is not None:
            raise _not_shown(requirement, f"needs {needs}. Nothing was done. {_DROP}")
    return requirements


def attacks_wanted(
    attacks: bool | None, required: Sequence[Requirement], *, publish: bool, off: str
) -> bool:
    """Return whether to attack a release; raise if attacks are switched off but required.

    `off` is the option that switched them off, for the message.
    """
    if attacks is False and (required or publish):
        flag = option("require") if required else option("publish_findings", True)
        raise ParameterError(
            "options_conflict",
            f"{flag} needs attacks, and {off} switches them off. Leave out {off}, or {flag}.",
        )
    return bool(attacks) or bool(required) or publish


def check_fitting(requirements: Iterable[Requirement], schema: Schema) -> None:
    """Refuse, before a search, requirements whose columns an anonymized table does not have."""
    held = {
        held_column.name
        for held_column in (*schema.by_role(Role.QUASI), *schema.by_role(Role.SENSITIVE))
    }
    if schema.unit.column in held:
        held.add(PERSON)
    for requirement in requirements:
        name_sets = ATTACKS[requirement.attack].column_names
        if name_sets and not any(held.issuperset(names) for names in name_sets):
            names_text = "; or ".join(", ".join(names) for names in name_sets)
            raise _not_shown(
                requirement,
                f"needs released columns with the names {names_text}. Nothing was done. {_DROP}",
            )


def check_paid(requirements: Iterable[Requirement], columns: Sequence[Column] | None) -> None:
    """Refuse, before a charge, requirements whose attack cannot run on the synthetic rows.

    `columns` are those of the rows; None if the release has nothing that could be read as rows.
    """
    for requirement in requirements:
        reason = _impossible(requirement.attack, columns)
        if reason is not None:
            raise _not_shown(requirement, f"{reason} Nothing was charged.")


def _impossible(attack: str, columns: Sequence[Column] | None) -> str | None:
    """Return why an attack cannot run on synthetic rows, and what to write instead."""
    if attack not in SYNTHETIC_ATTACKS:
        return (
            "takes released rows for people's rows, and these are synthetic. Leave it out, or "
            f"require one of {', '.join(SYNTHETIC_ATTACKS)}."
        )
    if columns is None:
        return (
            "reads rows, and this publication has no counts of single combinations of values "
            "that could be read as rows. Leave it out, or publish a histogram or marginals."
        )
    names = ", ".join(quoted(column.name) for column in columns)
    lacking = [
        _CALLED[role]
        for role in ATTACKS[attack].roles
        if not any(column.role is role for column in columns)
    ]
    if len(columns) < ATTACKS[attack].least_columns:
        lacking.append("a second column")
    if not lacking:
        return None
    return f"needs {lacking[0]} besides {names}. Drop it, or name one in {option('columns')}."


def _not_shown(requirement: Requirement, reason: str) -> PolicyError:
    return PolicyError(
        "requirement_failed",
        f"{shown(requirement.text)} cannot be shown before a release: the attack "
        f"{requirement.attack!r} {reason}",
    )


def _read(text: str) -> Requirement:
    matched = _WRITTEN.fullmatch(text)
    if matched is None:
        raise _unreadable(text)
    attack, figure, sign, limit = matched.groups()
    if attack not in ATTACKS:
        raise ParameterError(
            "parameter_type_wrong",
            f"The requirement {shown(text)} names an unknown attack {shown(attack)}; "
            + suggestion(attack, ATTACKS),
            parameter="name",
        )
    if figure is not None and figure not in _FIGURES:
        raise ParameterError(
            "parameter_type_wrong",
            f"The requirement {shown(text)} names an unknown figure {shown(figure)}; "
            + suggestion(figure, _FIGURES),
            parameter="require",
        )
    try:
        share = probability(limit.replace(" ", ""), "require")
    except ParameterError:
        raise _unreadable(text) from None
    return Requirement(text.strip(), attack, figure or "success", share, sign == "<=")


def _unreadable(text: str) -> ParameterError:
    return ParameterError(
        "parameter_type_wrong",
        f"Cannot read the requirement {shown(text)}. Write an attack, < or <=, and a share from 0 "
        "to below 1, such as 'link<0.05', 'homogeneity<=0' or 'link.high<5%'.",
        parameter="require",
    )


def check(requirements: Iterable[Requirement], findings: Findings, *, mend: str) -> None:
    """Raise if findings do not meet all requirements; `mend` says what the owner can change."""
    failed = [
        failure for failure in (r.failure(findings) for r in requirements) if failure is not None
    ]
    if failed:
        raise PolicyError(
            "requirement_failed", f"Not released: {' '.join(failed)} Nothing was written. {mend}"
        )


_PUBLISHED = (
    "Findings of attacks travel with this release. They were computed from the original rows, and "
    "the guarantee does not cover them. They include the number of people tried, which can reveal "
    "the exact number of rows of the original, and of suppressed rows."
)


@dataclass(frozen=True)
class TriedAttacks:
    """The findings of a release, what was required of them, and whether they are published.

    `findings` is None if no attack was tried.
    """

    findings: Findings | None = None
    required: tuple[str, ...] = ()
    published: bool = False

    @property
    def holder_record(self) -> dict[str, Any]:
        """The record that the holder keeps; it names nobody."""
        if self.findings is None:
            return {}
        record = {"required": list(self.required), **self.findings.json(examples=False)}
        return {"attacks": record}

    @property
    def sidecar_record(self) -> dict[str, Any]:
        """The record in the side-car: empty unless the holder publishes the findings."""
        return self.holder_record if self.published else {}

    @property
    def notes(self) -> list[str]:
        """What a receiver must know about published findings."""
        return [_PUBLISHED] if self.sidecar_record else []


NOT_TRIED = TriedAttacks()
"""The state of a release that no attack was tried on."""
