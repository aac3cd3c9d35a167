"""Publishing statistics of a data set: the request from public facts, and the publication.

A release that cannot be written is refused before the charge: decision `charge-order`.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.anonymize.taxonomy import grow
from sfumato.data.counting.axes import Listed, declared
from sfumato.data.schema.names import quoted
from sfumato.errors import OutputError, ParameterError, option
from sfumato.filesystem import check_target
from sfumato.methods.kinds import kind_named
from sfumato.methods.options import several
from sfumato.methods.publish import publication
from sfumato.methods.publish.box_maps import nearest, smallest, to_geojson
from sfumato.methods.publish.catalogue import KINDS
from sfumato.methods.publish.page import table_blocks
from sfumato.methods.publish.publication import Publication
from sfumato.methods.publish.request import FormRequest, Request, form_of, to_codes
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.release.files_in_use import vault_files_around
from sfumato.release.open_table import read_workload
from sfumato.release.output import check_places
from sfumato.release.sidecar import sidecar_file
from sfumato.release.writer import writing
from sfumato.text import dumps
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    import pyarrow as pa
    from numpy.typing import ArrayLike

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.schema.column import Column
    from sfumato.methods.method import KindPlan
    from sfumato.vault.session import Facts, Offer


_GEOJSON = ".geojson"
_SEARCHING = ("auto", "tree")
"""The kinds whose plan is searched for; the time grows with the number of cells."""
MOST_SEARCHED = 1_000_000
"""Cells of a search for principals other than the owner; more take seconds."""


def check_targets(
    publication: KindPlan,
    out: Path,
    report: Path | None,
    *,
    overwrite: bool,
    kept: Sequence[Path] = (),
) -> list[Path]:
    """Refuse a publication that could not be written, before anything is charged for it.

    Returns the paths that it takes, first that of the release.
    """
    tables = publication.method.tables
    in_use = (*kept, *vault_files_around(out))
    if out.suffix.lower() == _GEOJSON and isinstance(publication, Publication):
        to_geojson(_boxes(publication, tables), publication.request.axes)
        written = [out, sidecar_file(out)]
        for path in written:
            check_target(path, overwrite=overwrite, kept=in_use)
    else:
        files = check_places(out, list(tables), overwrite=overwrite, kept=in_use)
        written = [files.path, files.path.with_name(f"{files.path.name}.json"), *files.written]
    if report is not None:
        columns = publication.request.columns if isinstance(publication, Publication) else ()
        table_blocks(columns, tables)
        check_target(report, overwrite=overwrite, kept=(*kept, *vault_files_around(report)))
        if os.path.realpath(report) in map(os.path.realpath, written):
            raise OutputError(
                "outputs_same",
                f"Cannot write the page to '{report}': the release itself goes there. Choose "
                "another name.",
            )
        written.append(report)
    return written


def _boxes(publication: Publication, tables: Mapping[str, pa.Table]) -> pa.Table:
    boxes = smallest(tables, publication.request.columns)
    if boxes is None:
        raise ParameterError(
            "ranges_not_answerable",
            f"A publication of kind {publication.kind!r} has no boxes with counts. "
            "Publish as 'quadtree', 'hybrid' or 'privtree'.",
        )
    return boxes


def prepare(
    facts: Facts,
    offer: Offer,
    /,
    *,
    kind: str,
    columns: Sequence[str] | str | None = None,
    workload: ArrayLike | str | Path | None = None,
    postprocess: Sequence[str] | str = (),
    **options: object,
) -> KindPlan:
    """Plan a publication of some columns from public facts alone; a workload may be a file."""
    declared_kind = kind_named(KINDS, kind, "publication")
    if declared_kind.form != "rows":
        useless = {"columns": columns, "workload": workload, "postprocess": postprocess}
        title = f"A publication of kind {quoted(kind)}"
        refuse_useless(title, useless)
        request = form_request(facts, offer, declared_kind.form, title)
        return publication.prepare_form(kind, request, options)
    if columns is None:
        raise ParameterError(
            "columns_invalid",
            f"A publication of kind {kind!r} is of columns. Name them with "
            f"{option('columns', ['A', 'B'])}.",
        )
    return _of_columns(
        facts, offer, kind, several(columns, "columns"), workload, postprocess, options
    )


def form_request(facts: Facts, offer: Offer, form: str, title: str) -> FormRequest:
    """A request about a table of a form, from public facts alone."""
    declared = facts.declared
    # Only data sets about the same people: their budget pays for both.
    linked = {
        name: entry.schema
        for name, entry in facts.catalogue.items()
        if isinstance(entry, PrivateRows)
        and entry.population == declared.population
        and name != facts.dataset
    }
    return FormRequest(
        dataset=declared.schema.table,
        schema=declared.schema,
        form=form_of(declared.schema, form, title),
        unit=declared.unit,
        price=facts.price(offer),
        linked=linked,
    )


def refuse_useless(title: str, values: Mapping[str, object]) -> None:
    """Refuse options that a table of rows takes and another form does not."""
    for name, value in values.items():
        if value is not None and not (isinstance(value, str | tuple | list) and not value):
            raise ParameterError(
                "option_unknown",
                f"{title} has no option {quoted(name)}. Leave it out.",
            )


def _of_columns(
    facts: Facts,
    offer: Offer,
    kind: str,
    names: tuple[str, ...],
    workload: ArrayLike | str | Path | None,
    postprocess: Sequence[str] | str,
    options: Mapping[str, object],
) -> Publication:
    schema = facts.declared.schema
    workload = _ranges(facts, names, workload)
    price = facts.price(offer)
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "columns_invalid", "Name at least one column to publish, and each only once."
        )
    axes = tuple(declared(schema.column(name)) for name in names)
    _check_search(facts, kind, axes)
    request = Request(
        dataset=schema.table,
        axes=axes,
        unit=facts.declared.unit,
        price=price,
        boxes=None if workload is None else to_codes(axes, workload),
        groups={
            axis.column: _groups(schema.column(axis.column), axis)
            for axis in axes
            if isinstance(axis, Listed) and schema.column(axis.column).hierarchy is not None
        },
        postprocess=several(postprocess, "postprocess") if postprocess else (),
    )
    return publication.prepare(kind, request, options)


def _check_search(facts: Facts, kind: str, axes: Sequence[Axis]) -> None:
    """Refuse a search of seconds to all but the owner: plans are free and repeatable."""
    cells = math.prod(axis.size for axis in axes)
    limited = facts.rights is not None and not facts.rights.is_owner
    if limited and kind in _SEARCHING and cells > MOST_SEARCHED:
        raise ParameterError(
            "problem_too_large",
            f"A publication of kind {kind!r} searches at most {MOST_SEARCHED:,} cells for who is "
            f"not the owner, not {cells:,}. Name fewer columns, or another kind such as 'wavelet'.",
        )


def without_files(
    facts: Facts,
    /,
    *,
    columns: Sequence[str] | str | None = None,
    workload: ArrayLike | str | Path | None = None,
    **asked: object,
) -> dict[str, Any]:
    """The arguments without files of this machine, as a client sends them."""
    if columns is None:
        return {"columns": None, "workload": workload, **asked}
    names = several(columns, "columns")
    return {"columns": names, "workload": _ranges(facts, names, workload), **asked}


def _ranges(
    facts: Facts, names: Sequence[str], workload: ArrayLike | str | Path | None
) -> ArrayLike | None:
    if not isinstance(workload, str | Path):
        return workload
    columns = [facts.declared.schema.column(name) for name in names]
    return read_workload(arguments.path(workload, "workload"), columns)


def _groups(column: Column, axis: Listed) -> dict[object, list[str | None]]:
    """The groups of each declared value in the column's hierarchy, the smallest first."""
    values = axis.values.drop_null().to_pylist()
    grown = grow(column, values)
    codes = grown.codes[grown.locate(values)]
    between = range(1, grown.height)
    return {
        value: [grown.labels[level][codes[row, level]] for level in between]
        for row, value in enumerate(values)
    }


