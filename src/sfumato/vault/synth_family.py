"""Synthesizing a data set: the request from public facts, and what comes back.

What cannot be written is refused before the charge: decision `charge-order`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.files.writers import check_letters, layout_for
from sfumato.data.schema.domain import Values
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, option
from sfumato.methods.method import KindPlan
from sfumato.methods.options import several
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.linked_model import LinkedModel
from sfumato.methods.synth.linked_request import CHILD_MODEL, CHILD_ROWS, LinkedRequest
from sfumato.methods.synth.methods import FORMS
from sfumato.methods.synth.request import MODEL, NAMING, ROWS, WEIGHING, SynthesisRequest
from sfumato.methods.synth.synthesis_model import SynthesisModel
from sfumato.release.codec import unreadable_answer
from sfumato.release.files_in_use import vault_files_around
from sfumato.release.output import check_places
from sfumato.vault.publish_family import FormPublished, form_request, refuse_useless
from sfumato.vault.publish_family import check_targets as check_published
from sfumato.vault.publish_family import result as published
from sfumato.vault.synth_request import (
    check_drawn,
    column_names,
    linked_pair,
    linked_request,
    read_sets,
    targeted,
)
from sfumato.vault.synth_result import LinkedTwins, Synthesized, check_beside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.synth.request import ColumnSets
    from sfumato.privacy.accounting.price import Price
    from sfumato.vault.answer import Answer
    from sfumato.vault.session import Facts, Offer

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
