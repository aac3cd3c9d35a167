"""Attacks on a release before a command writes it: their options and their conditions."""

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
"""The topic of these options in help."""


def _gate(metavar: str | None, description: str, *flags: str) -> Any:
    return option(metavar, description, *flags, rich_help_panel=GATE)


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
    """The attacks on an anonymized table, before anything of it is written."""

    required: tuple[Requirement, ...]
    publish: bool
    attacks: bool

    def check(self, table: Table) -> None:
        """Refuse, before the search, conditions that the attacks cannot test on such a table."""
        from sfumato.attack.requirements import check_fitting

        check_fitting(self.required, table.schema)

    def attack(self, anonymized: Anonymized) -> Anonymized:
        """Add the results of attacks to a table; refuse the table if a condition does not hold."""
        from sfumato.attack.release_check import attacked

        if not self.attacks:
            return anonymized
        with progress("Attacking it"):
            return attacked(anonymized, self.required, publish=self.publish)


def table_gate(require: list[str] | None, *, no_attacks: bool, publish: bool) -> TableGate:
    """Make the gate of an anonymized table from the options of the command."""
    from sfumato.attack.requirements import attacks_wanted, read_requirements

    required = read_requirements(require or [])
    # A requirement without attacks could never be checked.
    attacks_wanted(not no_attacks, required, publish=publish, off="--no-attacks")
    return TableGate(required, publish, not no_attacks)


def paid_gate(options: dict[str, Any], owners_page: Path | None) -> ReleaseGate | None:
    """Make the gate of a charged release; None if no option asks for attacks.

    The options of the gate are removed from `options`.
    """
    publish, require = options.pop("publish_findings", False), options.pop("require", None) or []
    if not (publish or require or owners_page):
        return None
    from sfumato.vault.release_attacks import ReleaseGate

    return ReleaseGate.asked(require, publish=publish)


def kept_in_words(release: Release, private_files: list[Path | None]) -> str:
    """Name the files that the owner must keep, and say if attack results leave with the release."""
    names = [str(path) for path in private_files if path is not None]
    reveal = "it reveals" if len(names) == 1 else "they reveal"
    sentence = f"Keep {' and '.join(names)} to yourself: {reveal} facts about the original."
    if release.guarantee.parameters.get("attacks") is None:
        return sentence
    return (
        f"{sentence} The attack results were computed from the original too; because of "
        "--publish-findings they are published with the release."
    )


def check_kept(
    targets: list[Path], page: Path | None, *, overwrite: bool, kept: tuple[Path, ...]
) -> None:
    """Refuse private files that could not be written, before any budget is spent.

    Parameters
    ----------
    targets
        The files of the release.
    page
        The owner's report, if one is asked for.
    overwrite
        Whether existing files may be replaced.
    kept
        Files in use, which are never replaced.
    """
    from sfumato.filesystem import check_target
    from sfumato.release.files_in_use import vault_files_around
    from sfumato.release.sidecar import holder_file

    # After the charge it would be too late: the budget is spent, and the file is not written.
    holder = holder_file(targets[0])
    for path in (holder, *([] if page is None else [page])):
        check_target(path, overwrite=overwrite, kept=(*kept, *vault_files_around(path)))
    if page is not None and os.path.realpath(page) in map(os.path.realpath, [*targets, holder]):
        raise OutputError(
            "outputs_same",
            f"Cannot write the owner's page to '{page}': another file of the release has that "
            "name. Choose another name.",
        )
