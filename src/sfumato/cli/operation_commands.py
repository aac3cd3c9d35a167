"""The sub-commands of operations, made from their declarations: `sfumato principal add ...`."""

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
    decided_by,
    declared,
    option,
    parameter_of,
)
from sfumato.operations.table import NOUNS, words_of
from sfumato.text import dumps

if TYPE_CHECKING:
    from sfumato.operations.operation import Operation
    from sfumato.vault.family import Field

Operator = Annotated[str | None, option("WHO", "Who decided it; by default you.", "--operator")]
Details = Annotated[bool, option(None, "Show all columns.", "--details")]
Quiet = Annotated[bool, option(None, "Ask nothing, also on a terminal.", "--yes")]
_EXAMPLE_VAULT = ("--vault", "clinic")
_DIALOGUES = {"dataset add": "sfumato.cli.walkthrough"}
"""By operation the module whose `complete` asks on a terminal for what was not typed."""


def group_of(noun: str, *, whole: bool) -> typer.Typer:
    """The command of a noun; the `whole` one has a sub-command for each of its operations."""
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
    return group


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command_of(operation: Operation) -> Any:
    """A function for Typer whose parameters are the fields of the request."""
    has_details = hasattr(operation.result, "show_details")

    def command(*, vault: Path, as_json: bool, **values: Any) -> None:
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
        with open_context(vault, operation, decided_by(operator)) as context:
            result = operation.run(context, request)
            while (following := result.rest(request)) is not None:
                result.print(as_json=as_json)
                request = following
                result = operation.run(context, request)
            if out is not None:
                # What only owners may ask for is theirs alone as a file, too.
                private = operation.allowed.owner
                written = result.save(out, overwrite=overwrite, private=private)
                files = ", ".join(written["written"])
                typer.echo(dumps(written) if as_json else f"Wrote {files}.")
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
        *others, last = (f".{ending}" for ending in operation.formats)
        ending = f"{', '.join(others)} or {last}" if others else last
        endings = f"Write a file, {ending}, instead of printing."
        file = option("OUT", endings, "--out", "-o", rich_help_panel=OUTPUT)
        parameters.append(declared("out", Annotated[Path | None, file], None))
        parameters.append(declared("overwrite", Overwrite, False))
    parameters.append(declared("vault", VaultFolder, Path()))
    parameters.append(declared("as_json", Json, False))
    # Typer takes arguments in the order of the parameters, those that must be given first.
    return sorted(parameters, key=lambda parameter: parameter.default is not Parameter.empty)


def help_text(operation: Operation) -> str:
    """The page of a sub-command: what it does, the words of its fields, and examples."""
    parts = [operation.help]
    for field in operation.fields:
        if any(field.choices.values()):
            width = max(map(len, field.choices))
            lines = [f"    {word:{width}}  {means}" for word, means in field.choices.items()]
            parts.append("\n".join([f"{_topic(field)}:", *lines]))
    lines = [f"    {line}" for line in example_lines(operation)]
    parts.append("\n".join(["Examples:", *lines]))
    return "\n\n".join(parts)


def _topic(field: Field) -> str:
    name = field.name.replace("_", " ").capitalize()
    return name if name.endswith("s") else f"{name}s"


def example_lines(operation: Operation) -> list[str]:
    """The examples of an operation as lines for the shell."""
    examples = operation.command_examples or operation.examples
    return [_line(operation, values) for values in examples]


def _line(operation: Operation, values: Any) -> str:
    words = ["sfumato", *words_of(operation)]
    for field in sorted(operation.fields, key=lambda field: not field.positional):
        if field.name not in values:
            continue
        value = values[field.name]
        if isinstance(value, dict):
            written = dumps(value)
        else:
            written = ",".join(value) if isinstance(value, list) else str(value)
        flag = field.flag or f"--{field.name.replace('_', '-')}"
        if field.positional:
            words.append(written)
        else:
            words += [flag] if field.type is bool else [flag, written]
    return shlex.join([*words, *_EXAMPLE_VAULT])
