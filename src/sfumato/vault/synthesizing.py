"""Synthesizing a data set: the request from public facts, and what comes back.

What cannot be written is refused before the charge: decision 0181.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato import given
from sfumato.engines.files.output import check_letters, layout_for
from sfumato.engines.sources import open_source
from sfumato.errors import OutputError, ParameterError
from sfumato.files import check_target
from sfumato.publish.forms import FormPublication
from sfumato.publish.options import several
from sfumato.release.codec import unreadable_answer
from sfumato.release.in_use import vault_files_around
from sfumato.release.places import check_places
from sfumato.schema.domain import Values
from sfumato.schema.names import count, quoted
from sfumato.synth.bars import answered, table_named
from sfumato.synth.encode.decoder import unkept
from sfumato.synth.encode.encoding import Encoding
from sfumato.synth.generator import SynthesisModel
from sfumato.synth.linked.model import LinkedModel
from sfumato.synth.linked.request import CHILD_MODEL, CHILD_ROWS, LinkedRequest
from sfumato.synth.request import MODEL, NAMING, ROWS, WEIGHING, SynthesisRequest
from sfumato.vault.answer import Answer
from sfumato.vault.columnsets import check_drawn, column_names, read_sets, targeted
from sfumato.vault.linking import linked_pair, linked_request
from sfumato.vault.publishing import FormPublished, refuse_useless
from sfumato.vault.publishing import check_targets as check_published
from sfumato.vault.publishing import result as published
from sfumato.vault.twins import TABLE, prepare_twin, twin_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from sfumato.privacy.price import Price
    from sfumato.release.places import Places
    from sfumato.schema.column import Column
    from sfumato.synth.request import ColumnSets
    from sfumato.vault.session import Facts, Offer


_TOLD = 8
"""So many sets of columns that were measured together are told."""


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
) -> SynthesisRequest | LinkedRequest | FormPublication:
    """Plan a synthesis from public facts alone; a workload may be a file."""
    schema = facts.declared.schema  # with the unit that the vault says
    made = twin_of(schema, form)
    if made != TABLE:
        useless = {"quantiles": quantiles, "weekdays": weekdays,
                   "target": target, "workload": workload, "child": child, "key": key}  # fmt: skip
        refuse_useless(f"A synthesis as {made}", useless)
        said = {"method": method, "rows": rows, "nodes": nodes, "people": people,
                "columns": columns, **options}  # fmt: skip
        return prepare_twin(facts, offer, made, said)
    refuse_useless("A synthesis of a table", {"nodes": nodes, "people": people, **options})
    if rows is not None:
        given.whole(rows, "rows")
    cut = tuple(dict.fromkeys(several(quantiles, "quantiles"))) if quantiles else ()
    week = tuple(dict.fromkeys(several(weekdays, "weekdays"))) if weekdays else ()
    wanted = given.maybe_text(target, "target")
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


def spelled(
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
            "workload_not_used",
            f"Method {quoted(given.text(method, 'method'))} chooses itself what it measures. Leave "
            "out --workload and --target, or give --method workload, or aim.",
        )
    if method == "workload" and not sets:
        raise ParameterError(
            "workload_missing",
            "Method 'workload' measures sets of columns that are named. Name them with --workload "
            "FILE, a set a line such as age,sex; or give --target COLUMN.",
        )
    return method


def check_targets(
    request: SynthesisRequest | LinkedRequest | FormPublication,
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
    if isinstance(request, FormPublication):
        refuse_useless(f"A synthesis as {request.kind}", {"model": model})
        return check_published(request, out, report, overwrite=overwrite, kept=kept)
    in_use = (*kept, *vault_files_around(out))
    found = check_places(out, request.datasets, overwrite=overwrite, kept=in_use)
    for name, file in found.files.items():
        for column in request.columns[name]:
            check_letters(file, column.name, _declared_texts(column), request.layouts[name])
    beside = [one for one in (report, model) if one is not None]
    _check_beside(found, beside, overwrite=overwrite, kept=kept)
    return [found.path, *found.written, *beside]


def _declared_texts(column: Column) -> list[str]:
    """What is declared that cells of a column may hold."""
    domain = column.public_domain
    return [str(one) for one in domain.values] if isinstance(domain, Values) else []


def _check_beside(
    found: Places, beside: Sequence[Path | None], *, overwrite: bool, kept: Sequence[Path]
) -> None:
    """Refuse a page or a model where it cannot be written, or where something else of it goes."""
    taken = set(map(os.path.realpath, [found.path, *found.written]))
    for one in beside:
        if one is None:
            continue
        check_target(one, overwrite=overwrite, kept=(*kept, *vault_files_around(one)))
        if os.path.realpath(one) in taken:
            raise OutputError(
                "output_twice",
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
            told.append(f"Made up {rows} of {columns}{which}, by method {self.method}.")
            told.append(f"Measured together: {measured}{more}.")
            told += unkept(model.encoding)
            unknown = [name for name, values in model.encoding.found.items()
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

    @given.in_python
    def query(self, sql: str) -> pa.Table:
        """Answer a SELECT on the synthetic rows, free; each COUNT(*) is followed by its deviation.

        The deviation (`n_sd` behind `n`) is that of the noise and of how far rows are from the
        noisy count, by the best measured table that has all columns of the question; NULL where no
        table has them, or the question cuts a bin. Counts are of the drawn rows: with `rows` they
        and their deviations are about the true share of people, times so many rows.
        """
        return answered(given.text(sql, "sql"), self.table, self.model, _ask)

    @given.in_python
    def save(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        report: str | Path | None = None,
        model: str | Path | None = None,
    ) -> list[Path]:
        """Write the rows as any release does; the model with the noisy tables, too, if asked."""
        place = None if model is None else given.path(model, "model")
        if place is not None:
            page = None if report is None else given.path(report, "report")
            found = check_places(
                given.path(path, "path"), list(self.tables), overwrite=overwrite, kept=self.kept
            )
            _check_beside(found, (page, place), overwrite=overwrite, kept=self.kept)
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
        rows = self.linked.beside_each_other(*self.tables.values())
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

    @given.in_python
    def query(self, sql: str) -> pa.Table:
        """Answer a SELECT on one of the tables, free; each COUNT(*) is followed by its deviation.

        Deviations are those of the noise and of how far rows are from the noisy count, by the best
        measured table that has all columns of the question; NULL where no table has them, or the
        question cuts a bin.
        """
        asked = given.text(sql, "sql")
        name = table_named(asked, list(self.tables))
        return answered(asked, self.tables[name], self.models[name], _ask)


def _ask(question: exp.Select, table: pa.Table) -> pa.Table:
    """Answer a question on a table in memory."""
    with closing(open_source(table)) as engine:
        asked = question.copy()
        for one in [*asked.find_all(exp.Table)]:
            one.replace(exp.alias_(engine.table.copy(), one.alias_or_name, table=True, quoted=True))
        return engine.run(asked)


def result(
    answer: Answer, request: SynthesisRequest | LinkedRequest | FormPublication
) -> Synthesized | FormPublished:
    """The answer of the gatekeeper to a synthesis, with the means to draw more."""
    if isinstance(request, FormPublication):
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
