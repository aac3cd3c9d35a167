"""Help as people read it: how to call it, what it does, what it takes by topic, and examples.

The text of a command begins with what it does. A line of its own that ends in a colon, with an
indented block below, begins a topic; the topic 'Examples' is told last. Decision `pages`.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from sfumato.cli.argument_text import taken_as_written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GENERAL = "In general"
"""The topic of what every command has."""
_WIDEST = 100
_LEFT = 26
"""What is wider than this stands on a line of its own, above what is said of it."""
_TOPIC = re.compile(r"^(\S[^\n]*):\n+((?:^ +\S[^\n]*\n*)+)", re.MULTILINE)

Row = tuple[str, str]


class HelpfulCommand(TyperCommand):
    """A command whose help is laid out here."""

    def get_params(self, ctx: Any) -> list[Any]:
        """What it takes, help included."""
        return taken_as_written(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page of the command."""
        formatter.write("\n\n".join(_page(self, ctx)))


class HelpfulGroup(TyperGroup):
    """The command itself, whose help is a table of contents."""

    def get_params(self, ctx: Any) -> list[Any]:
        """What it takes before a command, help included."""
        return taken_as_written(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page with the commands, chapter by chapter."""
        formatter.write("\n\n".join(_page(self, ctx)))


def _page(command: HelpfulCommand | HelpfulGroup, context: Any) -> Iterator[str]:
    text = cleandoc(command.help or "") + "\n"
    topics = {title: cleandoc(block) for title, block in _TOPIC.findall(text)}
    examples = topics.pop("Examples", None)
    shown = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    arguments = [one for one in shown if isinstance(one, TyperArgument)]
    options = [one for one in shown if isinstance(one, TyperOption)]
    yield _usage(command, context, arguments, options)
    for paragraph in _TOPIC.sub("", text).strip().split("\n\n"):
        yield "\n".join(_wrapped(paragraph, _width()))
    if arguments:
        yield _section("Arguments", [(_named(one), _told(one)) for one in arguments])
    for title, block in topics.items():
        yield _section(title, [_split(line) for line in block.splitlines()])
    if isinstance(command, TyperGroup):
        yield from _contents(command, context)
    by_topic: dict[str, list[Row]] = {"Options": [], GENERAL: []}
    for one in sorted(options, key=lambda one: not one.required):
        topic = GENERAL if one.name == "help" else one.rich_help_panel or "Options"
        by_topic.setdefault(topic, []).append((_spelled(one, context), _told(one)))
    # What every command has is told after what only this one has.
    for topic in sorted(by_topic, key=lambda one: one == GENERAL):
        if by_topic[topic]:
            yield _section(topic, by_topic[topic])
    if examples is not None:
        lines = re.sub(r"\s*\\\n\s*", " ", examples).splitlines()
        yield "\n".join([_heading("Examples"), *map(_to_copy, lines)])


def _usage(
    command: HelpfulCommand | HelpfulGroup,
    context: Any,
    arguments: Sequence[TyperArgument],
    options: Sequence[TyperOption],
) -> str:
    """One line to copy: what must be given, by name, and that there is more."""
    given = [_named(one) if one.required else f"[{_named(one)}]" for one in arguments]
    given += [f"{one.opts[0]} {_value(one, context)}" for one in options if one.required]
    if isinstance(command, TyperGroup):
        given.append("COMMAND")
    words = " ".join([context.command_path, *given, "[options]"])
    return f"{_heading('Usage')}\n  {words}"


def _contents(group: TyperGroup, context: Any) -> Iterator[str]:
    chapters: dict[str, list[Row]] = {}
    for name in group.list_commands(context):
        command = group.commands[name]
        first = cleandoc(command.help or "").partition("\n\n")[0]
        chapter = getattr(command, "rich_help_panel", None) or "Commands"
        chapters.setdefault(chapter, []).append((name, " ".join(first.split())))
    for chapter, rows in chapters.items():
        yield _section(chapter, rows, left=max(map(len, group.commands)))


def _section(title: str, rows: Sequence[Row], left: int = 0) -> str:
    """A heading, and names on the left of what is said of them."""
    column = 2 + max(left, *(len(name) for name, _ in rows if len(name) <= _LEFT), 0) + 2
    lines = [_heading(title)]
    for name, told in rows:
        wrapped = _wrapped(told, _width() - column) or [""]
        if len(name) > _LEFT:
            lines.append(f"  {name}")
            lines += [" " * column + line for line in wrapped]
        else:
            lines.append(f"  {name:{column - 2}}{wrapped[0]}".rstrip())
            lines += [" " * column + line for line in wrapped[1:]]
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _to_copy(line: str) -> str:
    """A line for the shell, which may go on below."""
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


def _split(line: str) -> Row:
    name, _, told = line.strip().partition("  ")
    return name, told.strip()


def _named(argument: TyperArgument) -> str:
    return argument.metavar or argument.name.upper()


def _spelled(option: TyperOption, context: Any) -> str:
    flags = sorted(option.opts, key=len)
    value = _value(option, context)
    return " ".join([", ".join(flags), *([value] if value else [])])


def _value(option: TyperOption, context: Any) -> str:
    """The word for its value; a switch has none, and few choices are named."""
    if option.is_flag:
        return ""
    return option.metavar or (option.display_type(context) or "").strip("<>")


def _told(one: TyperOption | TyperArgument) -> str:
    parts = [one.help or ""]
    if one.required and not isinstance(one, TyperArgument):
        parts.append("(required)")
    elif one.show_default and one.default not in (None, False, "", [], ()):
        parts.append(f"(default: {getattr(one.default, 'value', one.default)})")
    return " ".join(parts)


def _heading(text: str) -> str:
    return typer.style(text, bold=True)


def _width() -> int:
    return max(50, min(shutil.get_terminal_size().columns, _WIDEST))
