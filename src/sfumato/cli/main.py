"""The command `sfumato`: the list of its commands, how one runs, and its exit codes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.exceptions import TyperException

from sfumato import __version__
from sfumato.cli.help import HelpfulCommand, HelpfulGroup
from sfumato.cli.operation_commands import command_of, group_of
from sfumato.cli.options import command_line
from sfumato.cli.private_methods import command_of as method_command
from sfumato.cli.process import (
    INTERRUPTED,
    as_flag,
    check_arguments,
    end_process,
    exit_code,
    handle_stop_signals,
    in_flags,
    open_streams,
    pause_garbage_collection,
    skip_pandas,
    stdout_works,
)
from sfumato.errors import EndedEarly, LedgerError, SfumatoError, spell
from sfumato.filesystem import released, sweep, temporary_folder
from sfumato.operations.table import METHOD_COMMANDS, NOUNS, SHORTCUTS, operation_of
from sfumato.text import dumps, holds_password, without_passwords

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMANDS: dict[str, tuple[str, ...]] = {
    "Look around": ("demo",),
    "See the risk": ("inspect",),
    "Release a table": ("anonymize", "measure", "worlds", "evaluate", "attack", "compare"),
    "Vaults: budgeted answers": ("init", "add", "serve", "sandbox"),
    "Learn": ("predict",),
    "Ask people": ("collect", "locate"),
}
"""Commands of one word by chapter: modules of this package, or shortcuts of operations.

Private methods and nouns name their chapters in `operations.table`.
"""
MODULE_OF = {
    **dict.fromkeys(("compare", "evaluate"), "attack"),
    **dict.fromkeys(("measure", "worlds"), "inspect"),
    **dict.fromkeys(("init", "locate", "predict", "sandbox"), "local_commands"),
}
"""The module of a command where it is not the one of its own name."""

_HELP = """Measure the risk of a table about people, release it, or query it within a budget.

Examples:
    sfumato demo --tables --out example
    sfumato inspect example/town.csv
    sfumato help inspect
