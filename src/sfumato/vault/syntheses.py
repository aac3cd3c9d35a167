"""Synthesizing a data set: the request from public facts, and the synthetic tables.

A release that cannot be written is refused before the charge: decision `charge-order`.
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
    """The columns to generate; by default all of the schema."""
    if columns is None:
        return tuple(column.name for column in schema.columns)
    names = several(columns, "columns")
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "columns_invalid", "Name at least one column to synthesize, and each only once."
        )
    return names


def targeted(names: Sequence[str], target: str) -> ColumnSets:
    """Each column in a pair with the target, which models will predict from the others."""
    check_drawn((target,), names)
    return tuple((target, name) for name in names if name != target) or ((target,),)


def read_sets(workload: Sequence[Sequence[str]] | str | Path | None) -> ColumnSets:
    """The sets of columns of a workload, which may be a file with one set in each line."""
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
    """Refuse columns that are not measured."""
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
    """The declarations of a parent and a child table, and the unit of each."""

    parent: PrivateRows
    child: PrivateRows
    parent_unit: Entity
    child_unit: Entity

    @property
    def schemas(self) -> tuple[Schema, Schema]:
        """The schemas of the parent and of the child."""
        return self.parent.schema, self.child.schema


def linked_pair(facts: Facts, child: object, key: object) -> LinkedPair:
    """The parent and the child; refused unless a person has the same key in both."""
    parent = facts.declared
    if child is None or key is None:
        meaning = (
            f"{option('key', metavar='COLUMN')} says which row of {quoted(parent.schema.table)} a "
            "child belongs to"
        )
        raise ParameterError(
            "options_conflict",
            f"A child table needs {option('child', metavar='NAME')} and "
            f"{option('key', metavar='COLUMN')}: {meaning}. Give both, or neither.",
        )
    name, key_names = arguments.text(child, "child"), arguments.text(key, "key")
    if name == facts.dataset:
        raise ParameterError(
            "linked_table_invalid",
            f"Data set {quoted(name)} cannot be its own child. Name another data set of the vault "
            f"with {option('child')}.",
        )
    other = replace(facts, dataset=name).declared
    # One name, or PARENT=CHILD where the two tables name the person differently.
    parent_key, _, child_key = key_names.partition("=")
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
    _check_key(pair, (parent_key, child_key or parent_key))
    return pair


def _check_key(pair: LinkedPair, keys: tuple[str, str]) -> None:
    """Refuse a key that is not the person, or is declared differently in the two tables."""
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
    declared = [(column.kind, column.public_domain, column.length) for column in (parent, child)]
    if declared[0] != declared[1]:
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
        if name not in [column.name for column in child.columns]:
            parent.column(name)  # raises for an unknown column
    # The parent's model has a column more: how many children a row has.
    number = untaken(child.table, [column.name for column in parent.columns])
    bounds = Bounds(0, pair.child_unit.max_rows)
    counted = Column(number, Kind.INTEGER, domain=bounds, nullable=False)
    first = _plan(parent, pair.parent_unit, columns, (quantiles, weekdays), [counted])
    # The child's model has the columns of the parent too, under names of their own.
    inherited = [column for column in first.output_columns if column not in first.invented]
    taken = [column.name for column in child.columns]
    new_names = {
        column.name: untaken(f"{parent.table}.{column.name}", taken) for column in inherited
    }
    joined = [replace(column, name=new_names[column.name]) for column in inherited]
    cut = [*quantiles, *(new_names[name] for name in first.by_quantiles)]
    second = _plan(child, pair.child_unit, columns, (cut, weekdays), joined)
    plans = first.names, second.names
    sets_by_side = _parted(target, sets, *plans)
    weighed_by_side: list[str | None] = [None, None]
    if weighed is not None:
        side = 0 if weighed in plans[0] else 1
        check_drawn((weighed,), plans[side])
        weighed_by_side[side] = weighed
    return LinkedRequest(
        parent=_side(
            parent, first, pair.parent_unit.bounded(1), sets_by_side[0], weighed_by_side[0]
        ),
        child=_side(child, second, pair.child_unit, sets_by_side[1], weighed_by_side[1]),
        link=Link(pair.parent_unit.column, pair.child_unit.column, number, new_names),
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
    """The encoding of a table's columns and of `more` columns that only its model has.

    `asked` are columns to bin by quantiles, which may be among `more`, and columns of weekdays,
    which are the table's own.
    """
    names = [column.name for column in schema.columns]
    included = names if columns is None else {unit.column, *columns}
    left_out = tuple(name for name in names if name not in included)
    all_names = {*names, *(column.name for column in more)}
    cut = tuple(name for name in asked[0] if name in all_names)
    week = tuple(name for name in asked[1] if name in names)
    joined = replace(schema, columns=(*schema.columns, *more))
    return Encoding(joined, left_out, by_quantiles=cut, weekdays=week)


def _side(
    schema: Schema, encoding: Encoding, unit: Entity, sets: ColumnSets, target: str | None
) -> LinkedSide:
    names = [column.name for column in schema.columns]
    own = tuple(column.name for column in encoding.output_columns if column.name in names)
    return LinkedSide(
        dataset=schema.table, encoding=encoding, unit=unit, own=own, sets=sets, target=target
    )


def _parted(
    target: str | None, sets: ColumnSets, parent: list[str], child: list[str]
) -> tuple[ColumnSets, ColumnSets]:
    """Divide the sets of columns between the models; a set in both goes to the parent's.

    A target is measured with each other column of its model.
    """
    names = parent if target in parent else child
    if target is not None:
        sets = (*targeted(names, target), *sets)
    first = tuple(columns for columns in sets if set(columns) <= set(parent))
    second = tuple(columns for columns in sets if columns not in first)
    for columns in second:
        check_drawn(columns, child)
    return first, second


_MOST_SHOWN = 8
"""Sets of columns, measured together, that the summary in words lists."""


def check_beside(
    files: OutputFiles, beside: Sequence[Path | None], *, overwrite: bool, kept: Sequence[Path]
) -> None:
    """Refuse a page or a model that cannot be written, or has the path of another part."""
    # Real paths, because two names may lead to one file.
    taken = set(map(os.path.realpath, [files.path, *files.written]))
    for path in beside:
        if path is None:
            continue
        check_target(path, overwrite=overwrite, kept=(*kept, *vault_files_around(path)))
        if os.path.realpath(path) in taken:
            raise OutputError(
                "outputs_same",
                f"Cannot write '{path}': another part of the release goes there. Choose another "
                "name.",
            )
        taken.add(os.path.realpath(path))


@dataclass(frozen=True, repr=False)
class Synthesized(Answer):
    """Synthetic rows that were paid for, with the model and the noisy tables behind them."""

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
        """The number of rows, and the columns that were measured together."""
        sentences = []
        for name, (model, _) in self.drawn_from.items():
            table = self.tables[name]
            rows, columns_text = count(table.num_rows, "row"), count(table.num_columns, "column")
            together = [" with ".join(columns) for columns in model.measured if len(columns) > 1]
            measured = "; ".join(together[:_MOST_SHOWN]) or "nothing: every column is by itself"
            rest = len(together) - _MOST_SHOWN
            more = f"; and {rest:,} more" if rest > 0 else ""
            which = f" of {name}" if len(self.tables) > 1 else ""
            sentences.append(
                f"Generated {rows} of {columns_text}{which} with method {self.method}."
            )
            sentences.append(f"Measured together: {measured}{more}.")
            sentences += lost_constraints(model.encoding)
            unknown = [name for name, values in model.encoding.discovered_values.items()
                       if not values and name in table.column_names]  # fmt: skip
            if unknown:
                sentences.append(
                    f"Of {', '.join(unknown)} no value was frequent enough to be discovered: all "
                    "are 'other'. Where everybody may know the values, declare them in the schema."
                )
        return sentences

    def summary(self) -> dict[str, Any]:
        """The method, the number of rows, the columns, and the sets that were measured."""
        return {
            "method": self.method,
            "rows": self.table.num_rows,
            "columns": self.table.column_names,
            "measured": [list(columns) for columns in self.model.measured],
        }

    def query(self, sql: str) -> pa.Table:
        """Answer a SELECT on the synthetic rows, free; its deviation follows each COUNT(*).

        The standard deviation (`n_sd` behind `n`) adds up the noise and the distance of the rows
        from the noisy count, by the best measured table that has all columns of the query. It is
        NULL if no table has them, or if the query cuts a bin. Counts are of the drawn rows: with
        `rows`, they and their deviations are the share of people times that number of rows.
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
        """Write the rows as any release; optionally also the model with the noisy tables."""
        model_path = None if model is None else arguments.path(model, "model")
        if model_path is not None:
            page = None if report is None else arguments.path(report, "report")
            files = check_places(
                arguments.path(path, "path"), list(self.tables), overwrite=overwrite, kept=self.kept
            )
            check_beside(files, (page, model_path), overwrite=overwrite, kept=self.kept)
        beside = {} if model_path is None else {model_path: self._model_to_save.content}
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
        """The model behind each table, and its rows with all columns of the model.

        The parent's model also has the number of children, the child's also the columns of its
        parent.
        """
        models = (self.linked.parent, self.linked.child)
        rows = self.linked.with_model_columns(*self.tables.values())
        return dict(zip(self.tables, zip(models, rows, strict=True), strict=True))

    @property
    def models(self) -> dict[str, SynthesisModel]:
        """The model behind each table; the parent's also has the number of children."""
        return dict(zip(self.tables, (self.linked.parent, self.linked.child), strict=True))

    def summary(self) -> dict[str, Any]:
        """The method, the rows, columns and measured sets of the parent, and those of the child."""
        by_table = [
            {
                "rows": table.num_rows,
                "columns": table.column_names,
                "measured": [list(columns) for columns in self.models[name].measured],
            }
            for name, table in self.tables.items()
        ]
        return {
            "method": self.method,
            **by_table[0],
            "child": {"name": [*self.tables][1], **by_table[1]},
        }

    def query(self, sql: str) -> pa.Table:
        """Answer a SELECT on one of the tables, free; its deviation follows each COUNT(*).

        See `Synthesized.query`.
        """
        text = arguments.text(sql, "sql")
        name = table_named(text, list(self.tables))
        return answered(text, self.tables[name], self.models[name], _ask)


