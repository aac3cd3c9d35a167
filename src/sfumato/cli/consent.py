"""`sfumato consent`: who agreed to what, as the owner of a vault keeps it."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import OUTPUT, Json, Overwrite, VaultFolder, decided_by, option
from sfumato.data.schema.names import count
from sfumato.text import dumps

if TYPE_CHECKING:
    from typing import Any

    from sfumato.vault.consent.registry import ConsentRegistry, Consents


class ConsentAction(StrEnum):
    """What to do with a registry of consent."""

    IMPORT = "import"
    EXPORT = "export"
    GIVE = "give"
    WITHDRAW = "withdraw"
    SHOW = "show"
    VERIFY = "verify"
    ACKNOWLEDGE = "acknowledge"


def consent(
    action: Annotated[
        ConsentAction,
        typer.Argument(
            metavar="ACTION", help="What to do: one of the actions below.", show_default=False
        ),
    ],
    what: Annotated[
        str | None,
        typer.Argument(metavar="WHAT", help="A person; for import a file.", show_default=False),
    ] = None,
    purpose: Annotated[
        str | None, option("PURPOSE", "give: to what; withdraw: from what, else from all.")
    ] = None,
    time: Annotated[str | None, option("TIME", "When the person said so; else now.")] = None,
    population: Annotated[
        str | None, option("NAME", "Whose registry, where there are several.")
    ] = None,
    operator: Annotated[str | None, option("WHO", "Who writes it down; by default you.")] = None,
    output: Annotated[
        Path | None, option("FILE", "export: a .csv.", "-o", "--output", rich_help_panel=OUTPUT)
    ] = None,
    overwrite: Overwrite = False,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Say who agrees to what: only they are seen by questions for that purpose.

    A file has the columns person, purpose, agreed (yes or no) and perhaps time.
    It is taken as a whole, or not at all.

    Actions:
        import       take what people said from a file
        export       write all that stands to a file
        give         a person agrees to a purpose
        withdraw     a person does not agree, to any purpose unless one is named
        show         how many agree; or of a person, how they stand and what they said
        verify       check every change against the one before it
        acknowledge  an operator admits that changes were lost, which voids every yes

    Examples:
        sfumato consent import agreed.csv --vault clinic
        sfumato consent give 1042 --purpose care --vault clinic
        sfumato consent withdraw 1042 --vault clinic
        sfumato consent show --vault clinic
    """
    from sfumato.vault.consent.registry import opened_consents

    _check_form(action, what, purpose, output)
    with closing(opened_consents(vault)) as consents:
        if action in (ConsentAction.VERIFY, ConsentAction.ACKNOWLEDGE):
            told = _settled(consents, action, decided_by(operator))
        else:
            told = _done(
                consents.registry(population), action, what or "", purpose,
                {"time": time, "operator": decided_by(operator)}, (output, overwrite),
            )  # fmt: skip
    typer.echo(dumps(told) if as_json else _sentence(action, told))


def _check_form(
    action: ConsentAction, what: str | None, purpose: str | None, output: Path | None
) -> None:
    needed = {
        ConsentAction.IMPORT: (what, "import needs the file: sfumato consent import FILE."),
        ConsentAction.EXPORT: (output, "export needs -o FILE."),
        ConsentAction.GIVE: (
            what and purpose,
            "give needs a person and --purpose: sfumato consent give 1042 --purpose care.",
        ),
        ConsentAction.WITHDRAW: (
            what,
            "withdraw needs a person: sfumato consent withdraw 1042.",
        ),
    }
    given, words = needed.get(action, (True, ""))
    if not given:
        raise typer.BadParameter(words)


def _settled(consents: Consents, action: ConsentAction, operator: str) -> dict[str, Any]:
    voided = None
    if action is ConsentAction.ACKNOWLEDGE:
        voided = consents.acknowledge(operator=operator)
    found = consents.verify()
    return found if action is ConsentAction.VERIFY else {**found, "voided": voided}


def _done(
    registry: ConsentRegistry,
    action: ConsentAction,
    what: str,
    purpose: str | None,
    said: dict[str, Any],
    written: tuple[Path | None, bool],
) -> dict[str, Any]:
    if action is ConsentAction.IMPORT:
        return registry.import_file(what, operator=said["operator"])
    if action is ConsentAction.EXPORT:
        output, overwrite = written
        assert output is not None
        return registry.export(output, overwrite=overwrite)
    if action is ConsentAction.GIVE:
        assert purpose is not None
        return registry.give(what, purpose, **said)
    if action is ConsentAction.WITHDRAW:
        return registry.withdraw(what, purpose, **said)
    return registry.show(what or None)


def _sentence(action: ConsentAction, told: dict[str, Any]) -> str:
    if "head" in told:
        whole = f"The registry is whole, at version {told['version']}. Head: {told['head']}"
        if action is ConsentAction.VERIFY:
            return whole
        if told["voided"] is None:
            return f"Nothing was lost, so nothing was changed. {whole}"
        return f"{count(told['voided'], 'yes', 'yeses')} void from now on. {whole}"
    if action is ConsentAction.EXPORT:
        return f"Wrote {count(told['rows'], 'line')} to {told['written'][0]}."
    if action is ConsentAction.SHOW:
        return "\n".join(_shown(told))
    older = (
        f" {count(told['older'], 'yes', 'yeses')} older than a no that stands: passed over."
        if told["older"]
        else ""
    )
    return (
        f"{count(told['changed'], 'change')}, {told['unchanged']} as before. The registry of "
        f"'{told['population']}' is at version {told['version']}.{older}"
    )


def _shown(told: dict[str, Any]) -> list[str]:
    from sfumato.report.terminal import printable

    lines = [f"Registry of '{told['population']}', version {told['version']}"]
    for purpose, said in told["purposes"].items():
        stands = said if isinstance(said, str) else f"{said['yes']} yes, {said['no']} no"
        lines.append(f"  {purpose}: {stands}")
    lines += [
        f"  version {one['version']}, {one['time']}: {one['agreed']} to {one['purpose']}"
        for one in told.get("history", ())
    ]
    return [str(printable(line)) for line in lines]
