"""Schema files: read from and written to TOML."""

from __future__ import annotations

import os
import re
import tomllib
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.data.schema.advice import key, section
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchies import ROOT, Calendar, Mask, Removal, Tree, Widths, spell
from sfumato.data.schema.parser import Parser
from sfumato.data.schema.toml_document import Lines, read_text
from sfumato.filesystem import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchies import Hierarchy
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit

# Longer arrays are written over several lines.
_LONG_LINE = 100


_HEAD = """\
# Whatever this file declares counts as public. What stands behind a '#' under a column was seen in
# the rows, bounds only about: uncomment what everybody may know, and correct it first.
"""
# Comments behind the proposed lines of an undeclared table.
_SEEN = {
    "bounds": "seen about; public only if you say so",
    "values": "seen; public only if you say so",
    "nullable": "no value is missing; public only if you say so",
}
_UNIT = "seen about; where a person can have several rows. Without it each row is a person"


def _section(column: Column, folder: Path, note: str | None, seen: Column) -> str:
    comment = "".join(sign if sign.isprintable() else " " for sign in note or "")
    lines = [f"# {comment}"] if comment else []
    lines.append(section(column.name))
    declared = _facts(column, folder)
    lines += [f"{name} = {_value(fact)}" for name, fact in declared.items()]
    lines += [
        f"# {name} = {_value(fact, broken=False)}   # {_SEEN[name]}"
        for name, fact in _facts(seen, folder).items()
        if name not in declared
    ]
    return "\n".join(lines) + "\n"


def _unit(unit: Unit, seen: Unit) -> str:
    if seen != unit:  # TOML allows the key once, so the default unit is left out
        return f"# unit = {_value(seen.facts())}   # {_UNIT}"
    return f"unit = {_value(unit.facts() or 'row')}"


def _facts(column: Column, folder: Path) -> dict[str, object]:
    facts = column_facts(column)
    if column.hierarchy is not None:
        facts["hierarchy"] = _hierarchy(column.hierarchy, folder)
    return facts


def column_facts(column: Column) -> dict[str, object]:
    """The keys and values of a column except its hierarchy; defaults are left out."""
    facts: dict[str, object] = {"role": str(column.role), "kind": str(column.kind)}
    if column.spelling is not None:
        facts |= column.spelling.keys
    if isinstance(column.domain, Values):
        facts["values"] = column.domain.values
    elif isinstance(column.domain, Bounds):
        facts["bounds"] = (column.domain.low, column.domain.high)
        if column.domain.step is not None:
            facts["step"] = column.domain.step
    if column.length is not None:
        facts["length"] = column.length
    if not column.nullable:
        facts["nullable"] = False
    return facts


def _hierarchy(hierarchy: Hierarchy, folder: Path) -> dict[str, object]:
    match hierarchy:
        case Tree(source=None):
            return {"tree": _branches(hierarchy), **({"seen": True} if hierarchy.seen else {})}
        case Tree(source=source):
            return {"file": os.path.relpath(str(source), folder.resolve())}
    return rule_facts(hierarchy)


def rule_facts(hierarchy: Hierarchy) -> dict[str, object]:
    """The key and value of a hierarchy that is a rule."""
    match hierarchy:
        case Mask(side=side):
            return {"mask": str(side)}
        case Widths(widths=widths):
            return {"widths": widths}
        case Calendar(steps=steps):
            return {"dates": tuple(map(str, steps))}
        case Removal():
            return {"tree": ROOT}
    raise TypeError(f"{type(hierarchy).__name__} has no form in TOML")


def _branches(tree: Tree) -> object:
    if len(tree.ancestors[0]) == 1:
        return tree.leaves
    top: dict[str, object] = {}
    for leaf, ancestors in zip(tree.leaves, tree.ancestors, strict=True):
        # From the root's child down to the parent, whose array takes the leaf.
        *groups, parent = reversed(ancestors[:-1])
        branch = top
        for group in groups:
            branch = branch.setdefault(group, {})  # type: ignore[assignment]  # tables above
        branch.setdefault(parent, []).append(leaf)  # type: ignore[attr-defined]  # array below
    return top


