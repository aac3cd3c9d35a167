"""Synthesizing a data set: the request from public facts, and what comes back.

What cannot be written is refused before the charge: decision 0181.
"""

from __future__ import annotations

import csv
import os
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato import given
from sfumato.engines.sources import open_source
from sfumato.errors import OutputError, ParameterError
from sfumato.files import check_target
from sfumato.publish.options import several
from sfumato.release.codec import unreadable_answer
from sfumato.release.in_use import vault_files_around
from sfumato.release.places import check_places
from sfumato.schema.document import read_text
from sfumato.schema.names import count, quoted
from sfumato.synth.bars import answered
from sfumato.synth.encode.encoding import Encoding
from sfumato.synth.generator import SynthesisModel
from sfumato.synth.request import MODEL, ROWS, SynthesisRequest
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sfumato.release.places import Places
    from sfumato.schema.schema import Schema
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
    target: str | None = None,
    workload: Sequence[Sequence[str]] | str | Path | None = None,
) -> SynthesisRequest:
    """Plan a synthesis from public facts alone; a workload may be a file."""
    schema = facts.declared.schema  # with the unit that the vault says
    if rows is not None:
        given.whole(rows, "rows")
    kept = _kept(schema, columns)
    encoding = Encoding(
        schema,
        tuple(one.name for one in schema.columns if one.name not in kept),
        by_quantiles=tuple(dict.fromkeys(several(quantiles, "quantiles"))) if quantiles else (),
    )
    drawn = [*encoding.measured, *encoding.open]
    names = [one.name for one in schema.columns if one in drawn]
    sets = (*_targeted(names, given.maybe_text(target, "target")), *_sets(workload, names))
    return SynthesisRequest(
        dataset=schema.table,
        encoding=encoding,
        unit=schema.unit,
        price=facts.price(offer),
        method=_method(method, sets),
        rows=rows,
        sets=sets,
    )


def _kept(schema: Schema, columns: Sequence[str] | str | None) -> tuple[str, ...]:
    if columns is None:
        return tuple(one.name for one in schema.columns)
    names = several(columns, "columns")
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "columns_wrong", "Name at least one column to synthesize, and each only once."
        )
    return tuple(schema.column(name).name for name in names)


def _method(method: str, sets: ColumnSets) -> str:
    """The method by name; sets that are named are measured and nothing is chosen."""
    if sets and method == "auto":
        return "workload"
    if sets and method != "workload":
        raise ParameterError(
            "workload_not_used",
            f"Method {quoted(given.text(method, 'method'))} chooses itself what it measures. Leave "
            "out --workload and --target, or give --method workload.",
        )
    if method == "workload" and not sets:
        raise ParameterError(
            "workload_missing",
            "Method 'workload' measures sets of columns that are named. Name them with --workload "
            "FILE, a set a line such as age,sex; or give --target COLUMN.",
        )
    return method


def _targeted(names: Sequence[str], target: str | None) -> ColumnSets:
    """Each column together with the one that others are to be told by."""
    if target is None:
        return ()
    _check_drawn((target,), names)
    return tuple((target, name) for name in names if name != target) or ((target,),)


def _sets(workload: Sequence[Sequence[str]] | str | Path | None, names: list[str]) -> ColumnSets:
    """Sets of columns: given, or a file of one a line."""
    if workload is None:
        return ()
    if isinstance(workload, str | Path):
        path = given.path(workload, "workload")
        text = read_text(path, what="Workload", most_mebibytes=1)
        workload = [row for row in csv.reader(text.splitlines()) if row]
    sets = tuple(several(one, "workload") for one in given.require(
        workload, "workload", (list, tuple), "a list of lists of columns, or a file"
    ))  # fmt: skip
    for one in sets:
        _check_drawn(one, names)
        if not one or len(set(one)) < len(one):
            raise ParameterError(
                "columns_wrong",
                f"A set of the workload must name columns, and each only once, not "
                f"{given.shown(','.join(one))}.",
            )
    return sets


def _check_drawn(asked: Sequence[str], names: Sequence[str]) -> None:
    for name in asked:
        if name not in names:
            raise ParameterError(
                "column_not_synthesized",
                f"Column {quoted(name)} is not among those that are measured: "
                f"{', '.join(map(quoted, names))}. Name one of them.",
            )


def check_targets(
    request: SynthesisRequest,
    out: Path,
    report: Path | None,
    *,
    overwrite: bool,
    kept: Sequence[Path] = (),
    model: Path | None = None,
) -> None:
    """Refuse what could not be written of a synthesis, before anything is spent on it."""
    in_use = (*kept, *vault_files_around(out))
    found = check_places(out, [request.dataset], overwrite=overwrite, kept=in_use)
    _check_beside(found, (report, model), overwrite=overwrite, kept=kept)


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
    def in_short(self) -> Sequence[str]:
        """How many rows there are, and what was measured together."""
        rows, columns = count(self.table.num_rows, "row"), count(self.table.num_columns, "column")
        together = [" with ".join(one) for one in self.model.measured if len(one) > 1]
        measured = "; ".join(together[:_TOLD]) or "nothing: every column is by itself"
        more = f"; and {len(together) - _TOLD:,} more" if len(together) > _TOLD else ""
        return (
            f"Made up {rows} of {columns}, by method {self.method}.",
            f"Measured together: {measured}{more}.",
        )

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

        The deviation (`n_sd` behind `n`) is that of the noise, by the best measured table that has
        all columns of the question; NULL where no table has them.
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
        beside = {} if place is None else {place: self.model.content}
        written = self._saved(path, overwrite=overwrite, report=report, beside=beside)
        return [*written, *beside]


def _ask(question: exp.Select, table: pa.Table) -> pa.Table:
    """Answer a question on a table in memory."""
    with closing(open_source(table)) as engine:
        asked = question.copy()
        for one in [*asked.find_all(exp.Table)]:
            one.replace(exp.alias_(engine.table.copy(), one.alias_or_name, table=True, quoted=True))
        return engine.run(asked)


def result(answer: Answer, request: SynthesisRequest) -> Synthesized:
    """The answer of the gatekeeper to a synthesis, with the means to draw more."""
    paid = {one.name: getattr(answer, one.name) for one in fields(answer)}
    try:
        paid["tables"] = {request.dataset: answer.tables[ROWS]}
        paid["layout"] = request.encoding.schema.layout  # so that its schema reads what is saved
        model = SynthesisModel.unpacked(answer.tables[MODEL])
    except (KeyError, ValueError) as error:
        raise unreadable_answer(error) from None
    return Synthesized(**paid, model=model, method=request.method)
