"""Consent registries: give, withdraw, import, export and show consent.

There is one registry for each population, because people give consent, not tables. All registries
of a vault share one log, a file in its folder or tables in the ledger's PostgreSQL. Only the owner
reads it. Local vault and HTTP client share `AnyRegistry`, which checks changes before they are
recorded. Decision `consent`.
"""

from __future__ import annotations

import csv
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, SourceError, option
from sfumato.filesystem import check_target, whole
from sfumato.privacy.ledger.chain import utc_now
from sfumato.privacy.ledger.rules import check_name
from sfumato.release.files_in_use import CONSENT, consent_head, vault_files
from sfumato.report.display import Card, CardTable, Shown
from sfumato.vault.config import OWNER, PrivateSet
from sfumato.vault.consent.consent_filter import (
    LazyRegistry,
    check_person_kinds,
    fault_of,
    person_kinds,
    written,
)
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sfumato.data.schema.column import Kind
    from sfumato.vault.config import Config
    from sfumato.vault.consent.log import ConsentLog


class ConsentChange(NamedTuple):
    """One person's yes or no to one purpose. `dated` if the time was given with it."""

    purpose: str
    person: str
    agreed: bool
    time: str
    dated: bool = False


def current_time() -> str:
    """The present time, in the form that is stored with a change."""
    return utc_now().isoformat(timespec="seconds")


COLUMNS = ("person", "purpose", "agreed", "time")
ANSWERS = {"yes": True, "no": False}
_SEPARATORS = (",", ";", "\t")
_LISTED = 20
"""The number of bad lines that an error lists."""
_LONGEST_LINE = 100_000
"""Characters of the header that are read: a file without line feeds must not fill the memory."""


def read_changes(path: Path, purposes: Sequence[str], kind: Kind) -> list[ConsentChange]:
    """Read a CSV file with the columns `person,purpose,agreed[,time]` in UTF-8."""
    try:
        # Excel begins a file with a byte order mark, which would be part of the first title.
        with path.open(encoding="utf-8-sig", newline="") as stream:
            head = stream.readline(_LONGEST_LINE)
            titles = _titles(path, head)
            lines = csv.reader(stream, delimiter=_separator(head), strict=True)
            return checked(_numbered(lines, len(titles)), purposes, kind)
    except OSError as error:
        raise SourceError(
            "source_missing", f"Cannot read '{path}': {error.strerror}. Name a CSV file."
        ) from None
    except (UnicodeDecodeError, csv.Error):
        raise SourceError(
            "file_malformed",
            f"'{path}' cannot be read as CSV in UTF-8. Nothing was taken from it. Save it as CSV "
            f"with the columns {', '.join(COLUMNS[:3])} and, if known, time.",
        ) from None


def _separator(head: str) -> str:
    return max(_SEPARATORS, key=head.count)


def _titles(path: Path, head: str) -> list[str]:
    titles = [
        title.strip().strip('"').lower() for title in head.rstrip("\r\n").split(_separator(head))
    ]
    if tuple(titles) not in (COLUMNS[:3], COLUMNS):
        raise SourceError(
            "file_malformed",
            f"The first line of '{path}' must name the columns {','.join(COLUMNS[:3])} and, if "
            "known, time, in this order. A line says yes or no: 1042,research,yes.",
        )
    return titles


def _numbered(lines: Iterator[list[str]], width: int) -> Iterator[tuple[str, list[str]]]:
    """Lines with their numbers, of which the header has the first."""
    for cells in lines:
        if cells:
            line = f"line {getattr(lines, 'line_num') + 1}"  # noqa: B009  of a csv.reader
            yield line, cells if len(cells) == width else []


def checked(
    lines: Iterable[tuple[str, Sequence[str]]], purposes: Sequence[str], kind: Kind
) -> list[ConsentChange]:
    """Read labelled lines as changes; refuse all of them, with the bad labels, if one is bad."""
    accepted: dict[tuple[str, str], ConsentChange] = {}
    bad: list[str] = []
    today = current_time()
    for line, cells in lines:
        change = _read_change(cells, purposes, kind, today)
        if isinstance(change, ConsentChange):
            before = accepted.setdefault((change.purpose, change.person), change)
            # The order of lines decides nothing, so a yes and a no are a contradiction.
            if before.agreed != change.agreed:
                bad.append(f"{line}: the same person says yes and no to {quoted(change.purpose)}")
        else:
            bad.append(f"{line}: {change}")
    if bad:
        unlisted = f"; and {len(bad) - _LISTED} more" if len(bad) > _LISTED else ""
        raise ParameterError(
            "file_malformed",
            f"{len(bad)} line{'s' * (len(bad) > 1)} cannot be taken, so nothing was changed: "
            f"{'; '.join(islice(bad, _LISTED))}{unlisted}. Mend them and import it again.",
        )
    return list(accepted.values())


