"""What a release must withstand before a command writes it: flags, and what they ask for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli.options import option
from sfumato.errors import OutputError
from sfumato.report.progress import progress

if TYPE_CHECKING:
    from sfumato.anonymize.result import Anonymized
    from sfumato.attack.requirements import Requirement
    from sfumato.release.open_table import Table
    from sfumato.release.release import Release
    from sfumato.vault.release_attacks import ReleaseGate

GATE = "Attacks before the release"
"""The topic under which help tells what a release must withstand."""


def _gate(metavar: str | None, told: str, *flags: str) -> Any:
    return option(metavar, told, *flags, rich_help_panel=GATE)


Require = Annotated[
    list[str] | None,
    _gate("CONDITION", "Refuse the release unless this holds, such as 'link<0.05'; repeatable."),
]
PublishFindings = Annotated[
    bool,
    _gate(
        None,
        "Publish the attack results with the release, although they reveal facts about the "
        "original.",
        "--publish-findings",
    ),
]
NoAttacks = Annotated[
    bool, _gate(None, "Do not attack the release before writing it.", "--no-attacks")
]
OwnerReport = Annotated[
    Path | None,
    _gate(
        "FILE.html",
        "Attack the release, and write an HTML report of the results for the owner.",
        "--owner-report",
    ),
]


@dataclass(frozen=True)
class TableGate:
    """What attacks a table that was decided on, before anything of it is written."""

    required: tuple[Requirement, ...]
    publish: bool
    attacks: bool

    def check(self, table: Table) -> None:
        """Refuse, before a search, what cannot be shown of such a table."""
        from sfumato.attack.requirements import check_fitting

        check_fitting(self.required, table.schema)

    def tried(self, decided: Anonymized) -> Anonymized:
        """The same with what attacks find in it; refused where that is more than is allowed."""
        from sfumato.attack.release_check import attacked

        if not self.attacks:
            return decided
        with progress("Attacking it"):
            return attacked(decided, self.required, publish=self.publish)


def table_gate(require: list[str] | None, *, no_attacks: bool, publish: bool) -> TableGate:
    """The gate of a table by its flags."""
    from sfumato.attack.requirements import attacks_wanted, read_requirements

    required = read_requirements(require or [])
    attacks_wanted(not no_attacks, required, publish=publish, off="--no-attacks")
    return TableGate(required, publish, not no_attacks)


def paid_gate(given: dict[str, Any], owners_page: Path | None) -> ReleaseGate | None:
    """The same for what is charged, where its owner asks for it."""
    publish, require = given.pop("publish_findings", False), given.pop("require", None) or []
    if not (publish or require or owners_page):
        return None
    from sfumato.vault.release_attacks import ReleaseGate

    return ReleaseGate.asked(require, publish=publish)


def kept_in_words(release: Release, kept: list[Path | None]) -> str:
    """What the owner must not send; and that findings travel, where they do."""
    names = [str(one) for one in kept if one is not None]
    told = "it tells" if len(names) == 1 else "they tell"
    words = f"Keep {' and '.join(names)}: {told} of the original."
    if release.guarantee.parameters.get("attacks") is None:
        return words
    return (
        f"{words} What attacks found was computed from the original too, and travels with the "
        "release: --publish-findings asked for that."
    )


def check_kept(
    places: list[Path], page: Path | None, *, overwrite: bool, kept: tuple[Path, ...]
) -> None:
    """Refuse, before anything is spent, where what the owner keeps could not be written."""
    from sfumato.filesystem import check_target
    from sfumato.release.files_in_use import vault_files_around
    from sfumato.release.sidecar import holder_file

    holder = holder_file(places[0])
    for one in (holder, *([] if page is None else [page])):
        check_target(one, overwrite=overwrite, kept=(*kept, *vault_files_around(one)))
    if page is not None and os.path.realpath(page) in map(os.path.realpath, [*places, holder]):
        raise OutputError(
            "outputs_same",
            f"Cannot write the owner's page to '{page}': something else of the release goes there. "
            "Choose another name.",
        )
