"""Schema files: read from and written to TOML. Errors name the line."""

from __future__ import annotations

import os
import re
import tomllib
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.data.schema.column import Column, Kind, Role, check_ordered, from_toml
from sfumato.data.schema.constraints import (
    CONSTRAINT_KEYS,
    DeclaredRows,
    FunctionalDependency,
    ImpossibleCombination,
    OrderedColumns,
    UniqueKey,
    check_constraint,
)
from sfumato.data.schema.domain import Bounds, Domain, Values
from sfumato.data.schema.hierarchy import (
    ROOT,
    Calendar,
    Mask,
    Removal,
    Side,
    Step,
    Tree,
    Widths,
    read_tree,
    spell,
)
from sfumato.data.schema.layout import FileLayout, separator_of
from sfumato.data.schema.names import clash, quoted, suggestion
from sfumato.data.schema.schema import Edges, Form, Items, Points, Schema
from sfumato.data.schema.spelling import SPELLING_KEYS, spelling_of
from sfumato.data.schema.toml_document import Lines, read_text, section_header, toml_key
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Ties, Unit
from sfumato.errors import ParameterError, SchemaError
from sfumato.filesystem import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from enum import StrEnum
    from pathlib import Path

    from sfumato.data.schema.constraints import Constraint
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.hierarchy import Hierarchy
    from sfumato.data.schema.spelling import Spelling
    from sfumato.data.schema.toml_document import KeyPath
    from sfumato.data.schema.unit import Unit

    Choice = TypeVar("Choice", bound=StrEnum)


_KEYS = ("table", "unit", "form", "file", "columns", "constraints")
_FILE_KEYS = ("encoding", "separator", "sheet", "header_row")
_COLUMN_KEYS = (
    "role", "kind", "values", "bounds", "step", "length", "hierarchy", "nullable", *SPELLING_KEYS,
)  # fmt: skip
_HIERARCHY_KEYS = ("mask", "widths", "dates", "tree", "file")
_UNIT_KEYS = ("column", "people", "max_rows", "max_groups", "relation")
_FORM_KEYS = ("edges", "points", "items")

_NAMES: dict[type, str] = {
    str: "a text in quotes",
    bool: "true or false",
    dict: "a table",
    list: "an array",
    int: "a whole number",
}

T = TypeVar("T")