def _read_change(
    cells: Sequence[str], purposes: Sequence[str], kind: Kind, today: str
) -> ConsentChange | str:
    """The change that a line contains, or its mistake in words that never quote the person."""
    if not cells:
        return f"it must have {len(COLUMNS) - 1} values, or {len(COLUMNS)} with a time"
    person, purpose, answer, *times = cells
    # Faults never quote the person: error texts end up in logs and on screens.
    if fault := fault_of(person, kind):
        return fault
    if purpose not in purposes:
        return f"there is no purpose {quoted(purpose)}; {suggestion(purpose, purposes)}".rstrip(".")
    if answer not in ANSWERS:
        return f"the answer must be yes or no, not {quoted(answer)}"
    if not times or not times[0]:
        return ConsentChange(purpose, person, ANSWERS[answer], today)
    time = moment(times[0])
    if time is None or time > today:
        return "the time must be one such as 2026-03-01 or 2026-03-01T09:30:00Z, and not to come"
    return ConsentChange(purpose, person, ANSWERS[answer], time, dated=True)


def moment(text: str) -> str | None:
    """A time in the form that is stored with a change, or None if it is none; UTC by default."""
    try:
        parsed = datetime.fromisoformat(text)
        return (
            parsed.replace(tzinfo=parsed.tzinfo or UTC)
            .astimezone(UTC)
            .isoformat(timespec="seconds")
        )
    except (ValueError, OverflowError):
        return None


_CHANGES = "a list of changes, each such as ('7', 'care', True, None)"


def no_registry(name: str | None, known: Sequence[str]) -> ParameterError:
    """The error for a registry that does not exist, or that must be named among several."""
    if name and known:
        message = f"There is no registry of consent for {quoted(name)}; {suggestion(name, known)}"
    elif known:
        message = (
            f"Say which population is meant: {option('population', metavar='NAME')}, one of "
            f"{', '.join(known)}."
        )
    else:
        message = (
            f"No data set of this vault asks for consent. Add one with {option('purposes')}, or "
            "write "
            'purposes = ["care", "research"] under its [datasets.NAME] in vault.toml.'
        )
    return ParameterError("registry_unknown", message)


