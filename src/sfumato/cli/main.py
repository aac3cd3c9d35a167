"""The command `sfumato`: its commands in the order of a table of contents, and its exit codes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer
from typer.exceptions import TyperException

from sfumato import __version__
from sfumato.cli.commands import COMMANDS, command_named
from sfumato.cli.families import command_of
from sfumato.cli.help import HelpfulCommand, HelpfulGroup
from sfumato.cli.operation_commands import group_of
from sfumato.cli.options import typed_words
from sfumato.cli.process import (
    INTERRUPTED,
    EndedEarly,
    as_flag,
    check_arguments,
    end_in_order,
    exit_code,
    hold_collector,
    in_flags,
    leave,
    open_streams,
    spare_pandas,
    stdout_works,
)
from sfumato.errors import LedgerError, SfumatoError
from sfumato.filesystem import released, sweep, temporary_folder
from sfumato.operations.table import NOUNS
from sfumato.text import dumps, holds_password, without_passwords
from sfumato.vault.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HELP = """See the risk in a table about people, release it safely, answer questions about it.

Examples:
    sfumato demo --tables --out example
    sfumato inspect example/town.csv
    sfumato help inspect
"""
_STAYS = (
    " If it was charged already, the charge stays, as 'sfumato ledger show' tells; an answer that "
    "was made is kept, and the same question gives it again, free."
)


def build(asked: str | None = None) -> typer.Typer:
    """The application with the command asked for, or with every one if that is none of them."""
    app = typer.Typer(
        name="sfumato",
        help=_HELP,
        cls=HelpfulGroup,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_options)
    own = {name: chapter for chapter, names in COMMANDS.items() for name in names}
    families = {family.command: family for family in FAMILIES.values()}
    known = (*own, *NOUNS, *families)
    for name in [asked] if asked in known else known:
        if name in NOUNS:
            # The list of all commands needs no sub-commands, which are slow to load.
            group = group_of(name, whole=name == asked)
            app.add_typer(group, name=name, rich_help_panel=NOUNS[name].chapter)
            continue
        if name in own:
            command, chapter = command_named(name), own[name]
        else:
            command, chapter = command_of(families[name]), families[name].chapter
        app.command(name, cls=HelpfulCommand, rich_help_panel=chapter)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    end_in_order()
    is_all = arguments is None  # else whoever gave them goes on after it
    if _asks(given) and not {"-h", "--help"} & set(given):
        if is_all:
            hold_collector()
        spare_pandas()
    code = run(given)
    if is_all:
        leave(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command; every outcome is an exit code and at most one line on standard error."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    as_json = "--json" in arguments
    released.clear()
    typed_words[:] = arguments
    charge = _STAYS if _asks(arguments) else ""
    try:
        open_streams()
        check_arguments(arguments)
        sweep(temporary_folder())
        # Options such as --verbose may stand before the command.
        application = build(next((word for word in arguments if not word.startswith("-")), None))
        result = application(arguments, prog_name="sfumato", standalone_mode=False)
        if result == INTERRUPTED:  # Typer makes an exit code of Ctrl-C
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
        return _fail("usage", _usage(error), 2, as_json=as_json)
    except EndedEarly as kept:
        typer.echo(f"sfumato: {kept}", err=True)
        return exit_code()
    except KeyboardInterrupt:
        what = "the release" if released else "nothing"
        message = f"Interrupted; {what} was written.{charge}"
        return _fail("interrupted", message, exit_code(), as_json=as_json)
    except OSError as error:
        works = stdout_works()
        if isinstance(error, BrokenPipeError):
            return 1
        message = f"The system refused: {os.strerror(error.errno or 0)}.{charge}"
        return _fail("system_refused", message, 1, as_json=as_json and works)
    except MemoryError:
        message = f"There is not enough memory for this.{charge}"
        return _fail("out_of_memory", message, 1, as_json=as_json)
    except Exception as error:  # noqa: BLE001  # its text may quote data, so its name must do
        message = (
            f"Sfumato failed inside ({type(error).__name__}). This is a bug: please report it."
        )
        return _fail("internal", message, 1, as_json=as_json)
    return result if isinstance(result, int) else 0


def _asks(arguments: list[str]) -> bool:
    """Whether it is a command that may be charged."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    return command in {one.command for one in FAMILIES.values()}


def _options(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
    verbose: bool = typer.Option(  # noqa: ARG001  read where errors are told
        False, "--verbose", help="Say also why the ledger failed, for its operator."
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
    with suppress(OSError):  # nobody may be left to read it
        typer.echo(f"sfumato: {message}", err=True)
    return exit_code


def _usage(error: TyperException) -> str:
    """What is wrong with a call; a near miss is told by the name that was meant."""
    near = sorted(getattr(error, "possibilities", None) or ())
    if near:
        return f"{_one_line(error.message)}. Did you mean {' or '.join(near)}?"
    return _one_line(error.format_message())


def _one_line(message: str) -> str:
    return " ".join(message.split())
