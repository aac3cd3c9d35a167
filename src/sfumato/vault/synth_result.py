"""What comes back of a synthesis: made-up rows with the means to ask, to draw and to write them."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato import arguments
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.names import count
from sfumato.errors import OutputError
from sfumato.filesystem import check_target
from sfumato.methods.synth.encode.decoder import lost_constraints
from sfumato.methods.synth.error_bars import answered, table_named
from sfumato.release.files_in_use import vault_files_around
from sfumato.release.output import check_places
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from sfumato.methods.synth.linked_model import LinkedModel
    from sfumato.methods.synth.synthesis_model import SynthesisModel
    from sfumato.release.output import OutputFiles

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
            told.append(f"Made up {rows} of {columns}{which}, by method {self.method}.")
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
