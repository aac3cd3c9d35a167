"""Consent: which people of a population agree to which purpose."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sfumato.arguments import text
from sfumato.data.schema.names import count
from sfumato.operations.fields import (
    FIELD_TYPES,
    FieldType,
    Name,
    Request,
    arg,
    is_short_integer,
)
from sfumato.operations.operation import (
    OWNERS,
    Context,
    Result,
    operation,
    print_table,
)

if TYPE_CHECKING:
    from sfumato.vault.consent.registry import ConsentRegistry

PAGE = "/console/owner/consent"
CSV = "text/csv"
MOST_CHANGES = 10_000
"""The number of changes that one request may have."""


class PersonId(str):
    """A person as the data writes them: a text, or a whole number."""

    __slots__ = ()


def _read_person(value: object, name: str) -> str:
    if isinstance(value, Decimal) and is_short_integer(value):
        value = int(value)  # JSON may write a whole number as 7.0; the data holds 7
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return text(value, name)


FIELD_TYPES[PersonId] = FieldType(
    "PERSON", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, _read_person
)


class AnswerCounts(msgspec.Struct):
    """The number of people who agree to a purpose, and of those who do not."""

    yes: int
    no: int


class RegistryRecord(Result):
    """A registry of consent: how many people agree to each purpose."""

    population: str
    version: int
    purposes: dict[str, AnswerCounts]
    person: str
    """How the data writes people: 'integer' or 'text'."""


class RegistryList(Result):
    """Registries by population."""

    registries: tuple[RegistryRecord, ...]

    def show(self) -> None:
        """Print a table."""
        rows = [
            (record.population, purpose, str(counts.yes), str(counts.no))
            for record in self.registries
            for purpose, counts in record.purposes.items()
        ]
        titles = ("Population", "Purpose", "Yes", "No")
        print_table(titles, rows, "No data set of this vault asks for consent.")


class PastAnswer(msgspec.Struct):
    """An earlier answer of a person: 'yes' or 'no' to a purpose."""

    version: int
    purpose: str
    agreed: str
    time: str


class Standing(Result):
    """The number of people who agree to each purpose; or the answers of one person."""

    population: str
    version: int
    purposes: dict[str, AnswerCounts | str]
    """For one person 'yes', 'no' or 'never asked'."""
    history: list[PastAnswer] | UnsetType = UNSET
    """The earlier answers; only for one person."""

    def show(self) -> None:
        """Print a line for each purpose, and for each earlier answer of the person."""
        from sfumato.report.terminal import printable

        lines = [f"Registry of '{self.population}', version {self.version}"]
        for purpose, answer in self.purposes.items():
            counts = answer if isinstance(answer, str) else f"{answer.yes} yes, {answer.no} no"
            lines.append(f"  {purpose}: {counts}")
        lines += [
            f"  version {past.version}, {past.time}: {past.agreed} to {past.purpose}"
            for past in self.history or ()
        ]
        print("\n".join(str(printable(line)) for line in lines))  # noqa: T201


class Changed(Result):
    """The effect of a change of a registry."""

    population: str
    changed: int
    unchanged: int
    older: int
    """Yeses that are older than a no that stands, which have no effect."""
    version: int

    def show(self) -> None:
        """Print one sentence, and a second one about what had no effect."""
        older = (
            f" {count(self.older, 'yes', 'yeses')} older than a no that stands: passed over."
            if self.older
            else ""
        )
        print(  # noqa: T201
            f"{count(self.changed, 'change')}, {self.unchanged} as before. The registry of "
            f"'{self.population}' is at version {self.version}.{older}"
        )


class ConsentFile(Result):
    """The present consent of a registry, as a CSV that can be imported."""

    media: ClassVar[str] = CSV
    lines: str
    population: str = ""

    @property
    def file_name(self) -> str:
        """The name of the file names the registry."""
        return f"consent-{self.population}.csv"

    def to_text(self) -> str:
        """The lines."""
        return self.lines

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Take the lines."""
        return cls(text)

    def file(self, ending: str, address: str = "") -> tuple[str, bytes]:  # noqa: ARG002
        """The lines, whatever the ending."""
        return CSV, self.lines.encode()

    def print(self, *, as_json: bool) -> None:  # noqa: ARG002  CSV either way
        """Print the lines."""
        print(self.lines, end="")  # noqa: T201

    def save(self, path: Path, *, overwrite: bool, private: bool) -> dict[str, Any]:
        """Write the CSV; a person and a purpose are one line."""
        written = super().save(path, overwrite=overwrite, private=private)
        return {"population": self.population, "rows": self.lines.count("\n") - 1, **written}