class Parser:
    """Parser of one document; paths of its hierarchy files are relative to `folder`."""

    def __init__(self, lines: Lines, folder: Path) -> None:
        self._lines = lines
        self._folder = folder

    def schema(self, document: dict[str, object]) -> Schema:
        """Read the whole document."""
        self._known(document, _KEYS, ())
        table = self._need(document, "table", str, ())
        declared = self._need(document, "columns", dict, ())
        columns = tuple(self._column(name, declared[name]) for name in declared)
        unit = self._unit(document.get("unit", "row"), ("unit",))
        layout = self._layout(document.get("file", {}), ("file",))
        constraints = self._constraints(document.get("constraints", []), columns)
        form = self._form(document["form"], ("form",)) if "form" in document else None
        try:
            return Schema(table, columns, unit, layout, constraints, form)
        except SchemaError as error:
            key_path: KeyPath = ("table",)
            if error.parameter in ("unit", "form"):
                key_path = (error.parameter,)
            elif pair := clash(declared):
                key_path = ("columns", list(declared)[pair[1]])
            raise self._lines.error(error.code, key_path, error.sentence) from None

    def _unit(self, raw: object, key_path: KeyPath) -> Unit:
        if raw == "row":
            return Rows()
        if not isinstance(raw, dict):
            message = 'unit must be "row" or { column = "...", max_rows = ... }.'
            raise self._lines.error("schema_malformed", key_path, message)
        self._known(raw, _UNIT_KEYS, key_path)
        relation = Neighbours.ADD_REMOVE
        if "relation" in raw:
            relation = self._choice(Neighbours, raw["relation"], (*key_path, "relation"))
        if set(raw) == {"relation"}:
            return Rows(relation=relation)
        if "people" in raw:
            return self._ties(raw, key_path)
        column = self._need(raw, "column", str, key_path)
        most = self._need(raw, "max_rows", int, key_path)
        groups = self._need(raw, "max_groups", int, key_path) if "max_groups" in raw else None
        with self._at(key_path):
            return Entity(column, most, groups, relation)

    def _ties(self, raw: dict[str, object], key_path: KeyPath) -> Ties:
        self._known(raw, ("people", "max_rows"), key_path)
        people = self._two(self._need(raw, "people", object, key_path), (*key_path, "people"))
        most = self._need(raw, "max_rows", int, key_path)
        with self._at(key_path):
            return Ties(people, most)

    def _form(self, raw: object, key_path: KeyPath) -> Form:
        table = self._require_type(raw, dict, key_path)
        self._known(table, _FORM_KEYS, key_path)
        if len(table) != 1:
            message = f"a form is exactly one of {', '.join(_FORM_KEYS)}."
            raise self._lines.error("schema_malformed", key_path, message)
        [(key, value)] = table.items()
        at = (*key_path, key)
        if key == "edges":
            ends = self._two(value, at)
            with self._at(at):
                return Edges(*ends)
        roles = self._require_type(value, dict, at)
        if key == "points":
            self._known(roles, ("path", "time", "at"), at)
            path, time = (self._need(roles, role, str, at) for role in ("path", "time"))
            coordinates = self._two(self._need(roles, "at", object, at), (*at, "at"))
            with self._at(at):
                return Points(path, time, *coordinates)
        self._known(roles, ("of", "item", "rating", "time"), at)
        owner, item = (self._need(roles, role, str, at) for role in ("of", "item"))
        optional = {
            role: self._need(roles, role, str, at) for role in ("rating", "time") if role in roles
        }
        with self._at(at):
            return Items(owner, item, **optional)

    def _two(self, raw: object, key_path: KeyPath) -> tuple[str, str]:
        """Read the names of two columns."""
        names = self._columns(raw, key_path)
        if len(names) != 2:
            message = f'{key_path[-1]!r} must name two columns, such as ["from", "to"].'
            raise self._lines.error("schema_malformed", key_path, message)
        return names[0], names[1]

    def _layout(self, raw: object, key_path: KeyPath) -> FileLayout:
        table = self._require_type(raw, dict, key_path)
        self._known(table, _FILE_KEYS, key_path)
        layout = FileLayout()
        for key, value in table.items():  # one at a time, so that an error has its line
            fact = self._require_type(value, int if key == "header_row" else str, (*key_path, key))
            setting: Any = separator_of(str(fact)) if key == "separator" else fact
            with self._at((*key_path, key)):
                layout = replace(layout, **{key: setting})
        return layout

    def _column(self, name: str, raw: object) -> Column:
        key_path: KeyPath = ("columns", name)
        table = self._require_type(raw, dict, key_path)
        self._known(table, _COLUMN_KEYS, key_path)
        kind = self._choice(Kind, self._need(table, "kind", str, key_path), (*key_path, "kind"))
        role = self._choice(Role, table.get("role", "other"), (*key_path, "role"))
        nullable = self._require_type(table.get("nullable", True), bool, (*key_path, "nullable"))
        domain = self._domain(name, kind, table, key_path)
        spelling = self._spelling(table, kind, key_path)
        hierarchy = None
        if "hierarchy" in table:
            at = (*key_path, "hierarchy")
            hierarchy = self._hierarchy(table["hierarchy"], kind, spelling, at)
        length = self._need(table, "length", int, key_path) if "length" in table else None
        try:
            return Column(name, kind, role, domain, hierarchy, nullable, length, spelling)
        except SchemaError as error:
            key = error.parameter
            if key == "spelling":
                key = next(key for key in SPELLING_KEYS if key in table)
            at = (*key_path, key) if key is not None and key in table else key_path
            raise self._lines.error(error.code, at, error.sentence) from None

    def _spelling(self, table: dict[str, object], kind: Kind, key_path: KeyPath) -> Spelling | None:
        keys: dict[str, object] = {}
        for key, value_type in SPELLING_KEYS.items():
            if key in table and not (key == "percent" and table[key] is False):
                value = table[key]
                at = (*key_path, key)
                keys[key] = (
                    value
                    if key == "percent" and value is True
                    else self._require_type(value, value_type, at)
                )
        try:
            return spelling_of(kind, keys)
        except SchemaError as error:
            key = error.parameter if error.parameter in keys else next(iter(keys))
            raise self._lines.error(error.code, (*key_path, key), error.sentence) from None

    def _domain(
        self, name: str, kind: Kind, table: dict[str, object], key_path: KeyPath
    ) -> Domain | None:
        if "values" in table and "bounds" in table:
            message = f"column {quoted(name)} has both values and bounds; keep one."
            raise self._lines.error("schema_malformed", (*key_path, "bounds"), message)
        if "step" in table and "bounds" not in table:
            message = f"column {quoted(name)} has a step without bounds; add bounds = [low, high]."
            raise self._lines.error("bounds_invalid", (*key_path, "step"), message)
        if "values" in table:
            values = self._values(table["values"], kind, (*key_path, "values"))
            with self._at((*key_path, "values")):
                return Values(tuple(values))
        if "bounds" in table:
            return self._bounds(name, kind, table, key_path)
        return None

    def _bounds(self, name: str, kind: Kind, table: dict[str, object], key_path: KeyPath) -> Bounds:
        at = (*key_path, "bounds")
        with self._at(at):
            check_ordered(name, kind)
        ends = self._values(table["bounds"], kind, at)
        if len(ends) != 2:
            message = f"bounds must be [low, high]; {len(ends)} given."
            raise self._lines.error("bounds_invalid", at, message)
        step: Scalar | None = None
        if "step" in table:
            step_kind = Kind.REAL if kind is Kind.REAL else Kind.INTEGER
            with self._at((*key_path, "step")):
                step = from_toml(table["step"], step_kind)
        with self._at(at):
            return Bounds(ends[0], ends[1], step)  # type: ignore[arg-type]  # kinds with order

    def _values(self, raw: object, kind: Kind, key_path: KeyPath) -> list[Scalar]:
        values = []
        for index, item in enumerate(self._require_type(raw, list, key_path)):
            with self._at((*key_path, index)):
                values.append(from_toml(item, kind))
        return values

    def _hierarchy(
        self, raw: object, kind: Kind, spelling: Spelling | None, key_path: KeyPath
    ) -> Hierarchy:
        table = dict(self._require_type(raw, dict, key_path))
        self._known(table, (*_HIERARCHY_KEYS, "seen"), key_path)
        seen = self._require_type(table.pop("seen", False), bool, (*key_path, "seen"))
        if len(table) != 1 or (seen and "tree" not in table):
            message = (
                f"a hierarchy has exactly one of {', '.join(_HIERARCHY_KEYS)}; seen goes with tree."
            )
            raise self._lines.error("schema_malformed", key_path, message)
        [(key, value)] = table.items()
        at = (*key_path, key)
        if key == "mask":
            return Mask(self._choice(Side, value, at))
        if key == "widths":
            return self._widths(value, kind, at)
        if key == "dates":
            return self._calendar(value, at)
        if key == "file":
            path = self._folder / self._require_type(value, str, at)
            with self._at(at):
                return read_tree(path, kind, spelling)
        if value == ROOT and not seen:
            return Removal()
        rows = list(self._branches(value, kind, at, ()))
        with self._at(at):
            leaves, ancestors = zip(*rows, strict=True) if rows else ((), ())
            return Tree(leaves, ancestors, seen=seen)

    def _widths(self, raw: object, kind: Kind, key_path: KeyPath) -> Widths:
        number = Kind.REAL if kind is Kind.REAL else Kind.INTEGER
        widths = self._values(raw, number, key_path)
        with self._at(key_path):
            return Widths(tuple(widths))  # type: ignore[arg-type]  # all of one number type

    def _calendar(self, raw: object, key_path: KeyPath) -> Calendar:
        if raw == "all":
            return Calendar()
        items = self._require_type(raw, list, key_path)
        steps = tuple(self._choice(Step, step, (*key_path, i)) for i, step in enumerate(items))
        with self._at(key_path):
            return Calendar(steps)

    def _branches(
        self, raw: object, kind: Kind, key_path: KeyPath, above: tuple[str, ...]
    ) -> Iterator[tuple[Scalar, tuple[str, ...]]]:
        """Yield every value of nested tables with its labels, from the parent up to the root."""
        if isinstance(raw, dict):
            for label, below in raw.items():
                yield from self._branches(below, kind, (*key_path, label), (label, *above))
            return
        if not isinstance(raw, list):
            message = "a tree is made of tables of groups that end in arrays of values."
            raise self._lines.error("schema_malformed", key_path, message)
        for leaf in self._values(raw, kind, key_path):
            yield leaf, (*above, "*")

    def _constraints(self, raw: object, columns: tuple[Column, ...]) -> tuple[Constraint, ...]:
        known = {column.name: column for column in columns}
        key_path: KeyPath = ("constraints",)
        read = []
        for index, item in enumerate(self._require_type(raw, list, key_path)):
            table = self._require_type(item, dict, (*key_path, index))
            self._known(table, CONSTRAINT_KEYS, (*key_path, index))
            if len(table) != 1:
                message = f"a constraint has exactly one of {', '.join(CONSTRAINT_KEYS)}."
                raise self._lines.error("schema_malformed", (*key_path, index), message)
            [key] = table
            at = (*key_path, index, key)
            read.append(self._constraint(key, table[key], known, at))
            with self._at(at):
                check_constraint(read[-1], known)
        return tuple(read)

    def _constraint(
        self, key: str, raw: object, known: dict[str, Column], key_path: KeyPath
    ) -> Constraint:
        if key == "rows":
            return DeclaredRows(self._require_type(raw, int, key_path))
        if key == "unique":
            return UniqueKey(self._columns(raw, key_path))
        if key == "ordered":
            return OrderedColumns(self._columns(raw, key_path))
        table = self._require_type(raw, dict, key_path)
        if key == "determines":
            self._known(table, ("from", "to"), key_path)
            sides = [
                self._columns(self._need(table, side, object, key_path), (*key_path, side))
                for side in ("from", "to")
            ]
            return FunctionalDependency(*sides)
        cells = []
        for name, held in table.items():
            # `check_constraint` refuses an unknown column; until then any kind will do.
            kind = known[name].kind if name in known else Kind.TEXT
            listed = held if isinstance(held, list) else [held]
            values = self._values(listed, kind, (*key_path, name)) if name in known else []
            cells.append((name, tuple(values)))
        return ImpossibleCombination(tuple(cells))

    def _columns(self, raw: object, key_path: KeyPath) -> tuple[str, ...]:
        """Read one column name or an array of them."""
        if not isinstance(raw, list):
            return (self._require_type(raw, str, key_path),)
        return tuple(self._require_type(name, str, (*key_path, i)) for i, name in enumerate(raw))

    def _known(self, table: dict[str, object], keys: tuple[str, ...], key_path: KeyPath) -> None:
        for key in table:
            if key not in keys:
                message = f"unknown key {quoted(key)}; {suggestion(key, keys)}"
                raise self._lines.error("schema_malformed", (*key_path, key), message)

    def _need(
        self, table: dict[str, object], key: str, value_type: type[T], key_path: KeyPath
    ) -> T:
        if key not in table:
            message = f"the key {key!r} is missing{' here' if key_path else ''}; add it."
            raise self._lines.error("schema_malformed", key_path, message)
        return self._require_type(table[key], value_type, (*key_path, key))

    def _require_type(self, raw: object, value_type: type[T], key_path: KeyPath) -> T:
        if not isinstance(raw, value_type) or (isinstance(raw, bool) and value_type is not bool):
            message = f"{key_path[-1]!r} must be {_NAMES[value_type]}."
            raise self._lines.error("schema_malformed", key_path, message)
        return raw

    def _choice(self, choices: type[Choice], raw: object, key_path: KeyPath) -> Choice:
        names = [str(choice) for choice in choices]
        text = self._require_type(raw, str, key_path)
        if text not in names:
            message = f"{quoted(text)} is not allowed here; {suggestion(text, names)}"
            raise self._lines.error("schema_malformed", key_path, message)
        return choices(text)

    @contextmanager
    def _at(self, key_path: KeyPath) -> Iterator[None]:
        """Add the line of a key to an error that a constructor raises."""
        try:
            yield
        except (SchemaError, ParameterError) as error:
            raise self._lines.error(error.code, key_path, error.sentence) from None


