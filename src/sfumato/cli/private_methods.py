"""The commands of private methods, made from their declarations: `sfumato query`, `publish`, ..."""

from __future__ import annotations

from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import datasets
from sfumato.cli.explore import EXPLORE, refuse_other_options, synthesize_candidates
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
from sfumato.operations.table import METHOD_COMMANDS
from sfumato.report.progress import progress
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.operations.field import Field
    from sfumato.operations.private_methods import Method, MethodRequest
    from sfumato.vault.answer import Answer

_WHO = "Who asks"
Dataset = Annotated[str, argument("NAME", "A data set of the vault.", autocompletion=datasets)]
Options = Annotated[
    list[str] | None,
    option("NAME=VALUE", "An option of the kind, such as way=2; repeatable.", "--option"),
]
Explore = Annotated[bool, option(None, EXPLORE, "--explore", rich_help_panel=OUTPUT)]
Yes = Annotated[bool, option(None, "Charge all candidates without asking.", "--yes")]
Principal = Annotated[
    str,
    option("NAME", "The principal who asks and whose budget is charged.", rich_help_panel=_WHO),
]
RequestId = Annotated[
    str | None,
    option(
        "ID",
        "An id that makes retries safe: the same id returns the same answer, charged once.",
        "--request",
        rich_help_panel=_WHO,
    ),
]
Report = Annotated[
    Path | None,
    option("FILE.html", "Write a page about the release.", "--report", rich_help_panel=OUTPUT),
]
ModelFile = Annotated[
    Path | None,
    option(
        "FILE",
        "Also save the model and its noisy measurements, to draw more rows later.",
        rich_help_panel=OUTPUT,
    ),
]
_EXPLAINED = "Show the cost and the expected error without spending anything."


def command_of(name: str, *, whole: bool) -> Callable[..., None]:
    """Make the command of a private method.

    In the list of all commands it is not `whole`: it has its help line and no parameters, because
    loading the methods would make `sfumato --help` slow.
    """
    if not whole:

        def command(**_: Any) -> None:
            """Stand in the list of all commands."""

        command.__doc__ = METHOD_COMMANDS[name].help
        command.__signature__ = Signature()  # type: ignore[attr-defined]
        return command
    from sfumato.operations.private_methods import METHODS

    method = METHODS[name]

    def answering(**values: Any) -> None:
        _answer(method, values)

    answering.__name__, answering.__doc__ = name, _help(method)
    answering.__signature__ = Signature(list(_parameters(method)))  # type: ignore[attr-defined]
    return answering


def _kinds_typed(method: Method) -> list[str]:
    """The kinds that the command line names; their options become flags.

    Typer needs the parameters of a command before it parses the line.
    """
    return [typed for typed in command_line[1:] if typed in method.kinds]


def _help(method: Method) -> str:
    """What the command does, the words of its fields, and examples.

    A page about one kind, such as that of `publish histogram --help`, does not list the others.
    """
    kinds = _kinds_typed(method)
    blocks = [METHOD_COMMANDS[method.command].help]
    for field in _fields(method):
        if any(field.choices.values()) and not (kinds and field.name == "kind"):
            lines = (f"    {choice}  {meaning}" for choice, meaning in field.choices.items())
            blocks.append("\n".join([f"{field.metavar}s:".capitalize(), *lines]))
    lines = (f"    {line}" for line in method.command_examples)
    blocks.append("\n".join(["Examples:", *lines]))
    return "\n\n".join(blocks)


def _fields(method: Method) -> list[Field]:
    """The fields of every request of a method, except those for which the command has its own."""
    from sfumato.operations.fields import fields
    from sfumato.operations.private_methods import OPTIONS

    return [
        field
        for field in fields(method.request)
        if field.name not in ("dataset", "plan") and not field.topic.startswith(OPTIONS)
    ]


