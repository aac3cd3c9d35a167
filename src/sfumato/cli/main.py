"""The program `sfumato`: its commands by chapter, how one is run, and its exit codes."""

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
    **dict.fromkeys(("locate", "predict", "sandbox"), "local_commands"),
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
    " If it was charged already, the charge stays, as 'sfumato ledger show' tells. A finished "
    "answer is stored: ask the same question again to get it, at no cost."
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
    chapters = {word: chapter for chapter, words in COMMANDS.items() for word in words}
    names = (*chapters, *NOUNS, *METHOD_COMMANDS)
    for word in [name] if name in names else names:
        if word in NOUNS:
            # The list of all commands shows no sub-commands, which are slow to load.
            group = group_of(word, whole=word == name)
            app.add_typer(group, name=word, rich_help_panel=NOUNS[word].chapter)
            continue
        if word in METHOD_COMMANDS:
            command = method_command(word, whole=word == name)
            chapter = METHOD_COMMANDS[word].chapter
        elif word in SHORTCUTS:
            command, chapter = command_of(operation_of(word)), chapters[word]
        else:
            module = import_module(f"sfumato.cli.{MODULE_OF.get(word, word)}")
            command, chapter = getattr(module, word), chapters[word]
        app.command(word, cls=HelpfulCommand, rich_help_panel=chapter)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Parameters
    ----------
    arguments
        By default those of the process, which then ends quickly, without a teardown.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    handle_stop_signals()
    owns_process = arguments is None
    if _may_charge(words) and not {"-h", "--help"} & set(words):
        if owns_process:
            pause_garbage_collection()
        skip_pandas()
    code = run(words)
    if owns_process:
        end_process(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; an error is one line on standard error."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    as_json = "--json" in arguments
    released.clear()
    # A shell that completes a line gives it in the environment.
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    command_line[:] = arguments or (typed.split()[1:] if _COMPLETES in os.environ else [])
    after_charge = _AFTER_CHARGE if _may_charge(arguments) else ""
    try:
        open_streams()
        check_arguments(arguments)
        sweep(temporary_folder())
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
        what = "the release" if released else "nothing"
        message = f"Interrupted; {what} was written.{after_charge}"
        return _fail("interrupted", message, exit_code(), as_json=as_json)
    except OSError as error:
        works = stdout_works()
        if isinstance(error, BrokenPipeError):
            return 1
        message = f"The system refused: {os.strerror(error.errno or 0)}.{after_charge}"
        return _fail("system_refused", message, 1, as_json=as_json and works)
    except MemoryError:
        message = f"There is not enough memory for this.{after_charge}"
        return _fail("out_of_memory", message, 1, as_json=as_json)
    except Exception as error:  # noqa: BLE001
        # The text of an unknown error may quote rows, so only its class is shown.
        message = (
            f"Sfumato failed inside ({type(error).__name__}). This is a bug: please report it."
        )
        return _fail("internal", message, 1, as_json=as_json)
    return result if isinstance(result, int) else 0


def _command_name(arguments: list[str]) -> str | None:
    """The first word that is no option: `--verbose` may stand before the command."""
    return next((word for word in arguments if not word.startswith("-")), None)


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
    message = without_passwords(message) if holds_password(message) else message
    shown = {
        name: "***" if holds_password(str(field)) else field
        for name, field in (fields or {}).items()
    }
    if as_json:
        try:
            typer.echo(dumps({"error": {"code": code, "message": message, **shown}}))
        except OSError:
            stdout_works()
    with suppress(OSError):  # standard error may be closed
        typer.echo(f"sfumato: {message}", err=True)
    return exit_code


def _usage_message(error: TyperException) -> str:
    """What is wrong with a call, and the similar names that exist."""
    similar = sorted(getattr(error, "possibilities", None) or ())
    if similar:
        return f"{_one_line(error.message)}. Did you mean {' or '.join(similar)}?"
    return _one_line(error.format_message())


def _one_line(message: str) -> str:
    return " ".join(message.split())
