"""Releases: list, show, save and share the releases that jobs of a vault have produced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from msgspec import UNSET, UnsetType

from sfumato.errors import ParameterError, option
from sfumato.operations.fields import Name, Request, Words, arg
from sfumato.operations.operation import (
    OWNERS,
    Context,
    Permission,
    Result,
    operation,
    print_table,
)

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "/console/releases"
ANSWER = "application/vnd.sfumato.answer"
"""The media type of a whole answer with its cost; `sf.connect` reads it."""
FORMATS = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "arrow": "application/vnd.apache.arrow.file",
    "geojson": "application/geo+json",
    "html": "text/html",
    "zip": "application/zip",
}
READERS = Permission("query")
"""The vault shows a principal its own releases and those opened to it, and an owner all."""
_RELEASE = arg("The release.", metavar="RELEASE", positional=True)


class ReleaseRecord(Result):
    """A release without its content."""

    release: str
    family: str
    dataset: str
    made: str | None
    own: bool
    """Whether it was made for the caller."""
    principal: str | UnsetType = UNSET
    """The principal whom it was made for. Readers must not learn it; only owners and it do."""
    opened_to: list[str] | UnsetType = UNSET
    """Shown to owners."""


class ReleaseFacts(ReleaseRecord, kw_only=True):
    """A release with its guarantee, its errors and its files."""

    guarantee: str
    error: dict[str, Any] | None
    tables: dict[str, dict[str, Any]]
    """The number of rows and the columns of each table."""
    files: list[str]
    receipt: str | UnsetType | None = UNSET
    """Shown only to the principal whom it was made for."""

    def described(self) -> dict[str, Any]:
        """The facts, as a stored release of this machine gives them."""
        return self.to_json()


class ReleaseList(Result):
    """Releases, the newest first."""

    releases: tuple[ReleaseRecord, ...]

    def show(self) -> None:
        """Print a table."""
        rows = [
            (
                record.release,
                record.family,
                record.dataset,
                record.principal or "",
                record.made or "",
                ", ".join(record.opened_to or ()),
            )
            for record in self.releases
        ]
        titles = ("Release", "What", "Data set", "Made for", "Made", "Open to")
        print_table(titles, rows, "There are no releases.", unbroken="Release")


class StoredRelease(Result):
    """A release that can be described, sent as an answer or saved: each reads it anew."""

    release: Any
    """A `LocalRelease`; from a server its `ReleaseFacts`."""

    def to_json(self) -> dict[str, Any]:
        """The facts."""
        facts: dict[str, Any] = self.release.described()
        return facts

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read the facts."""
        return cls(ReleaseFacts.from_json(data))

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The schema of the facts."""
        return ReleaseFacts.json_schema()

    def in_form(self, media: str) -> bytes | None:
        """The whole answer, only for the principal whom it was made for.

        It holds the cost and the receipt. An anonymized table is not an answer.
        """
        from sfumato.vault.answer import packed
        from sfumato.vault.jobs.anonymize_job import ANONYMIZE

        if media != ANSWER or not self.release.is_own or self.release.family == ANONYMIZE:
            return None
        answer = self.release.answer()
        return packed(answer, paid=answer.charged)

    def show(self) -> None:
        """Print the release in a few lines."""
        facts = ReleaseFacts.from_json(self.to_json())
        sizes = [f"{name} ({table['rows']} rows)" for name, table in facts.tables.items()]
        lines = [
            f"{facts.release}: {facts.family} of {facts.dataset}",
            f"Made for: {facts.principal}, {facts.made}",
            f"Guarantee: {facts.guarantee}",
            f"Tables: {', '.join(sizes)}",
            f"Files: {', '.join(facts.files)}",
            f"Open to: {', '.join(facts.opened_to or ()) or 'nobody else'}",
        ]
        print("\n".join(lines))  # noqa: T201


class SavedRelease(Result):
    """A release that the command writes as files."""

    release: Any
    """A `LocalRelease`."""

    def save(self, path: Path, *, overwrite: bool, private: bool) -> dict[str, Any]:  # noqa: ARG002
        """Write the files: for some endings one for each table, and a side-car."""
        written = self.release.save(path, overwrite=overwrite)
        return {"written": [str(file) for file in written]}

    def print(self, *, as_json: bool) -> None:  # noqa: ARG002
        """Refuse to print files."""
        raise ParameterError(
            "parameter_missing",
            f"Give {option('out', metavar='FILE')}: a release is saved as a file.",
            parameter="out",
        )


class OpenedRelease(ReleaseRecord):
    """A release whose readers were chosen."""

    def show(self) -> None:
        """Print the readers."""
        readers = ", ".join(self.opened_to or ()) or "nobody else"
        print(f"{self.release} is open to {readers}.")  # noqa: T201


class ListReleases(Request):
    """List your releases and those that are shared with you."""


class ShowRelease(Request):
    """Show a release: its guarantee, its errors, and its files."""

    release: Annotated[Name, _RELEASE]


class SaveRelease(Request):
    """Save a release as a file, by its ending; a .zip has all of it."""

    release: Annotated[Name, _RELEASE]


class OpenRelease(Request):
    """Set the readers of a release; all others lose access.

    Readers get it without the receipt and without the name of the principal whom it was made for.
    """

    release: Annotated[Name, _RELEASE]
    to: Annotated[Words, arg("Principals that may have it; 'public' for all.")]


class ShutRelease(Request):
    """Stop sharing a release; copies that were downloaded stay."""

    release: Annotated[Name, _RELEASE]


@operation(
    "release list",
    allowed=READERS,
    examples=[{}],
    method="GET",
    path="/releases",
    whole_vault=True,
    page=PAGE,
)
def list_releases(context: Context, request: ListReleases) -> ReleaseList:  # noqa: ARG001
    """Read the newest releases."""
    listed = context.vault.releases.list(principal=context.principal)
    return ReleaseList.from_json({"releases": [release.to_json() for release in listed]})


@operation(
    "release show",
    allowed=READERS,
    examples=[{"release": "5dc893f2e527a768"}],
    method="GET",
    path="/releases/{release}",
    forms=(ANSWER,),
    refusals=(403,),
    whole_vault=True,
    page=PAGE,
)
def show_release(context: Context, request: ShowRelease) -> StoredRelease:
    """Find a release; one that the principal may not download is unknown, as if there were none."""
    releases = context.vault.releases
    return StoredRelease(releases.get(request.release, principal=context.principal))


@operation(
    "release save",
    allowed=OWNERS,
    examples=[{"release": "5dc893f2e527a768"}],
    doors=("command",),  # HTTP has a route for each file of a release
    formats=FORMATS,
    whole_vault=True,
)
def save_release(context: Context, request: SaveRelease) -> SavedRelease:
    """Find a release."""
    return SavedRelease(context.vault.releases.get(request.release))


@operation(
    "release open",
    allowed=OWNERS,
    examples=[{"release": "5dc893f2e527a768", "to": ["ann"]}],
    path="/admin/releases/{release}/open",
    recorded=True,
    refusals=(403,),
    whole_vault=True,
    page="/console/owner/releases",
)
def open_release(context: Context, request: OpenRelease) -> OpenedRelease:
    """Write the readers into the ledger."""
    return _opened(context, request.release, request.to)


@operation(
    "release shut",
    allowed=OWNERS,
    examples=[{"release": "5dc893f2e527a768"}],
    doors=("command",),  # over HTTP, open it to an empty list
    recorded=True,
    whole_vault=True,
)
def shut_release(context: Context, request: ShutRelease) -> OpenedRelease:
    """Take the readers out of the ledger."""
    return _opened(context, request.release, ())


def _opened(context: Context, release: str, to: tuple[str, ...]) -> OpenedRelease:
    releases = context.vault.releases
    # Read again afterwards, so that the record shows what the ledger holds now.
    releases.open_to(release, to, operator=context.operator)
    return OpenedRelease.from_json(releases.get(release, principal=context.principal).to_json())