def _ask(question: exp.Select, table: pa.Table) -> pa.Table:
    """Answer a query on a table in memory."""
    with closing(open_source(table)) as engine:
        query = question.copy()
        for table_node in [*query.find_all(exp.Table)]:
            alias = table_node.alias_or_name
            table_node.replace(exp.alias_(engine.table.copy(), alias, table=True, quoted=True))
        return engine.run(query)


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
    schema = facts.declared.schema  # with the unit of the vault, which may differ from the file's
    kind = _form_named(schema, form)
    if kind != _TABLE:
        useless = {"quantiles": quantiles, "weekdays": weekdays,
                   "target": target, "workload": workload, "child": child, "key": key}  # fmt: skip
        title = f"A synthesis as {kind}"
        refuse_useless(title, useless)
        values = {"columns": columns, "method": None if method == "auto" else method,
                 "rows": rows, "nodes": nodes, "people": people, **options}  # fmt: skip
        request = form_request(facts, offer, FORMS[kind].form, title)
        form_options = {name: value for name, value in values.items() if value is not None}
        plan = FORMS[kind].make(request, form_options, title)
        return KindPlan(kind, request, plan, "synthesize")
    refuse_useless("A synthesis of a table", {"nodes": nodes, "people": people, **options})
    if rows is not None:
        arguments.whole(rows, "rows")
    cut = tuple(dict.fromkeys(several(quantiles, "quantiles"))) if quantiles else ()
    week = tuple(dict.fromkeys(several(weekdays, "weekdays"))) if weekdays else ()
    goal = arguments.maybe_text(target, "target")
    # Some methods weigh pairs with the target more; for others the pairs are what is measured.
    weighed = goal if method in WEIGHING else None
    measured = goal if weighed is None else None
    if child is not None or key is not None:
        sets = read_sets(workload)
        return linked_request(
            linked_pair(facts, child, key),
            facts.price(offer),
            rows=rows,
            columns=None if columns is None else column_names(columns, schema),
            quantiles=cut,
            weekdays=week,
            method=_method(method, sets if measured is None else ((measured,), *sets)),
            target=measured,
            weighed=weighed,
            sets=sets,
        )
    return _of_table(facts, facts.price(offer), columns, (cut, week), (goal, weighed),
                     method=method, rows=rows, workload=workload)  # fmt: skip


