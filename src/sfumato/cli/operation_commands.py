"""Commands of operations, made from their declarations: `sfumato principal add ...`."""

from __future__ import annotations

import shlex
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.help import HelpfulCommand, HelpfulGroup
from sfumato.cli.options import (
    OUTPUT,
    Json,
    Overwrite,
    VaultFolder,
    declared,
    operator_name,
    option,
    parameter_of,
)
from sfumato.operations.table import NOUNS, words_of
from sfumato.text import dumps

if TYPE_CHECKING:
    from sfumato.operations.operation import Operation

Operator = Annotated[
    str | None, option("WHO", "Who decided it, for the ledger; by default you.", "--operator")
]
Details = Annotated[bool, option(None, "Show all columns.", "--details")]
Quiet = Annotated[bool, option(None, "Ask nothing, also on a terminal.", "--yes")]
_EXAMPLE_VAULT = ("--vault", "clinic")
_DIALOGUES = {"dataset add": "sfumato.cli.walkthrough"}
"""By operation, the module whose `complete` asks on a terminal for missing fields."""


def group_of(noun: str, *, whole: bool) -> typer.Typer:
    """Make the command of a noun.

    In the list of all commands it is not `whole`: it has no sub-commands, because loading every
    operation would make `sfumato --help` slow.
    """
    group = typer.Typer(
        cls=HelpfulGroup,
        help=NOUNS[noun].help,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group.callback(invoke_without_command=True)(_show_help)
    if not whole:
        return group
    from sfumato.operations.table import operations_of

    for operation in operations_of(noun):
        if "command" in operation.doors:
            group.command(operation.verb, cls=HelpfulCommand)(command_of(operation))
    if noun == "survey":
        # A server is a door, so it cannot be an operation.
        from sfumato.cli.serve import serve_survey

        group.command("serve", cls=HelpfulCommand)(serve_survey)
    return group


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command_of(operation: Operation) -> Any:
    """Make a function for Typer whose parameters are the fields of the request."""
    has_details = hasattr(operation.result, "show_details")

    def command(*, as_json: bool, vault: Path = Path(), **values: Any) -> None:
        from sfumato.filesystem import check_target
        from sfumato.operations.fields import file_readers, read
        from sfumato.operations.local_calls import open_context

        operator = values.pop("operator") if operation.recorded else None
        details = has_details and values.pop("details")
        out: Path | None = values.pop("out") if operation.formats else None
        overwrite = bool(operation.formats) and values.pop("overwrite")
        asks = operation.name in _DIALOGUES and not values.pop("yes") and not as_json
        # What is not typed is not part of the request, so its default applies.
        typed = {name: value for name, value in values.items() if value not in (None, False, [])}
        if asks:
            import_module(_DIALOGUES[operation.name]).complete(typed)
        for name, read_file in file_readers(operation.request).items():
            if name in typed:
                typed[name] = read_file(typed[name])
        request = read(operation.request, typed, text=True)
        if out is not None:
            from sfumato.release.files_in_use import vault_files

            check_target(out, overwrite=overwrite, kept=vault_files(vault))
        with open_context(vault, operation, operator_name(operator)) as context:
            result = operation.run(context, request)
            while (next_request := result.rest(request)) is not None:
                result.print(as_json=as_json)
                request = next_request
                result = operation.run(context, request)
            if out is not None:
                # What only owners may see, other users of this machine must not read.
                private = operation.allowed.owner
                report = result.save(out, overwrite=overwrite, private=private)
                files = ", ".join(report["written"])
                typer.echo(dumps(report) if as_json else f"Wrote {files}.")
            elif details and not as_json:
                result.show_details()
            else:
                result.print(as_json=as_json)

    command.__name__ = operation.verb
    command.__doc__ = help_text(operation)
    command.__signature__ = Signature(list(_parameters(operation)))  # type: ignore[attr-defined]
    return command


def _parameters(operation: Operation) -> list[Parameter]:
    parameters = [parameter_of(field) for field in operation.fields]
    if operation.recorded:
        parameters.append(declared("operator", Operator, None))
    if hasattr(operation.result, "show_details"):
        parameters.append(declared("details", Details, False))
    if operation.name in _DIALOGUES:
        parameters.append(declared("yes", Quiet, False))
    if operation.formats:
        *first, last = (f".{ending}" for ending in operation.formats)
        endings = f"{', '.join(first)} or {last}" if first else last
        description = f"Write a file, {endings}, instead of printing."
        file = option("OUT", description, "--out", "-o", rich_help_panel=OUTPUT)
        parameters.append(declared("out", Annotated[Path | None, file], None))
        parameters.append(declared("overwrite", Overwrite, False))
    if not operation.local:
        parameters.append(declared("vault", VaultFolder, Path()))
    parameters.append(declared("as_json", Json, False))
    # Typer takes arguments in the order of the parameters, and Python wants required ones first.
    return sorted(parameters, key=lambda parameter: parameter.default is not Parameter.empty)


def help_text(operation: Operation) -> str:
    """The docstring of a command: what it does, the choices of its fields, and examples."""
    paragraphs = [operation.help]
    for field in operation.fields:
        if any(field.choices.values()):
            width = max(map(len, field.choices))
            lines = [f"    {choice:{width}}  {text}" for choice, text in field.choices.items()]
            title = field.name.replace("_", " ").capitalize().removesuffix("s")
            paragraphs.append("\n".join([f"{title}s:", *lines]))
    lines = [f"    {line}" for line in example_lines(operation)]
    paragraphs.append("\n".join(["Examples:", *lines]))
    return "\n\n".join(paragraphs)


def example_lines(operation: Operation) -> list[str]:
    """The examples of an operation as lines for the shell."""
    examples = operation.command_examples or operation.examples
    return [_example_line(operation, values) for values in examples]


def _example_line(operation: Operation, values: Any) -> str:
    line = ["sfumato", *words_of(operation)]
    for field in sorted(operation.fields, key=lambda field: not field.positional):
        if field.name not in values:
            continue
        value = values[field.name]
        if isinstance(value, dict):
            value = dumps(value)
        elif isinstance(value, list) and not (field.positional and field.type == list[str]):
            value = ",".join(value)
        flag = field.flag or f"--{field.name.replace('_', '-')}"
        if field.positional:
            line += value if isinstance(value, list) else [str(value)]
        else:
            line += [flag] if field.type is bool else [flag, str(value)]
    return shlex.join([*line, *([] if operation.local else _EXAMPLE_VAULT)])