@dataclass(frozen=True, repr=False)
class Published(Answer):
    """A publication that was paid for. Ranges are estimated from the released counts alone."""

    publication: Publication = field(kw_only=True)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "Expected error": dict(self.error or {})}

    def summary(self) -> dict[str, Any]:
        """The kind, the tables by their lengths, and the choices of the plan."""
        return {"kind": self.publication.kind, **super().summary()}

    def ranges(self, queries: ArrayLike) -> FloatArray:
        """Estimate the number of rows in ranges: (queries, columns, 2), both ends included."""
        return self.publication.ranges(self.tables, queries)

    def ranges_stddev(self, queries: ArrayLike) -> FloatArray:
        """The standard deviation of each estimate by noise."""
        return self.publication.ranges_stddev(queries, self.tables)

    def ranges_unevenness(self, queries: ArrayLike) -> FloatArray:
        """The largest error of each estimate besides noise, if a range ends within a counted box.

        It is computed from the released counts: all rows of such a box may lie on one side of the
        cut.
        """
        return self.publication.ranges_unevenness(self.tables, queries)

    def nearest(self, point: Sequence[float | date], k: int) -> pa.Table:
        """The released boxes nearest to a point that together are expected to hold k rows."""
        return nearest(_boxes(self.publication, self.tables), point, k)

    def save(
        self, path: str | Path, *, overwrite: bool = False, report: str | Path | None = None
    ) -> list[Path]:
        """Write the tables as any release; a map of boxes also as .geojson."""
        target = arguments.path(path, "path")
        if target.suffix.lower() != _GEOJSON:
            return super().save(target, overwrite=overwrite, report=report)
        for file in (target, sidecar_file(target)):
            check_target(file, overwrite=overwrite, kept=self.kept)
        boxes = _boxes(self.publication, self.tables)
        drawn = dumps(to_geojson(boxes, self.publication.request.axes))
        with writing(target, overwrite=overwrite) as writer:
            writer.text(target.name, drawn)
            self._write_report(writer, report, overwrite=overwrite)
            writer.write_sidecars(self)
        return writer.written


@dataclass(frozen=True, repr=False)
class FormPublished(Answer):
    """A publication of a graph, of paths or of itemsets that was paid for."""

    publication: KindPlan = field(kw_only=True)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "Expected error": dict(self.error or {})}

    def save(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        report: str | Path | None = None,
        model: None = None,  # noqa: ARG002  a synthetic table has one
    ) -> list[Path]:
        """Write its tables as any release does."""
        return super().save(path, overwrite=overwrite, report=report)

    @property
    def maps(self) -> tuple[tuple[str, ...], Mapping[str, pa.Table]]:
        """The tables that its page shows as maps, with their columns of places."""
        make = getattr(self.publication.method, "maps", None)
        return ((), {}) if make is None else make(self.tables)

    def summary(self) -> dict[str, Any]:
        """The kind, the tables by their lengths, and the choices of the plan."""
        return {"kind": self.publication.kind, **super().summary()}


def result(answer: Answer, publication: KindPlan) -> Published | FormPublished:
    """The answer of the gatekeeper to a publication, with its plan."""
    parts = {item.name: getattr(answer, item.name) for item in fields(answer)}
    if isinstance(publication, Publication):
        return Published(**parts, publication=publication)
    return FormPublished(**parts, publication=publication)