def _form_named(schema: Schema, requested: str | None) -> str:
    """The form to generate: the one that is named, or else the form of the schema."""
    if requested is None:
        form = "" if schema.form is None else schema.form.name
        return next((name for name, kind in FORMS.items() if kind.form == form), _TABLE)
    if requested not in (_TABLE, *FORMS):
        raise ParameterError(
            "choice_unknown",
            f"Nothing can be made up as {quoted(requested)}; "
            f"{suggestion(requested, [_TABLE, *FORMS])}",
            parameter="form",
        )
    return requested


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
    """The request of one table. `binned` are columns by quantiles and by weekdays."""
    schema, (cut, week), (goal, weighed) = facts.declared.schema, binned, targets
    measured = goal if weighed is None else None
    included = [schema.column(name).name for name in column_names(columns, schema)]
    left_out = tuple(column.name for column in schema.columns if column.name not in included)
    encoding = Encoding(schema, left_out, by_quantiles=cut, weekdays=week)
    names = encoding.names
    check_drawn(() if goal is None else (goal,), names)
    by_target = () if measured is None else targeted(names, measured)
    sets = (*by_target, *read_sets(workload))
    for column_set in sets:
        check_drawn(column_set, names)
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
    """The arguments without files of this machine, as a client sends them."""
    return {"workload": read_sets(workload) or None, **asked}