class AnyRegistry(Shown, ABC):
    """The consent registry of a population, of a local vault or of one behind a server."""

    def __init__(self, population: str, purposes: tuple[str, ...], kind: Kind) -> None:
        self.population, self.purposes = population, purposes
        self.kind = kind
        """The kind of the unit's column: people are integers or texts."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The number of entries of the log. The ledger notes it with every answer."""

    @abstractmethod
    def to_csv(self) -> str:
        """The present consent of all people, as a CSV file that `import_file` reads."""

    @abstractmethod
    def show(self, person: str | int | None = None) -> dict[str, Any]:
        """Count the yes and no of each purpose, or show one person's consent and its history.

        Parameters
        ----------
        person
            The person in the form of the unit's column; None for the counts of all.
        """

    @abstractmethod
    def _record(self, changes: Sequence[ConsentChange], operator: str) -> dict[str, Any]:
        """Write changes into the log, all or none."""

    @property
    @abstractmethod
    def _in_use(self) -> Iterable[Path]:
        """Files of the vault that an export must not overwrite."""

    def give(
        self, person: str | int, purpose: str, *, time: str | None = None, operator: str = OWNER
    ) -> dict[str, Any]:
        """Record that a person agrees to a purpose; the next fresh answer counts them.

        Parameters
        ----------
        person
            The person in the form of the unit's column.
        purpose
            One of the registry's purposes.
        time
            When they agreed, such as "2026-03-01"; None for now.
        operator
            The name under which the log records the change.

        Returns
        -------
        dict
            The population, the numbers of changed, unchanged and older answers, and the version.
            An answer is older if a later no stands: an old yes does not undo a new no.

        Raises
        ------
        ParameterError
            `choice_unknown`, `person_id_invalid` or `time_malformed`.
        """
        return self._record_answer([person], [self._purpose(purpose)], True, time, operator)

    def withdraw(
        self,
        person: str | int,
        purpose: str | None = None,
        *,
        time: str | None = None,
        operator: str = OWNER,
    ) -> dict[str, Any]:
        """Record that a person withdraws consent, for all purposes unless one is named.

        Parameters and result are those of `give`.
        """
        purposes = self.purposes if purpose is None else [self._purpose(purpose)]
        return self._record_answer([person], purposes, False, time, operator)

    def change(
        self,
        changes: Iterable[tuple[str | int, str, bool, str | None]],
        *,
        operator: str = OWNER,
    ) -> dict[str, Any]:
        """Record many changes at once, all or none.

        Parameters
        ----------
        changes
            Tuples of person, purpose, True or False, and a time or None.
        operator
            The name under which the log records the changes.

        Returns
        -------
        dict
            As `give` returns it.
        """
        lines = (
            (f"change {number}", _line(number, change))
            for number, change in enumerate(
                arguments.require(changes, "changes", Iterable, _CHANGES), 1
            )
        )
        return self._record(checked(lines, self.purposes, self.kind), operator)

    def import_file(self, path: str | Path, *, operator: str = OWNER) -> dict[str, Any]:
        """Record the changes of a CSV file, all or none.

        The header is `person,purpose,agreed` or `person,purpose,agreed,time`; `agreed` is yes or
        no. The result is that of `give`.
        """
        changes = read_changes(arguments.path(path, "path"), self.purposes, self.kind)
        return self._record(changes, operator)

    def export(self, path: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
        """Write the present consent of all people as a CSV file, readable by its owner alone."""
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
                "choice_unknown",
                f"Nobody of {quoted(self.population)} is asked to agree to {quoted(purpose)}; "
                + suggestion(purpose, self.purposes),
                parameter="purpose",
            )
        return purpose

    def _record_answer(
        self,
        people: Iterable[object],
        purposes: Sequence[str],
        agreed: bool,
        time: str | None,
        operator: str,
    ) -> dict[str, Any]:
        stated_time, today = None, current_time()
        if time is not None:
            stated_time = moment(arguments.text(time, "time"))
            # A time to come would outrank every withdrawal until then.
            if stated_time is None or stated_time > today:
                raise ParameterError(
                    "time_malformed",
                    "The time must be one such as 2026-03-01 or 2026-03-01T09:30:00Z, and not to "
                    f"come; given: {quoted(time)}. Leave it out for now.",
                )
        written_people = [written(person, self.kind) for person in people]
        changes = [
            ConsentChange(
                purpose, person, agreed, stated_time or today, dated=stated_time is not None
            )
            for person in written_people
            for purpose in purposes
        ]
        return self._record(changes, operator)

    def _card(self) -> Card:
        summary = self.show()
        rows = [
            (purpose_name, counts["yes"], counts["no"])
            for purpose_name, counts in summary["purposes"].items()
        ]
        line = ", ".join(f"{purpose} {yes} yes {no} no" for purpose, yes, no in rows)
        table = CardTable(("Purpose", "Yes", "No"), rows)
        return Card(f"{self.population}: {line}", {"Version": summary["version"]}, table)


def _line(number: int, change: object) -> tuple[str, str, str, str]:
    """A change of `AnyRegistry.change` as the cells of a CSV line, which `checked` then reads."""
    match change:
        case [str() | int() as who, str() as what, agreed, str() | None as time]:
            answers = [answer for answer, means_agreed in ANSWERS.items() if means_agreed is agreed]
            return str(who), what, answers[0] if answers else arguments.shown(agreed), time or ""
    raise ParameterError(
        "parameter_type_wrong",
        f"changes must be {_CHANGES}, but change {number} is {arguments.shown(change)}.",
        parameter="changes",
    )


class Consents:
    """All consent registries of a vault, and the log that they share, opened at its first use."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._log: ConsentLog | None = None
        self._lock = threading.Lock()

    @property
    def log(self) -> ConsentLog:
        """The log; a new empty one where there is none, in which nobody has agreed."""
        # Requests of a server open it in several threads at once; a second log would be closed by
        # nobody.
        with self._lock:
            if self._log is None:
                self._log = open_log(self.config)
            return self._log

    @property
    def populations(self) -> tuple[str, ...]:
        """The populations whose data sets list purposes."""
        return tuple(sorted(purposes_of(self.config)))

    def register(self, population: str) -> LazyRegistry:
        """The registry as queries use it; the log is not opened yet."""
        kind = check_person_kinds(person_kinds(self.config, population))
        return LazyRegistry(lambda: self.log, population, kind)

    def registry(self, name: str | None = None) -> ConsentRegistry:
        """A registry by population or data set; without a name the only one of the vault."""
        known = purposes_of(self.config)
        population = arguments.maybe_text(name, "name")
        held = self.config.datasets.get(population) if population is not None else None
        if isinstance(held, PrivateSet) and held.purposes:
            # A data set may stand for its population: people give consent, not tables.
            population = held.population
        if population is None and len(known) == 1:
            [population] = known
        if population not in known:
            raise no_registry(population, sorted(known))
        kind = check_person_kinds(person_kinds(self.config, population))
        return ConsentRegistry(self, population, known[population], kind)

    def acknowledge(self, *, operator: str) -> int | None:
        """Accept a log that lost changes, by voiding every yes in it.

        Returns the number of voided answers, or None if nothing was lost.
        """
        check_name(arguments.text(operator, "operator"), "operator")
        return self.log.acknowledge(operator=operator)

    def verify(self) -> dict[str, Any]:
        """Check every entry and change; raises `consent_damaged` if one is missing or altered."""
        position = self.log.verify()
        return {"version": position.seq, "head": position.hash}

    def close(self) -> None:
        """Close the log."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None


