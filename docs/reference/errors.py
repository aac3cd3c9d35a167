"""Write errors.md: every error code with its exit code, cause and cure, and an example message.

Codes and messages are read from the source, causes and cures from errors.tsv.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
PAGE = Path(__file__).with_suffix(".md")
INTERRUPTED = 130
HEAD = """# Error codes

Written by `make reference` from the source and from `errors.tsv`. A code names a kind of mistake;
where it is about one parameter, the field `parameter` of the error names it. Exit code 2: the
caller's mistake. 3: refused for privacy. 1: our fault, or the machine's. 130: interrupted. In an
example message, braces stand for what is filled in, and parameters are spelled as in Python.

| code | exit | cause | cure | example message |
|---|---|---|---|---|
"""
KINDS = PAGE.with_suffix(".tsv")


def exit_codes() -> dict[str, int]:
    """The exit code of every error class."""
    from sfumato import errors

    return {
        name: value.exit_code
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.SfumatoError)
    }


@dataclass(frozen=True)
class Refuser:
    """A class of errors, or a function that makes one of a code it is given."""

    place: int
    """Where the code stands among the arguments."""
    exit_code: int | None
    """None where the call says it."""


def page() -> str:
    """The whole page."""
    messages: dict[str, str] = {}
    exits: dict[str, set[int]] = {}
    for _, code, exit_code, message in codes():
        messages[code] = max(messages.get(code, ""), message, key=len)
        exits.setdefault(code, set()).add(exit_code)
    lines = []
    for code, message in sorted(messages.items()):
        cause, cure = kinds().get(code, ("", ""))
        example = "" if message == "{...}" else message
        exit_codes_of = " or ".join(map(str, sorted(exits[code])))
        lines.append(f"| `{code}` | {exit_codes_of} | {cause} | {cure} | {example} |")
    return HEAD + "\n".join(lines) + "\n"


@cache
def kinds() -> dict[str, tuple[str, str]]:
    """The cause and the cure of every code, as errors.tsv lists them."""
    lines = (line.split("\t") for line in KINDS.read_text(encoding="utf-8").splitlines())
    return {code: (cause, cure) for code, cause, cure in lines}


def codes() -> Iterator[tuple[Path, str, int, str]]:
    """Every place in the source that gives a code, with its exit code and its message."""
    calls: list[Call] = []
    classes: list[ast.ClassDef] = []
    for path in sorted(SOURCE.rglob("*.py")):
        _collect(calls, classes, path, ast.parse(path.read_text()))
    yield from _codes(calls, _with_derived(exit_codes(), classes))
    for code in ("parameter_type_wrong", "parameter_out_of_range"):  # chosen by exact_numbers
        yield SOURCE / "exact_numbers.py", code, exit_codes()["ParameterError"], "{...}"


@dataclass(frozen=True)
class Call:
    """A call, and the class and the function in which it stands."""

    path: Path
    within: str
    function: ast.FunctionDef | None
    node: ast.Call

    @cached_property
    def name(self) -> tuple[Path | None, str]:
        """What is called; a private function is one of its own module."""
        match self.node.func:
            case ast.Name(id=called) | ast.Attribute(attr=called):
                pass
            case _:  # what another call or a place in a table gives has no name
                called = ""
        return _known_as(self.path, self.within if called == "cls" else called)


def _known_as(path: Path, name: str) -> tuple[Path | None, str]:
    return path if name.startswith("_") else None, name


def _collect(
    calls: list[Call],
    classes: list[ast.ClassDef],
    path: Path,
    node: ast.AST,
    within: str = "",
    function: ast.FunctionDef | None = None,
) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            calls.append(Call(path, within, function, child))
        elif isinstance(child, ast.ClassDef):
            classes.append(child)
        _collect(
            calls,
            classes,
            path,
            child,
            child.name if isinstance(child, ast.ClassDef) else within,
            child if isinstance(child, ast.FunctionDef) else function,
        )


def _with_derived(leaving: Mapping[str, int], classes: Iterable[ast.ClassDef]) -> dict[str, int]:
    """The exit codes of errors, and of classes elsewhere that are made from them."""
    found = dict(leaving)
    known = 0
    while known < len(found):
        known = len(found)
        for one in classes:
            for base in map(ast.unparse, one.bases):
                if base in found:
                    found.setdefault(one.name, found[base])
    return found


def _codes(
    calls: Sequence[Call], leaving: Mapping[str, int]
) -> Iterator[tuple[Path, str, int, str]]:
    """Codes with their exit code and message: given to errors, or to functions that make them."""
    refusers = _refusers(calls, leaving)
    for call in calls:
        code = _code(call, refusers)
        if isinstance(code, ast.Constant) and isinstance(code.value, str):
            exit_code = refusers[call.name].exit_code
            leaving = _given(call) if exit_code is None else exit_code
            yield call.path, code.value, leaving, _words(call, code)


def _refusers(
    calls: Sequence[Call], leaving: Mapping[str, int]
) -> dict[tuple[Path | None, str], Refuser]:
    found: dict[tuple[Path | None, str], Refuser] = {
        (None, name): Refuser(0, exit_code) for name, exit_code in leaving.items()
    }
    found[None, "RequestError"] = Refuser(1, leaving["RequestError"])  # behind its status
    found[SOURCE / "cli" / "main.py", "_fail"] = Refuser(0, None)
    known = 0
    while known < len(found):  # a function may hand its code to another one
        known = len(found)
        for call in calls:
            code = _code(call, found)
            if call.function is None or not isinstance(code, ast.Name):
                continue
            names = [one.arg for one in call.function.args.args if one.arg != "self"]
            if code.id in names:
                refuser = Refuser(names.index(code.id), found[call.name].exit_code)
                found.setdefault(_known_as(call.path, call.function.name), refuser)
    return found


def _code(call: Call, refusers: Mapping[tuple[Path | None, str], Refuser]) -> ast.expr | None:
    """The argument of a call that is an error's code."""
    refuser = refusers.get(call.name)
    if refuser is None or len(call.node.args) <= refuser.place:
        return None
    return call.node.args[refuser.place]


def _given(call: Call) -> int:
    """The exit code that the command line itself leaves with."""
    leaving = call.node.args[2]
    return leaving.value if isinstance(leaving, ast.Constant) else INTERRUPTED


def _words(call: Call, code: ast.Constant) -> str:
    """The longest text among the arguments, with the hint that ends it."""
    sentence = max(
        (_message(one) for one in call.node.args if one is not code), key=len, default=""
    )
    hints = [_message(named.value) for named in call.node.keywords if named.arg == "hint"]
    return " ".join([sentence, *hints])


def _option(node: ast.expr) -> str:
    """A parameter that a message names, as Python spells it."""
    match node:
        case ast.Call(func=ast.Name(id="option"), args=[ast.Constant(value=str(name)), *values]):
            return f"{name}={' '.join(map(_value, values)) or ('...' if node.keywords else '')}"
    return ""


def _value(node: ast.expr) -> str:
    return (
        "{...}" if any(isinstance(part, ast.Name) for part in ast.walk(node)) else ast.unparse(node)
    )


def _message(node: ast.expr) -> str:
    """The words of a message; what is filled in stands in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value).replace("|", "\\|")
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_message, node.values))
    if isinstance(node, ast.FormattedValue):
        return _option(node.value) or "{...}"
    if isinstance(node, ast.BinOp):
        return _message(node.left) + _message(node.right)
    return "{...}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    PAGE.write_text(page())