def _method(method: str, sets: ColumnSets) -> str:
    """The method to use: `auto` with sets of columns measures these."""
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
    """Refuse a synthesis that could not be written, before anything is charged for it.

    Returns the paths that it takes, first that of the release.
    """
    if isinstance(request, KindPlan):
        refuse_useless(f"A synthesis as {request.kind}", {"model": model})
        return check_published(request, out, report, overwrite=overwrite, kept=kept)
    in_use = (*kept, *vault_files_around(out))
    outputs = check_places(out, request.datasets, overwrite=overwrite, kept=in_use)
    for name, file in outputs.files.items():
        for column in request.columns[name]:
            check_letters(file, column.name, _declared_texts(column), request.layouts[name])
    beside = [path for path in (report, model) if path is not None]
    check_beside(outputs, beside, overwrite=overwrite, kept=kept)
    return [outputs.path, *outputs.written, *beside]


def _declared_texts(column: Column) -> list[str]:
    """The declared values of a column, as texts."""
    domain = column.public_domain
    return [str(value) for value in domain.values] if isinstance(domain, Values) else []


def result(
    answer: Answer, request: SynthesisRequest | LinkedRequest | KindPlan
) -> Synthesized | FormPublished:
    """The answer of the gatekeeper to a synthesis, with its model."""
    if isinstance(request, KindPlan):
        release = published(answer, request)
        assert isinstance(release, FormPublished)
        return release
    paid = {part.name: getattr(answer, part.name) for part in fields(answer)}
    both = isinstance(request, LinkedRequest)
    try:
        rows = [answer.tables[name] for name in (ROWS, CHILD_ROWS)[: 1 + both]]
        models = [SynthesisModel.unpacked(answer.tables[name])
                  for name in (MODEL, CHILD_MODEL)[: 1 + both]]  # fmt: skip
    except (KeyError, ValueError) as error:
        raise unreadable_answer(error) from None
    paid["tables"] = dict(zip(request.datasets, rows, strict=True))
    # The command has checked that its file can hold all declared values. In Python no file is
    # named yet, and discovered values are not known before: these are written in any case.
    paid["layouts"] = {
        name: layout_for(table, request.layouts[name]) for name, table in paid["tables"].items()
    }
    paid |= {"model": models[0], "method": request.method}
    if isinstance(request, LinkedRequest):
        return LinkedTwins(**paid, linked=LinkedModel(models[0], models[1], request.link))
    return Synthesized(**paid)