class ConsentRegistry(AnyRegistry):
    """The consent registry of a population in a local vault."""

    def __init__(
        self, consents: Consents, population: str, purposes: tuple[str, ...], kind: Kind
    ) -> None:
        super().__init__(population, purposes, kind)
        self._consents = consents

    @property
    def version(self) -> int:
        """The number of entries of the log. The ledger notes it with every answer."""
        return self._log.check().seq

    def to_csv(self) -> str:
        """The present consent of all people, as a CSV file that `import_file` reads."""
        answers = {agreed: answer for answer, agreed in ANSWERS.items()}
        stream = StringIO()
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(COLUMNS)
        lines.writerows(
            (person, purpose, answers[agreed], time)
            for person, purpose, agreed, time in self._log.rows(self.population)
        )
        return stream.getvalue()

    def show(self, person: str | int | None = None) -> dict[str, Any]:
        """Count the yes and no of each purpose, or show one person's consent and its history."""
        summary: dict[str, Any] = {"population": self.population, "version": self.version}
        if person is None:
            counts = self._log.counts(self.population)
            summary["purposes"] = {
                purpose: {
                    answer: counts.get((purpose, agreed), 0) for answer, agreed in ANSWERS.items()
                }
                for purpose in self.purposes
            }
            return summary
        history = self._log.history(self.population, written(person, self.kind))
        answers = {agreed: answer for answer, agreed in ANSWERS.items()}
        standing = {purpose: answers[agreed] for _, purpose, agreed, _ in history}
        summary["purposes"] = {
            purpose: standing.get(purpose, "never asked") for purpose in self.purposes
        }
        summary["history"] = [
            {"version": version, "purpose": purpose, "agreed": answers[agreed], "time": time}
            for version, purpose, agreed, time in history
        ]
        return summary

    @property
    def _log(self) -> ConsentLog:
        return self._consents.log

    @property
    def _in_use(self) -> Iterable[Path]:
        return vault_files(self._consents.config.folder)

    def _record(self, changes: Sequence[ConsentChange], operator: str) -> dict[str, Any]:
        check_name(arguments.text(operator, "operator"), "operator")
        recorded = self._log.record(self.population, changes, operator=operator)
        return {
            "population": self.population,
            "changed": recorded.changed,
            "unchanged": len(changes) - recorded.changed - recorded.older,
            "older": recorded.older,
            "version": recorded.version,
        }


def purposes_of(config: Config) -> dict[str, tuple[str, ...]]:
    """By population, the purposes of all its data sets."""
    asked: dict[str, dict[str, None]] = {}
    for held in config.datasets.values():
        if isinstance(held, PrivateSet) and held.purposes:
            asked.setdefault(held.population, {}).update(dict.fromkeys(held.purposes))
    return {population: tuple(purposes) for population, purposes in asked.items()}


def open_log(config: Config) -> ConsentLog:
    """Open the consent log of a vault: a SQLite file in its folder, or the ledger's PostgreSQL."""
    from sfumato.privacy.ledger.commit import OutsideHead
    from sfumato.privacy.ledger.failure import closed_on_failure
    from sfumato.vault.consent.log import ConsentLog  # SQLAlchemy takes long to import
    from sfumato.vault.side_database import side_engine

    tell_operator = partial(note_failure, config.folder, "ledger")
    with closed_on_failure(tell_operator):
        # A log that is missing or unfinished begins anew. That is safe: nobody has agreed in it.
        engine, dialect = side_engine(config, CONSENT)
        head = OutsideHead(consent_head(config.head))
        return ConsentLog(engine, dialect, head, tell_operator=tell_operator)
