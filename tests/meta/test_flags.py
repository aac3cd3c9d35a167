"""Messages name flags that exist, and those of the command that says them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from sfumato.anonymize.perturbative_release import PERTURBATIVE
from sfumato.anonymize.pipeline import check_options
from sfumato.anonymize.search import SEARCHES
from sfumato.cli.main import MODULE_OF, build
from sfumato.cli.process import as_flag, in_flags
from sfumato.errors import Option, ParameterError
from sfumato.operations.table import METHOD_COMMANDS, NOUNS

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"
FLAG = re.compile(r"(?<![\w(-])--[a-z][a-z-]*")
NAMED = re.compile(r"sfumato (?P<command>[a-z]+)[^`'\"]*?(?P<flag>--[a-z][a-z-]*)")

FLAGLESS = {"report/palette.py", "methods/programs/sandbox/bubblewrap.py"}
"""Where two dashes begin the variables of a style sheet, or the flags of another program."""

RAISED_BY: dict[str, set[str]] = {
    "anonymize/pipeline.py": {"anonymize"},
    "anonymize/alternatives.py": {"anonymize", "synthesize"},
    "anonymize/perturbative_release.py": {"anonymize"},
    "anonymize/criteria/request.py": {"anonymize"},
    "anonymize/measure.py": {"measure"},
    "attack/evaluation/evaluate.py": {"evaluate"},
    "attack/comparison/compare.py": {"compare"},
    "vault/candidates.py": {"synthesize"},
    "attack/evaluation": {"evaluate"},
    "anonymize": {"anonymize", "measure", "worlds"},
    "data/inspection": {"inspect"},
    "methods/publish": set(METHOD_COMMANDS),
    "methods/query": set(METHOD_COMMANDS),
}
"""The commands that can say the messages of a module or a package; of others all can."""

MAY_SPELL = {
    "anonymize/page.py",
    "attack/evaluation/page.py",
    "release/page.py",
    "release/page_parts.py",
    "operations/private_methods.py",
}
"""Modules below the doors that quote the command: examples, and pages that show what to type."""


@cache
def flags() -> dict[str, set[str]]:
    """The flags of every command, those of the program itself under no name."""
    root: Any = typer.main.get_command(build())
    found = {"": _of(root)}
    # The list of all commands has no sub-commands of nouns and no parameters of methods.
    whole = [typer.main.get_command(build(word)) for word in (*NOUNS, *METHOD_COMMANDS)]
    waiting: list[tuple[str, Any]] = [("", group) for group in (root, *whole)]
    while waiting:
        first, group = waiting.pop()
        for name, command in getattr(group, "commands", {}).items():
            found.setdefault(first or name, set()).update(_of(command) | {"--help"})
            waiting.append((first or name, command))
    return found


def _of(command: Any) -> set[str]:
    return {
        flag
        for one in command.params
        for flag in (*one.opts, *one.secondary_opts)
        if flag.startswith("--")
    }


def spoken(path: Path) -> list[tuple[int, str]]:
    """The texts of a module but for docstrings, with their lines; gaps of f-strings are gaps."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= set(map(id, node.values))
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            found.append((node.lineno, "".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [] if id(node) in silent else [(node.lineno, node.value)]
    return found


def sayers(path: Path) -> set[str]:
    """The commands that can say what a module says."""
    inside = path.relative_to(SOURCE).as_posix()
    if path.parent.name == "cli":
        modules = {command: MODULE_OF.get(command, command) for command in flags()}
        if commands := {command for command, module in modules.items() if module == path.stem}:
            return {*commands, ""}
    for place, commands in RAISED_BY.items():
        if inside == place or inside.startswith(f"{place}/"):
            return {*commands, ""}
    return set(flags())


def test_messages_name_flags_that_exist() -> None:
    mistakes = [mistake for path in sorted(SOURCE.rglob("*.py")) for mistake in misspelt(path)]
    assert mistakes == []


def misspelt(path: Path) -> Iterator[tuple[str, int, str, str]]:
    """Texts of a module that name a flag which their command lacks, or name one at all."""
    inside = path.relative_to(SOURCE)
    if inside.as_posix() in FLAGLESS or inside.parts[0] == "testing":
        return
    known = set().union(*(flags()[command] for command in sayers(path)))
    may_spell = inside.parts[0] in {"cli", "demo"} or inside.as_posix() in MAY_SPELL
    for line, text in spoken(path):
        named = list(NAMED.finditer(text))
        for match in named:
            if match["flag"] not in flags().get(match["command"], set()):
                yield inside.as_posix(), line, match["flag"], text
        written = set(FLAG.findall(text))
        for flag in written - known - {match["flag"] for match in named}:
            yield inside.as_posix(), line, flag, text
        if written and not may_spell:
            yield inside.as_posix(), line, "Name the parameter by errors.option.", text


def test_parameters_that_errors_name_are_flags() -> None:
    strange = [
        (path.relative_to(SOURCE).as_posix(), line, name)
        for path in sorted(SOURCE.rglob("*.py"))
        if "cli" not in path.parts and "sfumato.errors import" in path.read_text(encoding="utf-8")
        for line, name in options_named(path)
        if as_flag(Option(name, None, ""))
        not in set().union(*(flags()[command] for command in sayers(path)))
    ]
    assert strange == []


def options_named(path: Path) -> Iterator[tuple[int, str]]:
    """The parameters that a module names by `errors.option`, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id="option"), args=[ast.Constant(value=str(name)), *_]):
                yield node.lineno, name


def test_the_options_that_a_refusal_lists_are_flags() -> None:
    takes = {name for one in SEARCHES.values() for name in one.takes}
    takes |= {name for other in PERTURBATIVE.values() for name in other.takes}
    with pytest.raises(ParameterError) as refusal:
        check_options("perturb", dict.fromkeys(takes - {"sensitive"}, True), [])
    listed = set(FLAG.findall(in_flags(refusal.value)))
    assert {f"--{name.replace('_', '-')}" for name in takes - {"weights"}} == listed
    assert listed <= flags()["anonymize"]
