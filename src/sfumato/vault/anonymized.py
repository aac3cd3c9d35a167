"""What anonymizing decided, made into a release: in memory, or as files of any size."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from sqlglot import exp

from sfumato.engines.files.output import write_file
from sfumato.engines.kinds import STORED, kinds_of
from sfumato.files import whole
from sfumato.fingerprint import fingerprint
from sfumato.privacy.units import Entity
from sfumato.release import Guarantee, Provenance, Release, Saved, checksum, describe, sidecar
from sfumato.report.release import page
from sfumato.schema.column import Kind, Role
from sfumato.schema.hierarchy.base import ROOT
from sfumato.vault.outputs import check_outputs, place
from sfumato.vault.secret import holder_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sfumato.recoding import Recoding
    from sfumato.vault.figures import Figures
    from sfumato.vault.table import Table

Suppressed = Literal["drop", "star"]
_QUASI, _SENSITIVE = "quasi", "sensitive"


@dataclass(frozen=True, kw_only=True)
class Anonymized:
    """A release that was decided on and can be made where the data lives.

    `recoded` are the columns that the recoding releases, with what they hold there; `unchanged`
    those that stay as they are. `values` is the table of sensitive values where it is one of its
    own. `before` has the costs of the table as it was, `reference` the distribution of each
    sensitive column that classes were compared with, `protected` the columns that were looked at.
    """

    table: Table
    figures: Figures
    statement: str
    recoding: Recoding
    recoded: Mapping[str, Kind]
    unchanged: tuple[str, ...]
    parameters: Mapping[str, Any]
    before: Mapping[str, Any]
    lost: Mapping[str, float] = field(default_factory=dict)
    reference: Mapping[str, Any] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    values: pa.Table | None = None
    notes: tuple[str, ...] = ()
    suppressed: Suppressed = "drop"

    @property
    def unprotected(self) -> tuple[str, ...]:
        """The columns that are released as they are and that nobody looked at."""
        schema = self.table.schema
        others = (name for name in self.unchanged if schema.column(name).role is Role.OTHER)
        return tuple(name for name in others if name not in self.protected)

    @property
    def columns(self) -> dict[str, Kind]:
        """What is released, in the order of the schema, and what was added behind it."""
        schema = self.table.schema
        kept = {name: schema.column(name).kind for name in self.unchanged}
        kinds = kept | dict(self.recoded)
        order = [column.name for column in schema.columns if column.name in kinds]
        return {name: kinds[name] for name in dict.fromkeys([*order, *kinds])}

    def release(self) -> Release:
        """Make the release in memory."""
        with self._query(star=None) as query:
            made = self.table.engine.run(query)
        tables = {self.table.schema.table: made}
        if self.values is not None:
            tables = {_QUASI: made, _SENSITIVE: self.values}
        kept = self.table.files
        return Release(tables, self.guarantee, self.provenance(), self.error, kept=kept)

    def write(self, path: Path, *, report: Path | None = None, overwrite: bool = False) -> None:
        """Make the release as files with a side-car, and a page for people, all or nothing."""
        several = self.values is not None
        kept = self.table.files
        check_outputs(path, report, several=several, overwrite=overwrite, kept=kept)
        provenance = self.provenance()
        with ExitStack() as stack:
            told = report and stack.enter_context(whole(report, overwrite=overwrite))
            home = stack.enter_context(place(path, several=several, overwrite=overwrite))
            saved = self._write_tables(home)
            text = describe(saved, self.guarantee, provenance, self.error)
            sidecar(home).write_text(text, encoding="utf-8")
            if told:
                told.write_text(page(self.guarantee, provenance, self.error), encoding="utf-8")

    def _write_tables(self, home: Path) -> list[Saved]:
        """Write the tables; what is in the engine goes through it row by row."""
        main = home if self.values is None else home / f"{_QUASI}.csv"
        star = ROOT if main.name.lower().endswith((".csv", ".csv.gz")) else None
        with self._query(star=star) as query:
            self.table.engine.write(query, main)
        name = self.table.schema.table if self.values is None else _QUASI
        saved = [Saved(name, main.name, checksum(main), self.columns)]
        if self.values is not None:
            second = home / f"{_SENSITIVE}.csv"
            write_file(self.values.to_reader, second, overwrite=False)
            kinds = kinds_of(self.values.schema)
            saved.append(Saved(_SENSITIVE, second.name, checksum(second), kinds))
        return saved

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        notes, unit, figures = list(self.notes), self.table.schema.unit, self.figures
        people: dict[str, Any] = {"counted": "rows"}
        if isinstance(unit, Entity) and figures["people"] is not None:
            people = {"counted": "people", "person": unit.column}
        parameters = {
            **people,
            "criteria": figures["criteria"],
            "k": figures["k"],
            "rows": figures["rows"],
            "released": figures["released"],
            "suppressed": figures["suppressed"],
            "classes": figures["classes"],
            "levels": figures["levels"],
            "unprotected": list(self.unprotected),
            "reference": dict(self.reference),
            "notes": notes,
        }
        return Guarantee("syntactic", self.statement, parameters)

    @property
    def error(self) -> dict[str, Any]:
        """What was lost: every cost, the same before, and the loss of each column."""
        return {**self.figures["cost"], "ncp": dict(self.lost), "before": dict(self.before)}

    def provenance(self) -> Provenance:
        """Where the release comes from."""
        engine, columns = self.table.engine, [c.name for c in self.table.schema.columns]
        mark = fingerprint(engine, engine.table, columns, secret=holder_secret())
        return Provenance(self.figures["algorithm"], self.parameters, mark)

    @contextmanager
    def _query(self, *, star: str | None) -> Iterator[exp.Query]:
        """The released rows in order; starred ones among them, which say nothing."""
        engine, starred = self.table.engine, self.suppressed == "star"
        names = [exp.column(name, quoted=True) for name in self.columns]
        with ExitStack() as lent:
            rows = lent.enter_context(self.recoding.released(engine, engine.table))
            rows.set("order", None)
            rows = exp.select(*names).from_(rows.subquery("sf_recoded"))
            if starred and self.figures["suppressed"]:
                blank = lent.enter_context(engine.lend(self._blank_rows(star)))
                blanks = exp.select(*(name.copy() for name in names)).from_(blank)
                rows = exp.union(rows, blanks, distinct=False)
            order = [exp.Ordered(this=name.copy(), nulls_first=False) for name in names]
            yield (
                exp.select(*(name.copy() for name in names))
                .from_(rows.subquery("sf_all"))
                .order_by(*order)
            )

    def _blank_rows(self, star: str | None) -> pa.Table:
        """Rows that say nothing: text as the star or missing, everything else missing."""
        size = self.figures["suppressed"]
        return pa.table(
            {
                name: pa.repeat(star, size)
                if kind is Kind.TEXT and star is not None
                else pa.nulls(size, STORED[kind])
                for name, kind in self.columns.items()
            }
        )