def _parameters(method: Method) -> Iterator[Parameter]:
    """The parameters of the command: arguments, required options, output, cost, and the rest."""
    fields = _fields(method)
    amounts = [field for field in fields if field.name in method.family.cost]
    positional = [field for field in fields if field.positional]
    required = [field for field in fields if field.required and not field.positional]
    first = (*amounts, *positional, *required)
    yield from map(parameter_of, positional)
    if method.family.of_dataset:
        yield declared("name", Dataset)
    yield from map(parameter_of, required)
    if method.writes != "never":
        out = option("OUT", method.out_help, "-o", "--out", rich_help_panel=OUTPUT)
        yield declared("out", Annotated[Path | None, out], None)
    order = method.family.cost
    yield from map(parameter_of, sorted(amounts, key=lambda field: order.index(field.name)))
    yield from (parameter_of(field) for field in fields if field not in first)
    if method.kinds:
        options = {
            name: field
            for kind in _kinds_typed(method)
            for name, field in method.options_of(kind).items()
        }
        yield from map(parameter_of, options.values())
        yield declared("option", Options, None)
    explained = Annotated[bool, option(None, _EXPLAINED, *method.explain)]
    yield declared("explain", explained, False)
    if method.explores:
        yield declared("explore", Explore, False)
        yield declared("yes", Yes, False)
    yield declared("principal", Principal, "owner")
    yield declared("request_id", RequestId, None)
    if method.writes == "must":
        yield declared("report", Report, None)
        yield declared("require", Require, None)
        yield declared("owner_report", OwnerReport, None)
        yield declared("publish_findings", PublishFindings, False)
    if method.saves_model:
        yield declared("model", ModelFile, None)
    if method.writes != "never":
        yield declared("overwrite", Overwrite, False)
    yield declared("vault", VaultFolder, Path())
    yield declared("as_json", Json, False)


def _answer(method: Method, values: dict[str, Any]) -> None:
    """Plan a request; explain it, or answer it, write the release and print the answer."""
    from sfumato.operations.operation import Context
    from sfumato.operations.private_methods import plan, values_of
    from sfumato.release.sidecar import holder_file
    from sfumato.vault.vault import open_vault

    family, options = method.family, _options(method, values)
    vault, as_json = values.pop("vault"), values.pop("as_json")
    principal, request_id = values.pop("principal"), values.pop("request_id")
    out, report = values.pop("out", None), values.pop("report", None)
    owner_report = values.pop("owner_report", None)
    gate = paid_gate(values, owner_report)
    model = {"model": values.pop("model")} if method.saves_model else {}
    overwrite, only_explain = values.pop("overwrite", False), values.pop("explain")
    explore, yes = values.pop("explore", False), values.pop("yes", False)
    if method.writes == "must" and out is None and not only_explain:
        raise ParameterError(
            "parameter_missing",
            f"Say where to write the release with -o OUT, or only {method.explain[0]} it.",
            parameter="out",
        )
    request = _read_request(method, values, options)
    with open_vault(vault) as opened:
        context = Context(opened, principal=principal)
        asked = values_of(request)
        if explore or yes:
            other_options = {"request": request_id, "report": report, "require": gate, **model}
            refuse_other_options(other_options, explores=explore)
            private = opened.private(
                request.dataset,  # type: ignore[attr-defined]
                principal=principal,
                purpose=request.purpose,
            )
            flags = {"yes": yes, "only_explain": only_explain, "overwrite": overwrite}
            synthesize_candidates(
                private, family, asked, out, opened.kept, **flags, as_json=as_json
            )
            return
        questions, prepared = plan(method, context, request)
        if only_explain:
            _explain(questions, prepared, as_json=as_json)
            return
        if out is not None:
            inputs = [value for value in asked.values() if isinstance(value, Path)]
            in_use = (*opened.kept, *inputs)
            # Before the charge: an answer that cannot be written would be paid for in vain.
            paths = family.home().check_targets(
                prepared, out, report, overwrite=overwrite, kept=in_use, **model
            )
            if gate is not None:
                check_kept(paths, owner_report, overwrite=overwrite, kept=in_use)
        resume_garbage_collection()
        with progress("Answering" if out is None else "Publishing"):
            answer: Answer = questions.answer(family, prepared, request_id=request_id, gate=gate)
    written: list[Path] = []
    with paid():  # from here on an error says that the answer was charged
        if out is not None:
            written = answer.save(out, overwrite=overwrite, report=report, **model)
            written += [] if report is None else [report]
            if owner_report is not None:
                answer.report(owner_report, overwrite=overwrite)
                written.append(owner_report)
    if as_json:
        findings = {} if gate is None else dict(answer.holder or {})
        typer.echo(dumps({**answer.to_json(written), **findings}, ensure_ascii=False))
    else:
        _show(answer, written, [holder_file(out), owner_report] if answer.holder else [])


