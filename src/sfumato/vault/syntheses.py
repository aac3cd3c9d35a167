"""Synthesizing a data set: the request from public facts, and the synthetic tables.

What cannot be written is refused before the charge: decision `charge-order`.
"""

from __future__ import annotations

import csv
import os
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato import arguments
from sfumato.data.engines.sources import open_source
from sfumato.data.files.writers import check_letters, layout_for
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.names import count, quoted, suggestion, untaken
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import OutputError, ParameterError, QueryError, SchemaError, option
from sfumato.filesystem import check_target
from sfumato.methods.method import KindPlan
from sfumato.methods.options import several
from sfumato.methods.synth.encode.decoder import lost_constraints
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.error_bars import answered, table_named
from sfumato.methods.synth.linked_model import Link, LinkedModel
from sfumato.methods.synth.linked_request import (
    CHILD_MODEL,
    CHILD_ROWS,
    KEY_KINDS,
    LinkedRequest,
    LinkedSide,
)
from sfumato.methods.synth.methods import FORMS
from sfumato.methods.synth.request import MODEL, NAMING, ROWS, WEIGHING, SynthesisRequest
from sfumato.methods.synth.synthesis_model import SynthesisModel
from sfumato.release.codec import unreadable_answer
from sfumato.release.files_in_use import vault_files_around
from sfumato.release.output import check_places
from sfumato.vault.answer import Answer
from sfumato.vault.publications import FormPublished, form_request, refuse_useless
from sfumato.vault.publications import check_targets as check_published
from sfumato.vault.publications import result as published

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Entity
    from sfumato.methods.query.sql.tables import PrivateRows
    from sfumato.methods.synth.request import ColumnSets
    from sfumato.privacy.accounting.price import Price
    from sfumato.release.output import OutputFiles
    from sfumato.vault.session import Facts, Offer


def column_names(columns: Sequence[str] | str | None, schema: Schema) -> tuple[str, ...]:
    """The columns that are asked for, each once; all of the schema's where nobody says."""
    if columns is None:
        return tuple(column.name for column in schema.columns)
    names = several(columns, "columns")
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "columns_invalid", "Name at least one column to synthesize, and each only once."
        )
    return names


def targeted(names: Sequence[str], target: str) -> ColumnSets:
    """Each column together with the one that others are to be told by."""
    check_drawn((target,), names)
    return tuple((target, name) for name in names if name != target) or ((target,),)


def read_sets(workload: Sequence[Sequence[str]] | str | Path | None) -> ColumnSets:
    """Sets of columns: given, or a file of one a line."""
    if workload is None:
        return ()
    if isinstance(workload, str | Path):
        path = arguments.path(workload, "workload")
        text = read_text(path, title="Workload", most_mebibytes=1)
        workload = [row for row in csv.reader(text.splitlines()) if row]
    sets = tuple(several(columns, "workload") for columns in arguments.require(
        workload, "workload", (list, tuple), "a list of lists of columns, or a file"
    ))  # fmt: skip
    if not sets:
        raise ParameterError(
            "parameter_missing",
            "The workload names no set of columns. Write one a line, such as age,sex; or leave out "
            f"{option('workload')}.",
            parameter="workload",
        )
    for columns in sets:
        if not columns or len(set(columns)) < len(columns):
            raise ParameterError(
                "columns_invalid",
                f"A set of the workload must name columns, and each only once, not "
                f"{arguments.shown(','.join(columns))}.",
            )
    return sets


