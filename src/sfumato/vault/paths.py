"""Synthesizing a data set of paths: whether that is asked, the request, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato import given
from sfumato.engines.files.output import layout_for
from sfumato.errors import ParameterError
from sfumato.release.codec import unreadable_answer
from sfumato.schema.forms import Points
from sfumato.schema.names import count
from sfumato.trajectory.request import VISITS, request_of
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from sfumato.privacy.price import Price
    from sfumato.schema.schema import Schema
    from sfumato.trajectory.request import PathRequest

FORM_WORDS = ("table", "paths")


def is_of_paths(schema: Schema, form: str | None) -> bool:
    """Whether paths are asked for: by name, or because that is what the schema says rows are."""
    if form is None:
        return isinstance(schema.form, Points)
    given.one_of(form, "form", FORM_WORDS)
    return form == "paths"


def path_request(
    schema: Schema, price: Price, beside: Mapping[str, object], **asked: Any
) -> PathRequest:
    """A synthesis of paths, which takes nothing that is about columns."""
    for name, value in beside.items():
        if value is not None and value != ():
            raise ParameterError(
                "option_unknown",
                f"A synthesis of paths takes no --{name}: paths are drawn whole. Leave it out, or "
                "give --as table.",
            )
    return request_of(schema, price, **asked)


@dataclass(frozen=True, repr=False)
class PathTwin(Answer):
    """Made-up paths that were paid for; `maps` counts their points in boxes, for its page."""

    maps: Mapping[str, pa.Table] = field(kw_only=True)
    method: str = field(kw_only=True)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "Method": self.method}

    @property
    def in_short(self) -> Sequence[str]:
        """How many paths and points there are."""
        path = self.provenance.parameters["path"]
        paths = len(self.table.column(path).unique())
        points = count(self.table.num_rows, "point")
        made = f"Made up {count(paths, 'path')} of {points}, by method {self.method}"
        return [f"{made}; each is of a person of its own."]

    def summary(self) -> dict[str, Any]:
        """The method, and how many points of which columns."""
        return {
            "method": self.method,
            "rows": self.table.num_rows,
            "columns": self.table.column_names,
            "measured": [],
        }

    @given.in_python
    def save(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        report: str | Path | None = None,
        model: str | Path | None = None,
    ) -> list[Path]:
        """Write the points as any release does; their model is not kept."""
        if model is not None:
            raise model_not_kept()
        return super().save(path, overwrite=overwrite, report=report)


def model_not_kept() -> ParameterError:
    """Say that no file of a model is written."""
    return ParameterError(
        "model_not_kept",
        "A model of paths is not kept: leave out --model, and draw as many as you need with "
        "--rows N.",
    )


def path_twin(paid: dict[str, Any], request: PathRequest) -> PathTwin:
    """The answer of the gatekeeper with the twin apart from its maps."""
    tables = paid["tables"]
    if set(tables) != {request.dataset, VISITS}:
        raise unreadable_answer(KeyError(request.dataset))
    paid["maps"] = {VISITS: tables[VISITS]}
    rows = tables[request.dataset]
    paid["tables"] = {request.dataset: rows}
    paid["layouts"] = {request.dataset: layout_for(rows, request.layouts[request.dataset])}
    return PathTwin(**paid, method=request.method)