# Longer arrays are written over several lines.
_LONG_LINE = 100


_HEAD = """\
# Everything that this file declares counts as public. The lines that start with '#' come from the
# rows (bounds are rounded). Correct and uncomment those that are public knowledge.
"""
# Comments behind the proposed lines of an undeclared table.
_SEEN = {
    "bounds": "from the rows, rounded; uncomment only if public",
    "values": "from the rows; uncomment only if public",
    "nullable": "no value is missing; uncomment only if public",
}
_UNIT = "from the rows, rounded; without this line each row is a person"


def _section(column: Column, folder: Path, note: str | None, seen: Column) -> str:
    comment = "".join(sign if sign.isprintable() else " " for sign in note or "")
    lines = [f"# {comment}"] if comment else []
    lines.append(section_header(column.name))
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
    """Return the keys and values of a column except its hierarchy; defaults are left out."""
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
    """Return the key and value of a hierarchy that is a rule."""
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
            pairs = (f"{toml_key(name)} = {_value(item)}" for name, item in value.items())
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
        raise lines.error_on("schema_malformed", line, message) from None
    except (ValueError, ArithmeticError):
        # Python refuses integers of thousands of digits and exponents of many digits.
        long = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, long.start()) + 1 if long else 1
        raise lines.error_on("schema_malformed", line, "a number is too long.") from None
    return Parser(lines, folder).schema(document)
