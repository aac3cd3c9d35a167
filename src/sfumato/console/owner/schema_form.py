"""A schema as a form: what stands in each field, and what is wrong with it, beside the field.

What a person typed is brought into the words of the schema file and read by the loader of that, so
that a form declares exactly what a file could. A column whose fields were left as they are stays
the very column that it was. Decision `console`.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

KEPT = "…"
"""What stands in a field for a list that is too long for one: left there, the list stays."""
MOST_LINES = 2000
"""Longer lists of values are not shown in a field."""
YES = "yes"
"""What a box says that is ticked."""
HIERARCHIES = ("", "mask right", "mask left", "widths", "dates", "removal", "tree")
KINDS, ROLES = tuple(map(str, Kind)), tuple(map(str, Role))
UNIT, MAX_ROWS, MAX_GROUPS, STATE = "unit", "max_rows", "max_groups", "state"
ROW = "row"
_WHOLE_NUMBERS = ("length", *(key for key, kind in SPELLING_KEYS.items() if kind is int))
_HIERARCHY = ("hierarchy", "rule", "seen")


@dataclass(frozen=True)
class EditedSchema:
    """What a form says: a schema, or what is wrong by the name of the field."""

    fields: Mapping[str, str]
    """What stands in the fields now, right or wrong."""
    schema: Schema | None = None
    errors: Mapping[str, str] = field(default_factory=dict)


def state_of(schema: Schema) -> str:
    """A few letters that are others once the schema is another: nobody overwrites unseen."""
    text = dump(schema, folder=Path())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fields_of(schema: Schema) -> dict[str, str]:
    """All fields of a schema's form with what stands in them; a column's begin with its place."""
    unit = schema.unit
    found = {
        STATE: state_of(schema),
        UNIT: " and ".join(unit.columns) or ROW,
        MAX_ROWS: str(unit.max_rows) if unit.columns else "",
        MAX_GROUPS: str(unit.facts().get("max_groups", "")),
    }
    for place, column in enumerate(schema.columns):
        found |= {f"c{place}.{name}": one for name, one in _fields(column).items()}
    return found


def edited(
    schema: Schema,
    posted: Mapping[str, str],
    folder: Path,
    *,
    seen: Schema | None = None,
    with_unit: bool = True,
) -> EditedSchema:
    """A schema as a form has it; `seen` is what a ticked box may declare of a column.

    Without its unit a form is of a data set whose people were promised one.
    """
    fields = {name: posted.get(name, "") for name in fields_of(schema)}
    if fields[STATE] != state_of(schema):
        words = "The schema was changed meanwhile. What you see is as it is now; edit it again."
        return EditedSchema(fields_of(schema), errors={STATE: words})
    errors: dict[str, str] = {}
    columns = []
    for place, column in enumerate(schema.columns):
        if posted.get(f"c{place}.drop") == YES:
            continue
        met = None if seen is None else seen.column(column.name)
        said = {name: posted.get(f"c{place}.{name}", "") for name in _fields(column)}
        take = posted.get(f"c{place}.take") == YES
        form = _ColumnForm(column, said, folder, met if take else None)
        found = form.column()
        errors |= {f"c{place}{name and f'.{name}'}": one for name, one in form.errors.items()}
        columns.append(found or column)
    unit = _unit(schema, fields, errors) if with_unit else schema.unit
    if errors:
        return EditedSchema(fields, errors=errors)
    try:
        made = replace(schema, columns=tuple(columns), unit=unit)
    except (SchemaError, ParameterError) as error:
        at = UNIT if error.parameter == "unit" else ""
        return EditedSchema(fields, errors={at: in_fields(error)})
    return EditedSchema(fields, made)


def _unit(schema: Schema, fields: Mapping[str, str], errors: dict[str, str]) -> Unit:
    """What tells people apart, and what bounds each."""
    relation = schema.unit.relation
    if len(schema.unit.columns) > 1:  # rows of two people: a form has no words for another pair
        return schema.unit
    if fields[UNIT] == ROW:
        return Rows(relation=relation)
    numbers: dict[str, int | None] = {}
    for name in (MAX_ROWS, MAX_GROUPS):
        said = fields[name].strip()
        try:
            numbers[name] = int(str(from_text(said, Kind.INTEGER))) if said else None
        except SchemaError as error:
            errors[name] = in_fields(error)
    most = numbers.get(MAX_ROWS)
    if most is None:
        errors.setdefault(MAX_ROWS, "Say how many rows of one person are used at most.")
        return schema.unit
    try:
        return Entity(fields[UNIT], most, numbers.get(MAX_GROUPS), relation)
    except (SchemaError, ParameterError) as error:
        errors[MAX_GROUPS if error.parameter == "max_groups" else MAX_ROWS] = in_fields(error)
        return schema.unit


def _fields(column: Column) -> dict[str, str]:
    """What stands in the fields of one column."""
    domain, spelling = column.domain, column.spelling
    found = {"kind": str(column.kind), "role": str(column.role)}
    ends = (domain.low, domain.high) if isinstance(domain, Bounds) else ("", "")
    found["low"], found["high"] = (one if isinstance(one, str) else spell(one) for one in ends)
    step = domain.step if isinstance(domain, Bounds) else None
    found["step"] = "" if step is None else spell(step)
    listed = [spell(one) for one in domain.values] if isinstance(domain, Values) else []
    found["values"] = _lines(listed)
    found["length"] = "" if column.length is None else str(column.length)
    found["nullable"] = YES if column.nullable else ""
    keys = {} if spelling is None else spelling.keys
    found |= {key: str(keys.get(key, "")) for key in SPELLING_KEYS}
    return found | dict(zip(_HIERARCHY, _hierarchy_fields(column.hierarchy), strict=True))


def _lines(texts: list[str]) -> str:
    if len(texts) > MOST_LINES or any(one.strip() != one or "\n" in one for one in texts):
        return KEPT
    return "\n".join(texts)


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
        case Tree(leaves=leaves, ancestors=ways, seen=seen):
            if len(leaves) > MOST_LINES:
                return "tree", KEPT, YES if seen else ""
            stream = StringIO()
            rows = ((spell(leaf), *way) for leaf, way in zip(leaves, ways, strict=True))
            csv.writer(stream, lineterminator="\n").writerows(rows)
            return "tree", stream.getvalue().rstrip("\n"), YES if seen else ""
    return "", "", ""


def _field_at(place: KeyPath) -> str:
    """The field of a column that a place in a schema file is about."""
    _, _, *keys = (*place, "", "", "")
    if keys[0] == "hierarchy":
        return "rule" if keys[1] else "hierarchy"
    return "low" if keys[0] == "bounds" else str(keys[0])


class _Noted(Lines):
    """In place of lines of a file: which key a refusal was about."""

    def __init__(self) -> None:
        super().__init__("", "")
        self.place: KeyPath = ()

    def error(self, code: str, place: KeyPath, message: str) -> SchemaError:
        """An error whose place is remembered."""
        self.place = place
        return SchemaError(code, message[:1].upper() + message[1:])


class _ColumnForm:
    """The fields of one column as they were sent, and what is wrong with them."""

    def __init__(
        self, column: Column, said: Mapping[str, str], folder: Path, seen: Column | None
    ) -> None:
        self._column, self._folder, self._seen = column, folder, seen
        self._said = {name: one.replace("\r\n", "\n") for name, one in said.items()}
        self._shown = _fields(column)
        self._kind = Kind(said["kind"]) if said["kind"] in KINDS else Kind.TEXT
        self._number = Kind.REAL if self._kind is Kind.REAL else Kind.INTEGER
        self.errors: dict[str, str] = {}

    def column(self) -> Column | None:
        """The column that they declare; None where something is wrong."""
        if self._said == self._shown and self._seen is None:
            return self._column
        facts = self._facts()
        tree = self._tried("rule", self._tree)
        if self.errors:
            return None
        noted, name = _Noted(), self._column.name
        document: dict[str, object] = {"table": "t", "columns": {name: facts}}
        try:
            [made] = Parser(noted, self._folder).schema(document).columns
        except (SchemaError, ParameterError) as error:
            self.errors[_field_at(noted.place)] = in_fields(error)
            return None
        made = replace(made, domain=self._domain(made))
        return self._tried("rule", lambda: replace(made, hierarchy=tree)) if tree else made

    def _domain(self, made: Column) -> Domain | None:
        """What was seen, where nothing else is said and the box for it is ticked."""
        if self._seen is None or made.domain is not None or self._seen.kind is not made.kind:
            return made.domain
        return self._seen.domain

    def _facts(self) -> dict[str, Any]:
        """The keys of a schema file that the fields stand for."""
        said = self._said
        facts: dict[str, Any] = {"kind": said["kind"], "role": said["role"]}
        facts["nullable"] = said["nullable"] == YES
        for key in SPELLING_KEYS:
            if said[key] and key not in _WHOLE_NUMBERS:
                facts[key] = said[key]
        for name in _WHOLE_NUMBERS:
            if said[name].strip():
                facts[name] = self._value(name, said[name], Kind.INTEGER)
        facts |= self._domain_facts()
        rule = self._rule()
        return facts | ({"hierarchy": rule} if rule else {})

    def _domain_facts(self) -> dict[str, Any]:
        said, facts, kind = self._said, dict[str, Any](), self._kind
        ends = {name: said[name].strip() for name in ("low", "high")}
        if any(ends.values()):
            for name, one in ends.items():
                if not one:
                    self.errors[name] = "Give both ends, or neither."
            facts["bounds"] = [self._value(name, one, kind) for name, one in ends.items()]
        if said["step"].strip():
            facts["step"] = self._value("step", said["step"], self._number)
        domain = self._column.domain
        if said["values"].strip() == KEPT and isinstance(domain, Values):
            facts["values"] = list(domain.values)
        elif words := [one.strip() for one in said["values"].split("\n") if one.strip()]:
            facts["values"] = [self._value("values", one, kind) for one in words]
        return facts

    def _rule(self) -> dict[str, Any]:
        """The hierarchy as a file has it, but for a tree."""
        chosen, rule = self._said["hierarchy"], self._said["rule"]
        words = [one.strip() for one in rule.replace("\n", ",").split(",") if one.strip()]
        if chosen.startswith("mask "):
            return {"mask": chosen.removeprefix("mask ")}
        if chosen == "widths":
            return {"widths": [self._value("rule", one, self._number) for one in words]}
        if chosen == "dates":
            return {"dates": words or "all"}
        if chosen == "removal":
            return {"tree": ROOT}
        if chosen not in HIERARCHIES:
            self.errors["hierarchy"] = f"Choose one of {', '.join(HIERARCHIES[1:])}, or none."
        return {}

    def _tree(self) -> Hierarchy | None:
        """The tree that the lines of the field are, from each value up to the root."""
        if self._said["hierarchy"] != "tree":
            return None
        if all(self._said[name] == self._shown[name] for name in _HIERARCHY):
            return self._column.hierarchy
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(StringIO(self._said["rule"]), skipinitialspace=True)
            if any(cell.strip() for cell in row)
        ]
        leaves = tuple(from_text(row[0], self._kind) for row in rows)
        ways = tuple((*row[1:], *((ROOT,) if row[-1] != ROOT else ())) for row in rows)
        return Tree(leaves, ways, seen=self._said["seen"] == YES)

    def _value(self, name: str, text: str, kind: Kind) -> Any:
        return self._tried(name, lambda: from_text(text.strip(), kind))

    def _tried(self, name: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (SchemaError, ParameterError, csv.Error) as error:
            self.errors.setdefault(name, getattr(error, "message", str(error)))
            return None
