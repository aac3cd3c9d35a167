"""A registry of consent as its owner uses it, at hand or elsewhere: what is said is checked here.

Decision 0353.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, option
from sfumato.filesystem import check_target, whole
from sfumato.report.display import Card, CardTable, Shown
from sfumato.vault.config import OWNER
from sfumato.vault.consent.consent_record import Said, now
from sfumato.vault.consent.import_file import ANSWERS, checked, moment, read_said
from sfumato.vault.consent.person_ids import written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.data.schema.column import Kind

_CHANGES = "a list of changes, each such as ('7', 'care', True, None)"


def no_registry(wanted: str | None, known: Sequence[str]) -> ParameterError:
    """What is said of a registry that is none, or that nobody named among several."""
    if wanted and known:
        said = f"There is no registry of consent for {quoted(wanted)}; {suggestion(wanted, known)}"
    elif known:
        said = (
            f"Say which population is meant: {option('population', metavar='NAME')}, one of "
            f"{', '.join(known)}."
        )
    else:
        said = (
            f"No data set of this vault asks for consent. Add one with {option('purposes')}, or "
            "write "
            'purposes = ["care", "research"] under its [datasets.NAME] in vault.toml.'
        )
    return ParameterError("registry_unknown", said)


class AnyRegistry(Shown, ABC):
    """Who of a population agreed to which purpose, wherever that is kept."""

    def __init__(self, population: str, purposes: tuple[str, ...], kind: Kind) -> None:
        self.population, self.purposes = population, purposes
        self.kind = kind
        """As what people are written: whole numbers or texts."""

    @property
    @abstractmethod
    def version(self) -> int:
        """How many entries the log has; it stands beside every answer in the ledger."""

    @abstractmethod
    def to_csv(self) -> str:
        """All that stands, as a CSV that can be imported."""

    @abstractmethod
    def show(self, person: str | int | None = None) -> dict[str, Any]:
        """How many agree to each purpose; or how one person stands, and all that they said."""

    @abstractmethod
    def _record(self, said: Sequence[Said], operator: str) -> dict[str, Any]:
        """Write down what people say."""

    @property
    @abstractmethod
    def _in_use(self) -> Iterable[Path]:
        """Files that nothing may be written over."""

    def give(
        self, person: str | int, purpose: str, *, time: str | None = None, operator: str = OWNER
    ) -> dict[str, Any]:
        """Write down that a person agrees to a purpose, from the next fresh answer on."""
        return self._say([person], [self._purpose(purpose)], True, time, operator)

    def withdraw(
        self,
        person: str | int,
        purpose: str | None = None,
        *,
        time: str | None = None,
        operator: str = OWNER,
    ) -> dict[str, Any]:
        """Write down that a person does not agree, to any purpose unless one is named."""
        purposes = self.purposes if purpose is None else [self._purpose(purpose)]
        return self._say([person], purposes, False, time, operator)

    def change(
        self,
        changes: Iterable[tuple[str | int, str, bool, str | None]],
        *,
        operator: str = OWNER,
    ) -> dict[str, Any]:
        """Write down who agrees or not: person, purpose, True or False, and when, if known.

        All of it is taken, or nothing.
        """
        lines = (
            (f"change {place}", _line(place, one))
            for place, one in enumerate(
                arguments.require(changes, "changes", Iterable, _CHANGES), 1
            )
        )
        return self._record(checked(lines, self.purposes, self.kind), operator)

    def import_file(self, path: str | Path, *, operator: str = OWNER) -> dict[str, Any]:
        """Take a CSV of person, purpose, yes or no and perhaps a time: all of it or nothing."""
        said = read_said(arguments.path(path, "path"), self.purposes, self.kind)
        return self._record(said, operator)

    def export(self, path: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
        """Write all that stands as a CSV that can be imported."""
        target = arguments.path(path, "path")
        check_target(
            target,
            overwrite=arguments.flag(overwrite, "overwrite"),
            kept=self._in_use,
        )
        text = self.to_csv()
        with whole(target, overwrite=overwrite, private=True) as new:
            new.write_text(text, encoding="utf-8")
        rows = text.count("\n") - 1  # a person is one line
        return {"population": self.population, "rows": rows, "written": [str(target)]}

    def _purpose(self, purpose: str) -> str:
        if arguments.text(purpose, "purpose") not in self.purposes:
            raise ParameterError(
                "consent_purpose_unknown",
                f"Nobody of {quoted(self.population)} is asked to agree to {quoted(purpose)}; "
                + suggestion(purpose, self.purposes),
            )
        return purpose

    def _say(
        self,
        people: Iterable[object],
        purposes: Sequence[str],
        agreed: bool,
        time: str | None,
        operator: str,
    ) -> dict[str, Any]:
        told, today = None, now()
        if time is not None:
            told = moment(arguments.text(time, "time"))
            if told is None or told > today:
                raise ParameterError(
                    "consent_time_wrong",
                    "The time must be one such as 2026-03-01 or 2026-03-01T09:30:00Z, and not to "
                    f"come; given: {quoted(time)}. Leave it out for now.",
                )
        who = [written(one, self.kind) for one in people]
        said = [
            Said(purpose, one, agreed, told or today, dated=told is not None)
            for one in who
            for purpose in purposes
        ]
        return self._record(said, operator)

    def _card(self) -> Card:
        told = self.show()
        rows = [(one, said["yes"], said["no"]) for one, said in told["purposes"].items()]
        line = ", ".join(f"{purpose} {yes} yes {no} no" for purpose, yes, no in rows)
        table = CardTable(("Purpose", "Yes", "No"), rows)
        return Card(f"{self.population}: {line}", {"Version": told["version"]}, table)


def _line(place: int, change: object) -> tuple[str, str, str, str]:
    """A change as a line of a file says it; whether it says something is seen there."""
    match change:
        case [str() | int() as who, str() as what, agreed, str() | None as time]:
            words = [word for word, said in ANSWERS.items() if said is agreed]
            return str(who), what, words[0] if words else arguments.shown(agreed), time or ""
    raise ParameterError(
        "type_wrong",
        f"changes must be {_CHANGES}, but change {place} is {arguments.shown(change)}.",
    )