"""
_COMPLETES = "_SFUMATO_COMPLETE"
_AFTER_CHARGE = (
    " 'sfumato ledger show' tells whether it was charged. If so, the charge stays. A finished "
    "answer is stored: repeat the command to get it at no cost."
)


def build(name: str | None = None) -> typer.Typer:
    """Make the application with the named command alone, or with all if there is no such command.

    Each command imports what it needs, so a call of one command should not load the others.
    """
    app = typer.Typer(
        name="sfumato",
        help=_HELP,
        cls=HelpfulGroup,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_options)
    chapter_of = {command: chapter for chapter, listed in COMMANDS.items() for command in listed}
    names = (*chapter_of, *NOUNS, *METHOD_COMMANDS)
    for command_name in [name] if name in names else names:
        if command_name in NOUNS:
            # The list of all commands shows no sub-commands, which are slow to load.
            group = group_of(command_name, whole=command_name == name)
            panel = NOUNS[command_name].chapter
            app.add_typer(group, name=command_name, rich_help_panel=panel)
            continue
        if command_name in METHOD_COMMANDS:
            command = method_command(command_name, whole=command_name == name)
            chapter = METHOD_COMMANDS[command_name].chapter
        elif command_name in SHORTCUTS:
            command = command_of(operation_of(command_name))
            chapter = chapter_of[command_name]
        else:
            module = import_module(f"sfumato.cli.{MODULE_OF.get(command_name, command_name)}")
            command, chapter = getattr(module, command_name), chapter_of[command_name]
        app.command(command_name, cls=HelpfulCommand, rich_help_panel=chapter)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end the process.

    Parameters
    ----------
    arguments
        The arguments of the command; by default those of this process.
    """
    typed = list(sys.argv[1:] if arguments is None else arguments)
    # Before any work: what the signal interrupts must clean up its files.
    handle_stop_signals()
    owns_process = arguments is None
    if _may_charge(typed) and not {"-h", "--help"} & set(typed):
        if owns_process:
            pause_garbage_collection()
        skip_pandas()
    code = run(typed)
    if owns_process:
        end_process(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; an error is one line on standard error."""
    if arguments[:1] == ["help"]:  # `sfumato help inspect` is `sfumato inspect --help`
        arguments = [*arguments[1:], "--help"]
    # Read from the raw arguments: an error of the parser must be JSON too.
    as_json = "--json" in arguments
    released.clear()
    # A shell that completes a line gives it in the environment.
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    command_line[:] = arguments or (typed.split()[1:] if _COMPLETES in os.environ else [])
    after_charge = _AFTER_CHARGE if _may_charge(arguments) else ""
    try:
        open_streams()
        check_arguments(arguments)
        sweep(temporary_folder())  # what killed commands left behind
        application = build(_command_name(command_line))
        result = application(arguments, prog_name="sfumato", standalone_mode=False)
        if result == INTERRUPTED:  # Typer catches KeyboardInterrupt and returns this code
            raise KeyboardInterrupt
        sys.stdout.flush()
    except SfumatoError as error:
        if "--verbose" in arguments and isinstance(error, LedgerError) and error.detail:
            typer.echo(f"sfumato: cause: {_one_line(error.detail)}", err=True)
        return _fail(
            error.code,
            in_flags(error),
            error.exit_code,
            as_json=as_json,
            fields=error.fields(as_flag),
        )
    except TyperException as error:
        return _fail("usage", _usage_message(error), 2, as_json=as_json)
    except EndedEarly as error:
        typer.echo(f"sfumato: {spell(str(error), as_flag)}", err=True)
        return exit_code()
    except KeyboardInterrupt:
        written = "the release" if released else "nothing"
        message = f"Interrupted; {written} was written.{after_charge}"
        return _fail("interrupted", message, exit_code(), as_json=as_json)
    except OSError as error:
        works = stdout_works()
        if isinstance(error, BrokenPipeError):
            return 1  # the reader, such as `head`, has gone: nobody reads a message
        message = f"The system refused: {os.strerror(error.errno or 0)}.{after_charge}"
        return _fail("system_refused", message, 1, as_json=as_json and works)
    except MemoryError:
        message = f"There is not enough memory for this.{after_charge}"
        return _fail("out_of_memory", message, 1, as_json=as_json)
    except Exception as error:  # noqa: BLE001
        # The text of an unknown error may quote rows, so only its class is shown.
        message = f"Sfumato failed ({type(error).__name__}). This is a bug: please report it."
        return _fail("internal", message, 1, as_json=as_json)
    return result if isinstance(result, int) else 0


def _command_name(arguments: list[str]) -> str | None:
    """The first word that is no option: `--verbose` may stand before the command."""
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _may_charge(arguments: list[str]) -> bool:
    return _command_name(arguments) in METHOD_COMMANDS


def _options(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    verbose: bool = typer.Option(  # noqa: ARG001  `run` reads it from the arguments
        False, "--verbose", help="If the ledger fails, also print the cause, for its operator."
    ),
) -> None:
    if version:
        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _fail(
    code: str,
    message: str,
    exit_code: int,
    *,
    as_json: bool,
    fields: Mapping[str, Any] | None = None,
) -> int:
    # A source such as postgresql://user:password@host may stand in any message.
    message = without_passwords(message) if holds_password(message) else message
    shown = {
        name: "***" if holds_password(str(field)) else field
        for name, field in (fields or {}).items()
    }
    if as_json:
        # The error itself may be that standard output fails.
        try:
            typer.echo(dumps({"error": {"code": code, "message": message, **shown}}))
        except OSError:
            stdout_works()
    with suppress(OSError):  # standard error may be closed
        typer.echo(f"sfumato: {message}", err=True)
    return exit_code


def _usage_message(error: TyperException) -> str:
    """What is wrong with a call, and similar names that exist or the help to read."""
    similar = sorted(getattr(error, "possibilities", None) or ())
    if similar:
        return f"{_one_line(error.message)}. Did you mean {' or '.join(similar)}?"
    message = _one_line(error.format_message())
    if message.endswith("?"):  # it proposes a command already
        return message
    context = getattr(error, "ctx", None)
    command = "sfumato" if context is None else context.command_path
    return f"{message.removesuffix('.')}. See '{command} --help'."


def _one_line(message: str) -> str:
    return " ".join(message.split())
