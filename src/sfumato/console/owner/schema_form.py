"""A schema as a form: the fields of its columns, and errors beside the fields.

The fields are turned into the keys of a schema file and read by the parser of such files, so a form
can declare exactly what a file can. A column with unchanged fields stays the very same column.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.console.forms import YES
from sfumato.data.schema.column import Kind, Role, from_text
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import ROOT, Calendar, Mask, Removal, Tree, Widths, spell
from sfumato.data.schema.schema_file import Parser, dump
from sfumato.data.schema.spelling import SPELLING_KEYS
from sfumato.data.schema.toml_document import Lines
from sfumato.data.schema.unit import Entity, Rows
from sfumato.errors import ParameterError, SchemaError, in_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Domain
    from sfumato.data.schema.hierarchy import Hierarchy
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.toml_document import KeyPath
    from sfumato.data.schema.unit import Unit

UNSHOWN = "…"
"""Stands in a field for a list that is too long to show. Left unchanged, it keeps the list."""
MOST_LINES = 2000
"""The longest list of values that a field shows."""
HIERARCHIES = ("", "mask right", "mask left", "widths", "dates", "removal", "tree")
KINDS, ROLES = tuple(map(str, Kind)), tuple(map(str, Role))
UNIT, MAX_ROWS, MAX_GROUPS, STATE = "unit", "max_rows", "max_groups", "state"
ROW = "row"
_INTEGER_KEYS = ("length", *(key for key, kind in SPELLING_KEYS.items() if kind is int))
_HIERARCHY = ("hierarchy", "rule", "seen")


@dataclass(frozen=True)
class EditedSchema:
    """A form that was sent: its schema, or an error by field."""

    fields: Mapping[str, str]
    """The texts in the fields, right or wrong."""
    schema: Schema | None = None
    errors: Mapping[str, str] = field(default_factory=dict)


def state_of(schema: Schema) -> str:
    """A short hash of a schema. A form carries it, so nobody overwrites a change unseen."""
    text = dump(schema, folder=Path())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fields_of(schema: Schema) -> dict[str, str]:
    """The fields of a schema's form. Those of the first column begin with "c0."."""
    unit = schema.unit
    fields = {
        STATE: state_of(schema),
        UNIT: " and ".join(unit.columns) or ROW,
        MAX_ROWS: str(unit.max_rows) if unit.columns else "",
        MAX_GROUPS: str(unit.facts().get("max_groups", "")),
    }
    for number, column in enumerate(schema.columns):
        fields |= {f"c{number}.{name}": text for name, text in _column_fields(column).items()}
    return fields


def edit_schema(
    schema: Schema,
    posted: Mapping[str, str],
    folder: Path,
    *,
    seen: Schema | None = None,
    with_unit: bool = True,
) -> EditedSchema:
    """Read the form of a schema.

    Parameters
    ----------
    schema
        The schema that the form was made from.
    posted
        The fields as they were sent.
    folder
        The folder of the schema file, which relative paths in it start from.
    seen
        The schema with the domains observed in rows. A ticked box declares one of these public.
    with_unit
        Whether the form may change the privacy unit. For a data set of the vault it may not: its
        people already have a guarantee for this unit.
    """
    # Only the fields of this schema: a forged form cannot add columns.
    fields = {name: posted.get(name, "") for name in fields_of(schema)}
    # Two owners, or two tabs, may edit at the same time: the second must see the first change.
    if fields[STATE] != state_of(schema):
        problem = "The schema was changed meanwhile. This is the current one; edit it again."
        return EditedSchema(fields_of(schema), errors={STATE: problem})
    errors: dict[str, str] = {}
    # All columns are read before anything is refused, so that all errors are shown at once.
    columns = []
    for number, column in enumerate(schema.columns):
        if posted.get(f"c{number}.drop") == YES:
            continue
        texts = {name: posted.get(f"c{number}.{name}", "") for name in _column_fields(column)}
        takes_seen = seen is not None and posted.get(f"c{number}.take") == YES
        form = _ColumnForm(
            column, texts, folder, seen.column(column.name) if seen and takes_seen else None
        )
        columns.append(form.column() or column)
        errors |= {
            f"c{number}{name and f'.{name}'}": problem for name, problem in form.errors.items()
        }
    unit = _read_unit(schema, fields, errors) if with_unit else schema.unit
    if errors:
        return EditedSchema(fields, errors=errors)
    try:
        edited = replace(schema, columns=tuple(columns), unit=unit)
    except (SchemaError, ParameterError) as error:
        name = UNIT if error.parameter == "unit" else ""
        return EditedSchema(fields, errors={name: in_fields(error)})
    return EditedSchema(fields, edited)