def check_drawn(asked: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns that are not among those that are measured."""
    for name in asked:
        if name not in names:
            raise ParameterError(
                "column_unknown",
                f"Column {quoted(name)} is not among those that are measured: "
                f"{', '.join(map(quoted, names))}. Name one of them.",
            )


# A data set and its children: what may be synthesized together, from public facts alone.
#
# Decision `linked-tables`.


@dataclass(frozen=True)
class LinkedPair:
    """A parent and a child table as they are declared, and the key of each."""

    parent: PrivateRows
    child: PrivateRows
    parent_unit: Entity
    child_unit: Entity

    @property
    def schemas(self) -> tuple[Schema, Schema]:
        """What is declared of the parent, and of the child."""
        return self.parent.schema, self.child.schema


def linked_pair(facts: Facts, child: object, key: object) -> LinkedPair:
    """The two tables that are asked for; refused unless a person has the same key in both."""
    parent = facts.declared
    if child is None or key is None:
        told = (
            f"{option('key', metavar='COLUMN')} says which row of {quoted(parent.schema.table)} a "
            "child belongs to"
        )
        raise ParameterError(
            "options_conflict",
            f"A child table needs {option('child', metavar='NAME')} and "
            f"{option('key', metavar='COLUMN')}: {told}. Give both, or neither.",
        )
    name, asked = arguments.text(child, "child"), arguments.text(key, "key")
    if name == facts.dataset:
        raise ParameterError(
            "linked_table_invalid",
            f"Data set {quoted(name)} cannot be its own child. Name another data set of the vault "
            f"with {option('child')}.",
        )
    other = replace(facts, dataset=name).declared
    own, _, theirs = asked.partition("=")
    if not (parent.unit.by_person and other.unit.by_person):
        raise QueryError(
            "join_not_allowed",
            f"Cannot link {quoted(facts.dataset)} and {quoted(name)}: where each row is a person "
            "of its own, two private tables share nobody. Add both with "
            f"{option('unit', metavar='COLUMN')}.",
        )
    if parent.population != other.population or parent.unit.relation != other.unit.relation:
        raise QueryError(
            "join_not_allowed",
            f"Cannot link {quoted(facts.dataset)} and {quoted(name)}: they are about different "
            f"people. Add both with one {option('population')}.",
        )
    pair = LinkedPair(parent, other, parent.unit, other.unit)  # type: ignore[arg-type]
    _check_key(pair, (own, theirs or own))
    return pair


def _check_key(pair: LinkedPair, keys: tuple[str, str]) -> None:
    """Refuse a key that is not the person, declared alike, in both tables."""
    parent, child = (schema.column(key) for schema, key in zip(pair.schemas, keys, strict=True))
    units = (pair.parent_unit, pair.child_unit)
    for schema, unit, key in zip(pair.schemas, units, keys, strict=True):
        if unit.column != key:
            raise ParameterError(
                "linked_table_invalid",
                f"The people of {quoted(schema.table)} are told apart by {quoted(unit.column)}, "
                f"not by {quoted(key)}. A key must be the unit's column of both tables.",
            )
    if parent.kind not in KEY_KINDS:
        raise SchemaError(
            "linked_table_invalid",
            f"Column {quoted(parent.name)} is {parent.kind}, of which no fresh keys are made up. "
            "Declare a key as integer or text.",
        )
    told = [(one.kind, one.public_domain, one.length) for one in (parent, child)]
    if told[0] != told[1]:
        raise SchemaError(
            "linked_table_invalid",
            f"The key {quoted(parent.name)} of {quoted(pair.schemas[0].table)} is declared "
            f"otherwise than {quoted(child.name)} of {quoted(pair.schemas[1].table)}. Give both "
            "the same kind, bounds, values and length in their schemas.",
        )


def linked_request(
    pair: LinkedPair,
    price: Price,
    *,
    rows: int | None,
    columns: Sequence[str] | None,
    quantiles: Sequence[str] = (),
    weekdays: Sequence[str] = (),
    method: str,
    target: str | None,
    weighed: str | None = None,
    sets: ColumnSets,
) -> LinkedRequest:
    """The request of two tables. A child's model names columns of its parent `parent.column`.

    A target is measured with each other column of its model; a column that is `weighed` matters
    more than others there.
    """
    parent, child = pair.schemas
    for name in (*(columns or ()), *quantiles, *weekdays):
        if name not in [one.name for one in child.columns]:
            parent.column(name)  # or refused
    number = untaken(child.table, [one.name for one in parent.columns])
    bounds = Bounds(0, pair.child_unit.max_rows)
    counted = Column(number, Kind.INTEGER, domain=bounds, nullable=False)
    first = _plan(parent, pair.parent_unit, columns, (quantiles, weekdays), [counted])
    known = [one for one in first.output_columns if one not in first.invented]
    taken = [one.name for one in child.columns]
    seen = {one.name: untaken(f"{parent.table}.{one.name}", taken) for one in known}
    joined = [replace(one, name=seen[one.name]) for one in known]
    cut = [*quantiles, *(seen[name] for name in first.by_quantiles)]
    second = _plan(child, pair.child_unit, columns, (cut, weekdays), joined)
    plans = first.names, second.names
    named = _parted(target, sets, *plans)
    heavy: list[str | None] = [None, None]
    if weighed is not None:
        place = 0 if weighed in plans[0] else 1
        check_drawn((weighed,), plans[place])
        heavy[place] = weighed
    return LinkedRequest(
        parent=_side(parent, first, pair.parent_unit.bounded(1), named[0], heavy[0]),
        child=_side(child, second, pair.child_unit, named[1], heavy[1]),
        link=Link(pair.parent_unit.column, pair.child_unit.column, number, seen),
        price=price,
        method=method,
        rows=rows,
    )


def _plan(
    schema: Schema,
    unit: Entity,
    columns: Sequence[str] | None,
    asked: tuple[Sequence[str], Sequence[str]],
    more: Sequence[Column],
) -> Encoding:
    """What becomes of a table's columns, beside those that only its model has.

    Of what is asked for quantiles are of any of them, days of the week of the table's own.
    """
    names = [one.name for one in schema.columns]
    kept = names if columns is None else {unit.column, *columns}
    left_out = tuple(name for name in names if name not in kept)
    here = {*names, *(one.name for one in more)}
    cut = tuple(name for name in asked[0] if name in here)
    week = tuple(name for name in asked[1] if name in names)
    joined = replace(schema, columns=(*schema.columns, *more))
    return Encoding(joined, left_out, by_quantiles=cut, weekdays=week)


def _side(
    schema: Schema, encoding: Encoding, unit: Entity, sets: ColumnSets, target: str | None
) -> LinkedSide:
    names = [one.name for one in schema.columns]
    own = tuple(one.name for one in encoding.output_columns if one.name in names)
    return LinkedSide(
        dataset=schema.table, encoding=encoding, unit=unit, own=own, sets=sets, target=target
    )


def _parted(
    target: str | None, sets: ColumnSets, parent: list[str], child: list[str]
) -> tuple[ColumnSets, ColumnSets]:
    """The sets of columns of the parent's model, and those of the child's: what is in both, there.

    A target is measured with each other column of its model.
    """
    names = parent if target in parent else child
    if target is not None:
        sets = (*targeted(names, target), *sets)
    first = tuple(one for one in sets if set(one) <= set(parent))
    second = tuple(one for one in sets if one not in first)
    for one in second:
        check_drawn(one, child)
    return first, second


_TOLD = 8
"""So many sets of columns that were measured together are told."""


def check_beside(
    found: OutputFiles, beside: Sequence[Path | None], *, overwrite: bool, kept: Sequence[Path]
) -> None:
    """Refuse a page or a model where it cannot be written, or where something else of it goes."""
    taken = set(map(os.path.realpath, [found.path, *found.written]))
    for one in beside:
        if one is None:
            continue
        check_target(one, overwrite=overwrite, kept=(*kept, *vault_files_around(one)))
        if os.path.realpath(one) in taken:
            raise OutputError(
                "outputs_same",
                f"Cannot write '{one}': another part of the release goes there. Choose another "
                "name.",
            )
        taken.add(os.path.realpath(one))


@dataclass(frozen=True, repr=False)
class Synthesized(Answer):
    """Synthetic rows that were paid for, and the model and noisy tables that they came from."""

    model: SynthesisModel = field(kw_only=True)
    method: str = field(kw_only=True)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "Method": self.method, "Expected error": dict(self.error or {})}

    @property
    def drawn_from(self) -> dict[str, tuple[SynthesisModel, pa.Table]]:
        """The model behind each table, and its rows with all columns that the model has."""
        [name] = self.tables
        return {name: (self.model, self.table)}

    @property
    def in_short(self) -> Sequence[str]:
        """How many rows there are, and what was measured together."""
        told = []
        for name, (model, _) in self.drawn_from.items():
            table = self.tables[name]
            rows, columns = count(table.num_rows, "row"), count(table.num_columns, "column")
            together = [" with ".join(one) for one in model.measured if len(one) > 1]
            measured = "; ".join(together[:_TOLD]) or "nothing: every column is by itself"
            more = f"; and {len(together) - _TOLD:,} more" if len(together) > _TOLD else ""
            which = f" of {name}" if len(self.tables) > 1 else ""
            told.append(f"Generated {rows} of {columns}{which} with method {self.method}.")
            told.append(f"Measured together: {measured}{more}.")
            told += lost_constraints(model.encoding)
            unknown = [name for name, values in model.encoding.discovered_values.items()
                       if not values and name in table.column_names]  # fmt: skip
            if unknown:
                told.append(
                    f"Of {', '.join(unknown)} no value was frequent enough to be discovered: all "
                    "are 'other'. Where everybody may know the values, declare them in the schema."
                )
        return told

    def summary(self) -> dict[str, Any]:
        """The method, how many rows of which columns, and the sets that were measured."""
        return {
            "method": self.method,
            "rows": self.table.num_rows,
            "columns": self.table.column_names,
            "measured": [list(one) for one in self.model.measured],
        }

    def query(self, sql: str) -> pa.Table:
        """Answer a SELECT on the synthetic rows, free; each COUNT(*) is followed by its deviation.

        The deviation (`n_sd` behind `n`) is that of the noise and of how far rows are from the
        noisy count, by the best measured table that has all columns of the question; NULL where no
        table has them, or the question cuts a bin. Counts are of the drawn rows: with `rows` they
        and their deviations are about the true share of people, times so many rows.
        """
        return answered(arguments.text(sql, "sql"), self.table, self.model, _ask)

    def save(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        report: str | Path | None = None,
        model: str | Path | None = None,
    ) -> list[Path]:
        """Write the rows as any release does; the model with the noisy tables, too, if asked."""
        place = None if model is None else arguments.path(model, "model")
        if place is not None:
            page = None if report is None else arguments.path(report, "report")
            found = check_places(
                arguments.path(path, "path"), list(self.tables), overwrite=overwrite, kept=self.kept
            )
            check_beside(found, (page, place), overwrite=overwrite, kept=self.kept)
        beside = {} if place is None else {place: self._model_to_save.content}
        written = self._saved(path, overwrite=overwrite, report=report, beside=beside)
        return [*written, *beside]

    @property
    def _model_to_save(self) -> SynthesisModel | LinkedModel:
        return self.model


@dataclass(frozen=True, repr=False)
class LinkedTwins(Synthesized):
    """Synthetic rows of a parent and a child table; `model` is that of the parent alone."""

    linked: LinkedModel = field(kw_only=True)

    @property
    def _model_to_save(self) -> LinkedModel:
        return self.linked

    @property
    def drawn_from(self) -> dict[str, tuple[SynthesisModel, pa.Table]]:
        """The model behind each table, and its rows with all columns that the model has.

        These are the number of children too, and behind a child's own columns those of its parent.
        """
        models = (self.linked.parent, self.linked.child)
        rows = self.linked.with_model_columns(*self.tables.values())
        return dict(zip(self.tables, zip(models, rows, strict=True), strict=True))

    @property
    def models(self) -> dict[str, SynthesisModel]:
        """The model behind each table; that of the parent also has the number of children."""
        return dict(zip(self.tables, (self.linked.parent, self.linked.child), strict=True))

    def summary(self) -> dict[str, Any]:
        """The method, how many rows of which columns, the sets measured; the same of the child."""
        told = [
            {
                "rows": table.num_rows,
                "columns": table.column_names,
                "measured": [list(one) for one in self.models[name].measured],
            }
            for name, table in self.tables.items()
        ]
        return {"method": self.method, **told[0], "child": {"name": [*self.tables][1], **told[1]}}

    def query(self, sql: str) -> pa.Table:
        """Answer a SELECT on one of the tables, free; each COUNT(*) is followed by its deviation.

        Deviations are those of the noise and of how far rows are from the noisy count, by the best
        measured table that has all columns of the question; NULL where no table has them, or the
        question cuts a bin.
        """
        asked = arguments.text(sql, "sql")
        name = table_named(asked, list(self.tables))
        return answered(asked, self.tables[name], self.models[name], _ask)


def _ask(question: exp.Select, table: pa.Table) -> pa.Table:
    """Answer a question on a table in memory."""
    with closing(open_source(table)) as engine:
        asked = question.copy()
        for one in [*asked.find_all(exp.Table)]:
            one.replace(exp.alias_(engine.table.copy(), one.alias_or_name, table=True, quoted=True))
        return engine.run(asked)


_TABLE = "table"


def prepare(
    facts: Facts,
    offer: Offer,
    /,
    *,
    method: str = "auto",
    rows: int | None = None,
    columns: Sequence[str] | str | None = None,
    quantiles: Sequence[str] | str = (),
    weekdays: Sequence[str] | str = (),
    target: str | None = None,
    workload: Sequence[Sequence[str]] | str | Path | None = None,
    child: str | None = None,
    key: str | None = None,
    form: str | None = None,
    nodes: int | str | None = None,
    people: str | None = None,
    **options: object,
) -> SynthesisRequest | LinkedRequest | KindPlan:
    """Plan a synthesis from public facts alone; a workload may be a file."""
    schema = facts.declared.schema  # with the unit that the vault says
    kind = _form_named(schema, form)
    if kind != _TABLE:
        useless = {"quantiles": quantiles, "weekdays": weekdays,
                   "target": target, "workload": workload, "child": child, "key": key}  # fmt: skip
        title = f"A synthesis as {kind}"
        refuse_useless(title, useless)
        given = {"columns": columns, "method": None if method == "auto" else method,
                 "rows": rows, "nodes": nodes, "people": people, **options}  # fmt: skip
        request = form_request(facts, offer, FORMS[kind].form, title)
        asked = {name: value for name, value in given.items() if value is not None}
        made = FORMS[kind].make(request, asked, title)
        return KindPlan(kind, request, made, "synthesize")
    refuse_useless("A synthesis of a table", {"nodes": nodes, "people": people, **options})
    if rows is not None:
        arguments.whole(rows, "rows")
    cut = tuple(dict.fromkeys(several(quantiles, "quantiles"))) if quantiles else ()
    week = tuple(dict.fromkeys(several(weekdays, "weekdays"))) if weekdays else ()
    wanted = arguments.maybe_text(target, "target")
    weighed = wanted if method in WEIGHING else None
    measured = wanted if weighed is None else None
    if child is not None or key is not None:
        named = read_sets(workload)
        return linked_request(
            linked_pair(facts, child, key),
            facts.price(offer),
            rows=rows,
            columns=None if columns is None else column_names(columns, schema),
            quantiles=cut,
            weekdays=week,
            method=_method(method, named if measured is None else ((measured,), *named)),
            target=measured,
            weighed=weighed,
            sets=named,
        )
    return _of_table(facts, facts.price(offer), columns, (cut, week), (wanted, weighed),
                     method=method, rows=rows, workload=workload)  # fmt: skip


def _form_named(schema: Schema, wanted: str | None) -> str:
    """The form of the made-up data: the one asked for, or else the form of the schema."""
    if wanted is None:
        form = "" if schema.form is None else schema.form.name
        return next((name for name, kind in FORMS.items() if kind.form == form), _TABLE)
    if wanted not in (_TABLE, *FORMS):
        raise ParameterError(
            "choice_unknown",
            f"Nothing can be made up as {quoted(wanted)}; {suggestion(wanted, [_TABLE, *FORMS])}",
            parameter="form",
        )
    return wanted


def _of_table(
    facts: Facts,
    price: Price,
    columns: Sequence[str] | str | None,
    binned: tuple[tuple[str, ...], tuple[str, ...]],
    targets: tuple[str | None, str | None],
    *,
    method: str,
    rows: int | None,
    workload: Sequence[Sequence[str]] | str | Path | None,
) -> SynthesisRequest:
    """The request of one table: columns by quantiles and weekdays, a target and a weighed one."""
    schema, (cut, week), (wanted, weighed) = facts.declared.schema, binned, targets
    measured = wanted if weighed is None else None
    kept = [schema.column(one).name for one in column_names(columns, schema)]
    left_out = tuple(one.name for one in schema.columns if one.name not in kept)
    encoding = Encoding(schema, left_out, by_quantiles=cut, weekdays=week)
    names = encoding.names
    check_drawn(() if wanted is None else (wanted,), names)
    by_target = () if measured is None else targeted(names, measured)
    sets = (*by_target, *read_sets(workload))
    for one in sets:
        check_drawn(one, names)
    return SynthesisRequest(
        dataset=schema.table,
        encoding=encoding,
        unit=schema.unit,
        price=price,
        method=_method(method, sets),
        rows=rows,
        sets=sets,
        target=weighed,
    )


def without_files(
    _facts: Facts,
    /,
    *,
    workload: Sequence[Sequence[str]] | str | Path | None = None,
    **asked: object,
) -> dict[str, Any]:
    """What is asked, without files of this machine: as it is told to a vault elsewhere."""
    return {"workload": read_sets(workload) or None, **asked}


def _method(method: str, sets: ColumnSets) -> str:
    """The method by name; where sets are named and no method is, they are what is measured."""
    if sets and method == "auto":
        return "workload"
    if sets and method not in NAMING:
        raise ParameterError(
            "option_not_applicable",
            f"Method {quoted(arguments.text(method, 'method'))} chooses itself what it measures. "
            f"Leave out {option('workload')} and {option('target')}, or give "
            f"{option('method', 'workload')}, or aim.",
        )
    if method == "workload" and not sets:
        raise ParameterError(
            "parameter_missing",
            "Method 'workload' measures sets of columns that are named. Name them with "
            f"{option('workload')} FILE, a set a line such as age,sex; or give "
            f"{option('target', metavar='COLUMN')}.",
            parameter="workload",
        )
    return method


def check_targets(
    request: SynthesisRequest | LinkedRequest | KindPlan,
    out: Path,
    report: Path | None,
    *,
    overwrite: bool,
    kept: Sequence[Path] = (),
    model: Path | None = None,
) -> list[Path]:
    """Refuse what could not be written of a synthesis, before anything is spent on it.

    Given are the places that it takes, first that of the release.
    """
    if isinstance(request, KindPlan):
        refuse_useless(f"A synthesis as {request.kind}", {"model": model})
        return check_published(request, out, report, overwrite=overwrite, kept=kept)
    in_use = (*kept, *vault_files_around(out))
    found = check_places(out, request.datasets, overwrite=overwrite, kept=in_use)
    for name, file in found.files.items():
        for column in request.columns[name]:
            check_letters(file, column.name, _declared_texts(column), request.layouts[name])
    beside = [one for one in (report, model) if one is not None]
    check_beside(found, beside, overwrite=overwrite, kept=kept)
    return [found.path, *found.written, *beside]


def _declared_texts(column: Column) -> list[str]:
    """What is declared that cells of a column may hold."""
    domain = column.public_domain
    return [str(one) for one in domain.values] if isinstance(domain, Values) else []


def result(
    answer: Answer, request: SynthesisRequest | LinkedRequest | KindPlan
) -> Synthesized | FormPublished:
    """The answer of the gatekeeper to a synthesis, with the means to draw more."""
    if isinstance(request, KindPlan):
        made = published(answer, request)
        assert isinstance(made, FormPublished)
        return made
    paid = {one.name: getattr(answer, one.name) for one in fields(answer)}
    both = isinstance(request, LinkedRequest)
    try:
        rows = [answer.tables[one] for one in (ROWS, CHILD_ROWS)[: 1 + both]]
        models = [SynthesisModel.unpacked(answer.tables[one])
                  for one in (MODEL, CHILD_MODEL)[: 1 + both]]  # fmt: skip
    except (KeyError, ValueError) as error:
        raise unreadable_answer(error) from None
    paid["tables"] = dict(zip(request.datasets, rows, strict=True))
    # A command refuses beforehand what its file cannot hold of what is declared. In Python nobody
    # has named a file yet, and what is discovered nobody knows: it is written all the same.
    paid["layouts"] = {
        name: layout_for(table, request.layouts[name]) for name, table in paid["tables"].items()
    }
    paid |= {"model": models[0], "method": request.method}
    if isinstance(request, LinkedRequest):
        return LinkedTwins(**paid, linked=LinkedModel(models[0], models[1], request.link))
    return Synthesized(**paid)
