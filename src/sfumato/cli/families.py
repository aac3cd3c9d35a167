"""`sfumato query`, `publish` and every other family of private methods: one command of each form.

What a family is asked is in `vault.families`; here it is read, answered, written and told, the same
way for all.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import datasets
from sfumato.cli.explore import EXPLORE, refuse_beside, synthesize_candidates
from sfumato.cli.options import (
    OUTPUT,
    Json,
    Overwrite,
    VaultFolder,
    argument,
    command_line,
    declared,
    option,
    parameter_of,
)
from sfumato.cli.process import paid, resume_garbage_collection
from sfumato.cli.release_gate import (
    OwnerReport,
    PublishFindings,
    Require,
    check_kept,
    kept_in_words,
    paid_gate,
)
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.report.progress import progress
from sfumato.text import dumps
from sfumato.vault.family import PRINCIPAL, PURPOSE, REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sfumato.vault.answer import Answer
    from sfumato.vault.family import Family

Dataset = Annotated[str, argument("NAME", "A data set of the vault.", autocompletion=datasets)]


def _out(family: Family) -> object:
    """Where a command writes, in the words of its family."""
    names = "-o", "--out"
    return Annotated[Path | None, option("OUT", family.out_help, *names, rich_help_panel=OUTPUT)]


Options = Annotated[
    list[str] | None,
    option("NAME=VALUE", "An option of the kind, such as way=2; repeatable.", "--option"),
]
Explore = Annotated[bool, option(None, EXPLORE, "--explore", rich_help_panel=OUTPUT)]
Yes = Annotated[bool, option(None, "Charge all candidates without asking.", "--yes")]
_EXPLAINED = "Show the cost and the expected error without spending anything."
Report = Annotated[
    Path | None,
    option("FILE.html", "Write a page about the release.", "--report", rich_help_panel=OUTPUT),
]


def command_of(family: Family) -> Callable[..., None]:
    """The command of a family, with the parameters of its form."""

    def command(**given: Any) -> None:
        _answer(family, given)

    command.__name__, command.__doc__ = family.command, _text(family)
    command.__signature__ = Signature(list(_parameters(family)))  # type: ignore[attr-defined]
    return command


def _text(family: Family) -> str:
    """What the help of a family says: what it does, the words one may choose from, examples.

    Help that names a kind, such as `publish histogram --help`, has the options of that kind.
    """
    topics = {f"{one.metavar}S".capitalize(): one.choices for one in family.fields if one.choices}
    kind = next((word for word in command_line[1:] if word in family.kinds), None)
    if kind is not None and {"-h", "--help"} & {*command_line}:
        topics.pop("Kinds", None)
        title = f"Options of {kind}, each as --option NAME=VALUE"
        topics[title] = family.kinds[kind].option_lines or {"none": ""}
    blocks = [family.help]
    for title, choices in topics.items():
        lines = (f"    {name}  {told}" for name, told in choices.items())
        blocks.append("\n".join([f"{title}:", *lines]))
    if family.examples:
        blocks.append("\n".join(["Examples:", *(f"    {one}" for one in family.examples)]))
    return "\n\n".join(blocks)


def _parameters(family: Family) -> Iterator[Parameter]:
    """What the command takes: what is asked first, then where it goes, its cost, and the rest."""
    said = [one for one in family.fields if one.metavar is not None]
    first = [one for one in said if one.positional]
    yield from map(parameter_of, first)
    if family.of_dataset:
        yield declared("name", Dataset)
    needed = [one for one in said if one.required and not one.positional]
    yield from map(parameter_of, needed)
    if family.writes != "never":
        yield declared("out", _out(family), None)
    yield from map(parameter_of, family.cost)
    yield from (parameter_of(one) for one in said if one not in first and one not in needed)
    if family.kinds:
        yield declared("option", Options, None)
    explained = Annotated[bool, option(None, _EXPLAINED, *family.explain)]
    yield declared("explain", explained, False)
    if family.explores:
        yield declared("explore", Explore, False)
        yield declared("yes", Yes, False)
    yield from map(parameter_of, (PRINCIPAL, PURPOSE, REQUEST_ID))
    if family.writes == "must":
        yield declared("report", Report, None)
        yield declared("require", Require, None)
        yield declared("owner_report", OwnerReport, None)
        yield declared("publish_findings", PublishFindings, False)
    yield from map(parameter_of, family.also_writes)
    if family.writes != "never":
        yield declared("overwrite", Overwrite, False)
    yield declared("vault", VaultFolder, Path())
    yield declared("as_json", Json, False)


def _answer(family: Family, given: dict[str, Any]) -> None:
    """Prepare what is asked; explain it, or have it answered, written and told."""
    from sfumato.release.sidecar import holder_file
    from sfumato.vault.vault import open_vault

    options = _options(given.pop("option", None) or [], given)
    who = {one.name: given.pop(one.name) for one in (PRINCIPAL, PURPOSE)}
    request_id, as_json = given.pop(REQUEST_ID.name), given.pop("as_json")
    out, report = given.pop("out", None), given.pop("report", None)
    owners_page = given.pop("owner_report", None)
    gate = paid_gate(given, owners_page)
    also = {one.name: given.pop(one.name) for one in family.also_writes}
    overwrite, only_explained = given.pop("overwrite", False), given.pop("explain")
    exploring = given.pop("explore", False), given.pop("yes", False)
    if family.writes == "must" and out is None and not only_explained:
        raise ParameterError(
            "parameter_missing",
            f"Say where to write the release with -o OUT, or only {family.explain[0]} it.",
            parameter="out",
        )
    with open_vault(given.pop("vault")) as opened:
        if family.of_dataset:
            asked: Any = opened.private(given.pop("name"), **who)
        else:
            asked = opened.questions(**who)
        if any(exploring):
            beside = {"request": request_id, "report": report, "require": gate, **also}
            refuse_beside(beside, explores=exploring[0])
            flags = {"yes": exploring[1], "only_told": only_explained, "overwrite": overwrite}
            synthesize_candidates(asked, family, given, out, opened.kept, **flags, as_json=as_json)
            return
        read = [one for one in given.values() if isinstance(one, Path)]
        given |= _texts(family, given)
        prepared = asked.prepare(family, **{**given, **options})
        if only_explained:
            _explain(asked, prepared, as_json=as_json)
            return
        if out is not None:
            kept = (*opened.kept, *read)
            places = family.home().check_targets(
                prepared, out, report, overwrite=overwrite, kept=kept, **also
            )
            if gate is not None:
                check_kept(places, owners_page, overwrite=overwrite, kept=kept)
        resume_garbage_collection()
        with progress("Answering" if out is None else "Publishing"):
            answer: Answer = asked.answer(family, prepared, request_id=request_id, gate=gate)
    written: list[Path] = []
    with paid():
        if out is not None:
            written = answer.save(out, overwrite=overwrite, report=report, **also)
            written += [] if report is None else [report]
            if owners_page is not None:
                answer.report(owners_page, overwrite=overwrite)
                written.append(owners_page)
    if as_json:
        found = {} if gate is None else dict(answer.holder or {})
        typer.echo(dumps({**answer.to_json(written), **found}, ensure_ascii=False))
    else:
        _show(answer, written, [holder_file(out), owners_page] if answer.holder else [])


def _texts(family: Family, given: Mapping[str, Any]) -> dict[str, str]:
    """What files hold that a family is asked by their text."""
    files = [one.name for one in family.fields if one.from_file]
    read: dict[str, str] = {}
    for name in files:
        read |= family.home().read_file(given[name])
    # What the command says goes before what the ending of a file does.
    return {name: one for name, one in read.items() if name in files or given[name] is None}


def _explain(asked: Any, prepared: Any, *, as_json: bool) -> None:
    """Print what it would cost, how far off it would be, and what would be left."""
    told, (after, left) = prepared.explain(), asked.left_after(prepared)
    if as_json:
        typer.echo(dumps({**told.to_json(), "remaining_after": after}, ensure_ascii=False))
    else:
        typer.echo(f"{told.text()}\nOnce charged: {left}.")


def _options(written: list[str], form: Mapping[str, object]) -> dict[str, object]:
    """Options written as NAME=VALUE, with dashes or underscores; none for what has a flag."""
    found: dict[str, object] = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not equals:
            raise ParameterError(
                "parameter_type_wrong", f"An option must be written NAME=VALUE, not {one!r}."
            )
        key = name.strip().replace("-", "_")
        if key in form or key in found:
            raise ParameterError(
                "options_conflict",
                f"Cannot take {one!r} as an option: {quoted(key)} "
                + ("is given twice." if key in found else "is said by the command itself."),
            )
        found[key] = value.strip()
    return found


def _show(answer: Answer, written: list[Path], kept: list[Path | None]) -> None:
    """Print an answer, or of what was written how far off it is; then what it cost and where."""
    from rich.console import Console

    from sfumato.cli.tables import answer_table, attack_table
    from sfumato.methods.query.page import show_answer
    from sfumato.report.terminal import printable
    from sfumato.report.value_text import labelled

    console, stated = Console(highlight=False, emoji=False), printable(answer.guarantee.statement)
    if written:
        for one in (stated, *map(printable, answer.in_short)):
            console.print(one)
    else:
        read = show_answer(answer)
        console.print(answer_table(read))
        for known in read.notes:
            console.print(printable(known))
    inside = () if written else answer.table.column_names
    for name, value in (answer.error or {}).items():
        if name not in inside:
            console.print(printable(f"Expected error, {labelled(name, value)}"))
    if not written:
        for note in (*map(printable, answer.guarantee.parameters.get("notes", ())), stated):
            console.print(note, style="dim")
    if answer.holder is not None and answer.findings is not None:
        console.print(attack_table(answer.findings))
    before = "" if answer.charged else f", {'published' if written else 'asked'} before: free"
    spent = f"Cost: {answer.cost_in_words}{before}. Budget: {answer.balance}."
    console.print(spent, soft_wrap=True)
    console.print(f"Receipt: {answer.receipt}", soft_wrap=True)
    if written:
        console.print(printable(_wrote(answer, written)), soft_wrap=True)
    if kept:
        console.print(printable(kept_in_words(answer, kept)), style="dim", soft_wrap=True)


def _wrote(answer: Answer, written: list[Path]) -> str:
    """Where it went; several tables are in a folder, which is what a person looks for."""
    if not answer.in_folder:
        return f"Wrote {' and '.join(map(str, written))}."
    folder = written[0].parent
    names = ", ".join(one.name for one in written if one.parent == folder)
    beside = "".join(f" and {one}" for one in written if one.parent != folder)
    return f"Wrote {len(answer.tables)} tables into the folder {folder}: {names}{beside}."