def _read_unit(schema: Schema, fields: Mapping[str, str], errors: dict[str, str]) -> Unit:
    relation = schema.unit.relation
    if len(schema.unit.columns) > 1:  # rows about two people: the form cannot express another pair
        return schema.unit
    if fields[UNIT] == ROW:
        return Rows(relation=relation)
    limits: dict[str, int | None] = {}
    for name in (MAX_ROWS, MAX_GROUPS):
        text = fields[name].strip()
        try:
            limits[name] = int(str(from_text(text, Kind.INTEGER))) if text else None
        except SchemaError as error:
            errors[name] = in_fields(error)
    max_rows = limits.get(MAX_ROWS)
    if max_rows is None:
        errors.setdefault(MAX_ROWS, "Give the largest number of rows to use per person.")
        return schema.unit
    try:
        return Entity(fields[UNIT], max_rows, limits.get(MAX_GROUPS), relation)
    except (SchemaError, ParameterError) as error:
        errors[MAX_GROUPS if error.parameter == "max_groups" else MAX_ROWS] = in_fields(error)
        return schema.unit


def _column_fields(column: Column) -> dict[str, str]:
    domain, spelling = column.domain, column.spelling
    fields = {"kind": str(column.kind), "role": str(column.role)}
    bounds = (domain.low, domain.high) if isinstance(domain, Bounds) else ("", "")
    fields["low"], fields["high"] = (
        bound if isinstance(bound, str) else spell(bound) for bound in bounds
    )
    step = domain.step if isinstance(domain, Bounds) else None
    fields["step"] = "" if step is None else spell(step)
    values = [spell(value) for value in domain.values] if isinstance(domain, Values) else []
    # A value with blanks around it, or with a line break, would not survive a field of lines.
    is_shown = len(values) <= MOST_LINES and not any(
        value.strip() != value or "\n" in value for value in values
    )
    fields["values"] = "\n".join(values) if is_shown else UNSHOWN
    fields["length"] = "" if column.length is None else str(column.length)
    fields["nullable"] = YES if column.nullable else ""
    keys = {} if spelling is None else spelling.keys
    fields |= {key: str(keys.get(key, "")) for key in SPELLING_KEYS}
    return fields | dict(zip(_HIERARCHY, _hierarchy_fields(column.hierarchy), strict=True))


def _hierarchy_fields(hierarchy: Hierarchy | None) -> tuple[str, str, str]:
    match hierarchy:
        case Mask(side=side):
            return f"mask {side}", "", ""
        case Widths(widths=widths):
            return "widths", ", ".join(map(spell, widths)), ""
        case Calendar(steps=steps):
            return "dates", ", ".join(map(str, steps)), ""
        case Removal():
            return "removal", "", ""
        case Tree(leaves=leaves, ancestors=ancestors, seen=seen):
            if len(leaves) > MOST_LINES:
                return "tree", UNSHOWN, YES if seen else ""
            stream = StringIO()
            rows = ((spell(leaf), *labels) for leaf, labels in zip(leaves, ancestors, strict=True))
            csv.writer(stream, lineterminator="\n").writerows(rows)
            return "tree", stream.getvalue().rstrip("\n"), YES if seen else ""
    return "", "", ""


class _ErrorKey(Lines):
    """Stands in for the lines of a schema file and remembers the key that an error is about."""

    def __init__(self) -> None:
        super().__init__("", "")
        self.key: KeyPath = ()

    def error(self, code: str, key: KeyPath, message: str) -> SchemaError:
        """Make an error and remember its key."""
        self.key = key
        return SchemaError(code, message[:1].upper() + message[1:])

    @property
    def field(self) -> str:
        """The field of a column for the remembered key, such as columns.age.bounds."""
        _, _, name, part, *_ = (*self.key, "", "", "", "")
        if name == "hierarchy":
            return "rule" if part else "hierarchy"
        return "low" if name == "bounds" else str(name)