def _read_request(method: Method, values: dict[str, Any], options: dict[str, str]) -> MethodRequest:
    """Make the request from what was typed; a program is read from its file."""
    typed = {
        "dataset" if name == "name" else name: value
        for name, value in values.items()
        if value is not None
    }
    if "program" in typed:
        # A typed language wins over that of the file extension.
        typed = {**method.family.home().read_file(Path(typed.pop("program"))), **typed}
    return method.read({**typed, **options}, text=True)


def _explain(questions: Any, prepared: Any, *, as_json: bool) -> None:
    """Print the cost, the expected error, and the budget that would be left."""
    forecast, (remaining, balance) = prepared.explain(), questions.left_after(prepared)
    if as_json:
        data = {**forecast.to_json(), "remaining_after": remaining}
        typer.echo(dumps(data, ensure_ascii=False))
    else:
        typer.echo(f"{forecast.text()}\nOnce charged: {balance}.")


def _options(method: Method, values: dict[str, Any]) -> dict[str, str]:
    """Take `--option NAME=VALUE` out of the values; names may have dashes or underscores."""
    written = values.pop("option", None) or []
    flags = {name for kind in _kinds_typed(method) for name in method.options_of(kind)}
    options: dict[str, str] = {}
    for text in written:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(
                "parameter_type_wrong", f"An option must be written NAME=VALUE, not {text!r}."
            )
        key = name.strip().replace("-", "_")
        # NAME=VALUE and the flag --NAME are the same option, so only one may be given. The rest are
        # parameters of the command, which would be set twice.
        is_typed = key in values and (key not in flags or values[key] is not None)
        if key in options or is_typed or key in ("dataset", "plan"):
            raise ParameterError(
                "options_conflict",
                f"Cannot take {text!r} as an option: {quoted(key)} "
                + ("is given twice." if key in options else "is a parameter of the command."),
            )
        options[key] = value.strip()
    return options


def _show(answer: Answer, written: list[Path], confidential: list[Path | None]) -> None:
    """Print an answer, or the error of what was written; then its cost and its files."""
    from rich.console import Console

    from sfumato.cli.tables import answer_table, attack_table
    from sfumato.methods.query.page import show_answer
    from sfumato.report.terminal import printable
    from sfumato.report.value_text import labelled

    console, stated = Console(highlight=False, emoji=False), printable(answer.guarantee.statement)
    if written:
        for line in (stated, *map(printable, answer.in_short)):
            console.print(line)
    else:
        shown = show_answer(answer)
        console.print(answer_table(shown))
        for remark in shown.notes:
            console.print(printable(remark))
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
    cost = f"Cost: {answer.cost_in_words}{before}. Budget: {answer.balance}."
    console.print(cost, soft_wrap=True)
    console.print(f"Receipt: {answer.receipt}", soft_wrap=True)
    if written:
        console.print(printable(_wrote(answer, written)), soft_wrap=True)
    if confidential:
        console.print(printable(kept_in_words(answer, confidential)), style="dim", soft_wrap=True)


def _wrote(answer: Answer, written: list[Path]) -> str:
    """The files that were written, in one sentence; several tables are in one folder."""
    if not answer.in_folder:
        return f"Wrote {' and '.join(map(str, written))}."
    folder = written[0].parent
    names = ", ".join(path.name for path in written if path.parent == folder)
    others = "".join(f" and {path}" for path in written if path.parent != folder)
    return f"Wrote {len(answer.tables)} tables into the folder {folder}: {names}{others}."