class ConsentVerified(Result):
    """The result of checking every change."""

    version: int
    head: str

    def show(self) -> None:
        """Print one sentence."""
        print(self.in_words)  # noqa: T201

    @property
    def in_words(self) -> str:
        """The version and the head in one sentence."""
        return f"The registry is whole, at version {self.version}. Head: {self.head}"


class ConsentAcknowledged(ConsentVerified):
    """A registry whose owner accepted that changes were lost."""

    voided: int | None
    """The number of yeses that are void from now on; None where nothing was lost."""

    @property
    def in_words(self) -> str:
        """What was voided, and where the registry stands."""
        if self.voided is None:
            return f"Nothing was lost, so nothing was changed. {super().in_words}"
        return f"{count(self.voided, 'yes', 'yeses')} void from now on. {super().in_words}"


class Change(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The answer of one person to one purpose."""

    person: int | str
    purpose: Name
    agreed: bool
    time: Annotated[str, Meta(max_length=40)] | None = None


_WHOSE = arg("The population, if there are several registries.")
_TIME = arg("When the person said so; by default now.", metavar="TIME")
_WHO = arg("The person, as the data has them.", positional=True)
_PURPOSE = "PURPOSE"


class ListConsent(Request):
    """List the registries of consent: how many people agree to each purpose."""


class ImportConsent(Request):
    """Import consent from a file: all lines or none.

    The file is a CSV with the columns person, purpose, agreed (yes or no) and perhaps time.
    """

    file: Annotated[str, arg("The CSV file.", metavar="FILE", positional=True)]
    population: Annotated[Name | None, _WHOSE] = None


class GiveConsent(Request):
    """Record that a person agrees to a purpose, from the next new answer on."""

    person: Annotated[PersonId, _WHO]
    purpose: Annotated[Name, arg("The purpose.", metavar=_PURPOSE)]
    time: Annotated[str | None, _TIME] = None
    population: Annotated[Name | None, _WHOSE] = None


class WithdrawConsent(Request):
    """Record that a person withdraws consent, from one purpose or from all."""

    person: Annotated[PersonId, _WHO]
    purpose: Annotated[Name | None, arg("Only this purpose.", metavar=_PURPOSE)] = None
    time: Annotated[str | None, _TIME] = None
    population: Annotated[Name | None, _WHOSE] = None


class ChangeConsent(Request):
    """Record what people agree to or withdraw: all changes or none."""

    changes: Annotated[
        Annotated[list[Change], Meta(min_length=1, max_length=MOST_CHANGES)],
        arg("Who agrees (true) or withdraws (false), from which purpose, and when."),
    ]
    population: Annotated[Name | None, _WHOSE] = None


class ShowConsent(Request):
    """Show how many people agree; or the consent of one person, with its history."""

    person: Annotated[PersonId | None, _WHO] = None
    population: Annotated[Name | None, _WHOSE] = None


class ExportConsent(Request):
    """Export all consent as a CSV file that can be imported."""

    population: Annotated[Name | None, _WHOSE] = None


class VerifyConsent(Request):
    """Check every change against the one before it."""


class AcknowledgeConsentLoss(Request):
    """Accept that changes were lost, as in a restored backup; voids every yes."""


@operation(
    "consent list", allowed=OWNERS, examples=[{}], method="GET", path="/admin/consent", page=PAGE
)
def list_consent(context: Context, request: ListConsent) -> RegistryList:  # noqa: ARG001
    """Count the answers of every registry."""
    consents = context.vault.consent_registries
    registries = [consents.registry(population) for population in consents.populations]
    # The kind of person ids, so that a client writes 7 and "7" as the data does.
    records = [{**registry.show(), "person": str(registry.kind)} for registry in registries]
    return RegistryList.from_json({"registries": records})


@operation(
    "consent import",
    allowed=OWNERS,
    examples=[{"file": "agreed.csv"}],
    doors=("command",),
    recorded=True,
)
def import_consent(context: Context, request: ImportConsent) -> Changed:
    """Check the whole file, then record it in one transaction."""
    registry = _registry(context, request.population)
    return Changed.from_json(registry.import_file(request.file, operator=context.operator))


# HTTP records one answer in the same way as many, by 'consent change'.


@operation(
    "consent give",
    allowed=OWNERS,
    examples=[{"person": "1042", "purpose": "care"}],
    doors=("command",),
    recorded=True,
)
def give_consent(context: Context, request: GiveConsent) -> Changed:
    """Write one yes into the log."""
    registry = _registry(context, request.population)
    changed = registry.give(
        request.person, request.purpose, time=request.time, operator=context.operator
    )
    return Changed.from_json(changed)


@operation(
    "consent withdraw",
    allowed=OWNERS,
    examples=[{"person": "1042"}],
    doors=("command",),
    recorded=True,
)
def withdraw_consent(context: Context, request: WithdrawConsent) -> Changed:
    """Write a no to each purpose into the log."""
    registry = _registry(context, request.population)
    changed = registry.withdraw(
        request.person, request.purpose, time=request.time, operator=context.operator
    )
    return Changed.from_json(changed)


@operation(
    "consent change",
    allowed=OWNERS,
    examples=[
        {
            "population": "visits",
            "changes": [{"person": 1042, "purpose": "research", "agreed": False}],
        }
    ],
    doors=("http",),
    path="/admin/consent/{population}/changes",
    recorded=True,
)
def change_consent(context: Context, request: ChangeConsent) -> Changed:
    """Write all answers into the log in one transaction."""
    registry = _registry(context, request.population)
    # One transaction: of a form that fails halfway nothing must be recorded.
    changes = [msgspec.structs.astuple(change) for change in request.changes]
    return Changed.from_json(registry.change(changes, operator=context.operator))


@operation(
    "consent show",
    allowed=OWNERS,
    examples=[{"person": "1042", "population": "visits"}, {}],
    # The body names the person: addresses end up in logs.
    path="/admin/consent/{population}/person",
    page=PAGE,
)
def show_consent(context: Context, request: ShowConsent) -> Standing:
    """Read the log."""
    return Standing.from_json(_registry(context, request.population).show(request.person))


@operation(
    "consent export",
    allowed=OWNERS,
    examples=[{"population": "visits"}],
    method="GET",
    path="/admin/consent/{population}/file",
    formats={"csv": CSV},
    page=PAGE,
)
def export_consent(context: Context, request: ExportConsent) -> ConsentFile:
    """Read what stands now; the history stays in the log."""
    registry = _registry(context, request.population)
    return ConsentFile(registry.to_csv(), registry.population)


# The operations below concern the machine that holds the vault, so only its command has them.


@operation("consent verify", allowed=OWNERS, examples=[{}], doors=("command",))
def verify_consent(context: Context, request: VerifyConsent) -> ConsentVerified:  # noqa: ARG001
    """Check every change; raises if the log is not whole."""
    return ConsentVerified.from_json(context.vault.consent_registries.verify())


@operation("consent acknowledge", allowed=OWNERS, examples=[{}], doors=("command",), recorded=True)
def acknowledge_consent_loss(
    context: Context,
    request: AcknowledgeConsentLoss,  # noqa: ARG001
) -> ConsentAcknowledged:
    """Void every yes if changes were lost: a lost change may have been a withdrawal."""
    consents = context.vault.consent_registries
    voided = consents.acknowledge(operator=context.operator)
    return ConsentAcknowledged.from_json({**consents.verify(), "voided": voided})


def _registry(context: Context, population: str | None) -> ConsentRegistry:
    registry: ConsentRegistry = context.vault.consent_registries.registry(population)
    return registry