class _ColumnForm:
    """The fields of one column as they were sent. `column` collects errors by field."""

    def __init__(
        self, column: Column, texts: Mapping[str, str], folder: Path, seen: Column | None
    ) -> None:
        self._column, self._folder, self._seen = column, folder, seen
        self._texts = {name: text.replace("\r\n", "\n") for name, text in texts.items()}
        self._shown = _column_fields(column)
        self._kind = Kind(texts["kind"]) if texts["kind"] in KINDS else Kind.TEXT
        self._number = Kind.REAL if self._kind is Kind.REAL else Kind.INTEGER
        self.errors: dict[str, str] = {}

    def column(self) -> Column | None:
        """The column that the fields declare; None if any is wrong."""
        # Not read back from its texts: lists too long to show, and spellings, would be lost.
        if self._texts == self._shown and self._seen is None:
            return self._column
        keys = self._file_keys()
        tree = self._try("rule", self._tree)
        if self.errors:
            return None
        # Through the parser of files: a form can declare nothing that a file could not.
        lines, name = _ErrorKey(), self._column.name
        document: dict[str, object] = {"table": "t", "columns": {name: keys}}
        try:
            [column] = Parser(lines, self._folder).schema(document).columns
        except (SchemaError, ParameterError) as error:
            self.errors[lines.field] = in_fields(error)
            return None
        column = replace(column, domain=self._domain(column))
        return self._try("rule", lambda: replace(column, hierarchy=tree)) if tree else column

    def _domain(self, column: Column) -> Domain | None:
        """The declared domain, else the observed one if its box is ticked."""
        if self._seen is None or column.domain is not None or self._seen.kind is not column.kind:
            return column.domain
        return self._seen.domain

    def _file_keys(self) -> dict[str, Any]:
        """The keys of a schema file that the fields stand for, except a tree."""
        texts = self._texts
        keys: dict[str, Any] = {"kind": texts["kind"], "role": texts["role"]}
        keys["nullable"] = texts["nullable"] == YES
        for key in SPELLING_KEYS:
            if texts[key] and key not in _INTEGER_KEYS:
                keys[key] = texts[key]
        for name in _INTEGER_KEYS:
            if texts[name].strip():
                keys[name] = self._value(name, texts[name], Kind.INTEGER)
        keys |= self._domain_keys()
        rule = self._hierarchy_keys()
        return keys | ({"hierarchy": rule} if rule else {})

    def _domain_keys(self) -> dict[str, Any]:
        texts, keys, kind = self._texts, dict[str, Any](), self._kind
        bounds = {name: texts[name].strip() for name in ("low", "high")}
        if any(bounds.values()):
            for name, bound in bounds.items():
                if not bound:
                    self.errors[name] = "Give both bounds, or neither."
            keys["bounds"] = [self._value(name, bound, kind) for name, bound in bounds.items()]
        if texts["step"].strip():
            keys["step"] = self._value("step", texts["step"], self._number)
        domain = self._column.domain
        if texts["values"].strip() == UNSHOWN and isinstance(domain, Values):
            keys["values"] = list(domain.values)
        elif lines := [line.strip() for line in texts["values"].split("\n") if line.strip()]:
            keys["values"] = [self._value("values", line, kind) for line in lines]
        return keys

    def _hierarchy_keys(self) -> dict[str, Any]:
        """The hierarchy as a schema file has it, except a tree."""
        kind, rule = self._texts["hierarchy"], self._texts["rule"]
        steps = [step.strip() for step in rule.replace("\n", ",").split(",") if step.strip()]
        if kind.startswith("mask "):
            return {"mask": kind.removeprefix("mask ")}
        if kind == "widths":
            return {"widths": [self._value("rule", step, self._number) for step in steps]}
        if kind == "dates":
            return {"dates": steps or "all"}
        if kind == "removal":
            return {"tree": ROOT}
        if kind not in HIERARCHIES:
            self.errors["hierarchy"] = f"Choose one of {', '.join(HIERARCHIES[1:])}, or none."
        return {}

    def _tree(self) -> Hierarchy | None:
        """The tree in the field: a line per value with its labels up to the root."""
        if self._texts["hierarchy"] != "tree":
            return None
        # An unchanged tree is kept as it is: texts would lose the types of its leaves.
        if all(self._texts[name] == self._shown[name] for name in _HIERARCHY):
            return self._column.hierarchy
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(StringIO(self._texts["rule"]), skipinitialspace=True)
            if any(cell.strip() for cell in row)
        ]
        leaves = tuple(from_text(row[0], self._kind) for row in rows)
        ancestors = tuple((*row[1:], *((ROOT,) if row[-1] != ROOT else ())) for row in rows)
        return Tree(leaves, ancestors, seen=self._texts["seen"] == YES)

    def _value(self, name: str, text: str, kind: Kind) -> Any:
        return self._try(name, lambda: from_text(text.strip(), kind))

    def _try(self, name: str, read: Callable[[], Any]) -> Any:
        """Read a field; None and an error beside the field if its text is wrong."""
        try:
            return read()
        except (SchemaError, ParameterError, csv.Error) as error:
            self.errors.setdefault(name, getattr(error, "message", str(error)))
            return None