def _value(value: object, *, broken: bool = True) -> str:
    """Write a value as TOML; long arrays take several lines where `broken`."""
    match value:
        case Decimal():
            text = spell(value)
            return text if "." in text else f"{text}.0"
        case bool() | int() | date():
            return spell(value)
        case str():
            import tomlkit  # most commands write no schema, and start without it

            return tomlkit.string(value).as_string()
        case dict():
            pairs = (f"{key(name)} = {_value(item)}" for name, item in value.items())
            return f"{{ {', '.join(pairs)} }}"
        case tuple() | list():
            items = [_value(item) for item in value]
            line = f"[{', '.join(items)}]"
            if len(line) <= _LONG_LINE or not broken:
                return line
            return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
    raise TypeError(f"{type(value).__name__} has no form in TOML")


MOST_MEBIBYTES = 1

_AT_LINE = re.compile(r"(?P<problem>.*) \(at line (?P<line>\d+), column \d+\)", re.DOTALL)
_LONG_NUMBER = re.compile(r"[0-9_]{4000}|[eE][+-]?[0-9_]{9}")


def load(path: Path) -> Schema:
    """Read a schema file; paths of hierarchy files in it are relative to the file."""
    text = read_text(path, title="Schema file", most_mebibytes=MOST_MEBIBYTES)
    return parse(text, str(path), path.parent)


def dump(
    schema: Schema,
    *,
    folder: Path,
    notes: Mapping[str, str] | None = None,
    seen: Schema | None = None,
) -> str:
    """Write a schema as TOML for a file in `folder`.

    Parameters
    ----------
    schema : Schema
        What is declared.
    folder : Path
        The folder of the file; paths of hierarchy files are written relative to it.
    notes : mapping, optional
        For columns by name, a comment above the section.
    seen : Schema, optional
        The same schema with what `inspect` read from the rows. What it declares beyond `schema` is
        written as comments: rows are private until the owner confirms it.
    """
    known = seen or schema
    unit = _unit(schema.unit, known.unit)
    head = f"{_HEAD if seen else ''}table = {_value(schema.table)}\n{unit}\n"
    if schema.form is not None:
        head += f"form = {_value(schema.form.facts())}\n"
    facts = schema.layout.facts()
    file = "".join(f"{key} = {_value(fact)}\n" for key, fact in facts.items())
    sections = [f"[file]\n{file}"] if facts else []
    sections += [
        _section(column, folder, (notes or {}).get(column.name), known.column(column.name))
        for column in schema.columns
    ]
    sections += [
        f"[[constraints]]\n{constraint.key} = {_value(constraint.fact)}\n"
        for constraint in schema.constraints
    ]
    return "\n".join([head, *sections])


def save(
    schema: Schema,
    path: Path,
    *,
    overwrite: bool = False,
    notes: Mapping[str, str] | None = None,
    seen: Schema | None = None,
    private: bool = False,
) -> None:
    """Write a schema file atomically, as `dump` does; only its owner can read a `private` one."""
    text = dump(schema, folder=path.parent, notes=notes, seen=seen)
    write_text(path, text, overwrite=overwrite, private=private)


def parse(text: str, name: str, folder: Path) -> Schema:
    """Read a schema from text; errors name the file `name`, hierarchy files lie in `folder`."""
    lines = Lines(text, name)
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        if position := _AT_LINE.fullmatch(str(error)):
            problem, line = position["problem"], int(position["line"])
        else:
            problem, line = str(error).removesuffix(" (at end of document)"), text.count("\n") + 1
        message = f"not valid TOML: {' '.join(problem.split())}."
        raise lines.error_on("schema_syntax", line, message) from None
    except (ValueError, ArithmeticError):
        # Python refuses integers of thousands of digits and exponents of many digits.
        long = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, long.start()) + 1 if long else 1
        raise lines.error_on("schema_syntax", line, "a number is too long.") from None
    return Parser(lines, folder).schema(document)
