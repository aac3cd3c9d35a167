"""The layout of help pages: usage, description, arguments and options by topic, examples.

The docstring of a command is its description. In it, a line that ends in a colon, with an indented
block below, is a topic of its own; the topic 'Examples' comes last. Decision `pages`.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from sfumato.cli.argument_types import skip_validation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GENERAL = "General options"
"""The topic of options that every command has."""
_MAX_WIDTH = 100
_MAX_NAME_WIDTH = 26
"""A longer name stands on a line of its own, above its description."""
_TOPIC = re.compile(r"^(\S[^\n]*):\n+((?:^ +\S[^\n]*\n*)+)", re.MULTILINE)

Row = tuple[str, str]


class HelpfulCommand(TyperCommand):
    """A command with our help page."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, `--help` included."""
        return skip_validation(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        formatter.write("\n\n".join(_page(self, ctx)))


class HelpfulGroup(TyperGroup):
    """A command with sub-commands, whose help page lists them by chapter."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters before a sub-command, `--help` included."""
        return skip_validation(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        formatter.write("\n\n".join(_page(self, ctx)))


def _page(command: HelpfulCommand | HelpfulGroup, context: Any) -> Iterator[str]:
    text = cleandoc(command.help or "") + "\n"
    topics = {title: cleandoc(block) for title, block in _TOPIC.findall(text)}
    examples = topics.pop("Examples", None)
    parameters = [
        parameter
        for parameter in command.get_params(context)
        if not getattr(parameter, "hidden", False)
    ]
    arguments = [parameter for parameter in parameters if isinstance(parameter, TyperArgument)]
    options = [parameter for parameter in parameters if isinstance(parameter, TyperOption)]
    yield _usage(command, context, arguments, options)
    for paragraph in _TOPIC.sub("", text).strip().split("\n\n"):
        yield "\n".join(_wrapped(paragraph, _width()))
    if arguments:
        rows = [(_argument_name(argument), _description(argument)) for argument in arguments]
        yield _section("Arguments", rows)
    for title, block in topics.items():
        yield _section(title, [_read_row(line) for line in block.splitlines()])
    if isinstance(command, TyperGroup):
        yield from _contents(command, context)
    by_topic: dict[str, list[Row]] = {"Options": [], GENERAL: []}
    for option in sorted(options, key=lambda option: not option.required):
        topic = GENERAL if option.name == "help" else option.rich_help_panel or "Options"
        row = _option_name(option, context), _description(option)
        by_topic.setdefault(topic, []).append(row)
    # The general options come last, after those of this command.
    for topic in sorted(by_topic, key=lambda topic: topic == GENERAL):
        if by_topic[topic]:
            yield _section(topic, by_topic[topic])
    if examples is not None:
        lines = re.sub(r"\s*\\\n\s*", " ", examples).splitlines()
        yield "\n".join([_heading("Examples"), *map(_shell_line, lines)])


def _usage(
    command: HelpfulCommand | HelpfulGroup,
    context: Any,
    arguments: Sequence[TyperArgument],
    options: Sequence[TyperOption],
) -> str:
    """One line to copy, with all required parameters."""
    words = [context.command_path]
    for argument in arguments:
        name = _argument_name(argument)
        words.append(name if argument.required else f"[{name}]")
    words += [
        f"{option.opts[0]} {_metavar(option, context)}" for option in options if option.required
    ]
    if isinstance(command, TyperGroup):
        words.append("COMMAND")
    line = " ".join([*words, "[options]"])
    lines = textwrap.wrap(
        line, _width(), initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
    )
    return "\n".join([_heading("Usage"), *lines])


def _contents(group: TyperGroup, context: Any) -> Iterator[str]:
    chapters: dict[str, list[Row]] = {}
    for name in group.list_commands(context):
        command = group.commands[name]
        summary = cleandoc(command.help or "").partition("\n\n")[0]
        chapter = getattr(command, "rich_help_panel", None) or "Commands"
        chapters.setdefault(chapter, []).append((name, " ".join(summary.split())))
    for chapter, rows in chapters.items():
        yield _section(chapter, rows, min_width=max(map(len, group.commands)))


def _section(title: str, rows: Sequence[Row], min_width: int = 0) -> str:
    """A heading, and names with their descriptions to the right."""
    short_names = [name for name, _ in rows if len(name) <= _MAX_NAME_WIDTH]
    column = 2 + max(min_width, *map(len, short_names), 0) + 2
    lines = [_heading(title)]
    for name, description in rows:
        wrapped = _wrapped(description, _width() - column) or [""]
        if len(name) > _MAX_NAME_WIDTH:
            lines.append(f"  {name}")
            lines += [" " * column + line for line in wrapped]
        else:
            lines.append(f"  {name:{column - 2}}{wrapped[0]}".rstrip())
            lines += [" " * column + line for line in wrapped[1:]]
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _shell_line(line: str) -> str:
    """A line to copy into a shell; a long one is continued by backslashes."""
    if len(line) + 2 <= _width():
        return f"  {line}"
    parts = textwrap.wrap(
        line,
        _width() - 2,
        initial_indent="  ",
        subsequent_indent="      ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return " \\\n".join(parts)


def _read_row(line: str) -> Row:
    name, _, description = line.strip().partition("  ")
    return name, description.strip()


def _argument_name(argument: TyperArgument) -> str:
    return argument.metavar or argument.name.upper()


def _option_name(option: TyperOption, context: Any) -> str:
    flags = ", ".join(sorted(option.opts, key=len))
    return f"{flags} {_metavar(option, context)}".rstrip()


def _metavar(option: TyperOption, context: Any) -> str:
    if option.is_flag:
        return ""
    return option.metavar or (option.display_type(context) or "").strip("<>")


def _description(parameter: TyperOption | TyperArgument) -> str:
    parts = [parameter.help or ""]
    if parameter.required and not isinstance(parameter, TyperArgument):
        parts.append("(required)")
    elif parameter.show_default and parameter.default not in (None, False, "", [], ()):
        parts.append(f"(default: {getattr(parameter.default, 'value', parameter.default)})")
    return " ".join(parts)


def _heading(text: str) -> str:
    return typer.style(text, bold=True)


def _width() -> int:
    return max(50, min(shutil.get_terminal_size().columns, _MAX_WIDTH))
