"""Training a model on a data set: the request from public facts, and the model."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.column import Role
from sfumato.data.schema.constraints import DeclaredRows
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Items
from sfumato.errors import OutputError, ParameterError, option
from sfumato.filesystem import check_target
from sfumato.methods.kinds import Kind, kind_named
from sfumato.methods.learn import request as models
from sfumato.methods.learn.catalogue import KINDS
from sfumato.methods.learn.request import Learning, LearningRequest, model_type
from sfumato.methods.options import several
from sfumato.release.files_in_use import vault_files_around
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.learn.model import Model
    from sfumato.vault.session import Facts, Offer


def prepare(
    facts: Facts,
    offer: Offer,
    /,
    *,
    kind: str,
    features: Sequence[str] | str | None = None,
    target: str | None = None,
    **options: object,
) -> Learning:
    """Plan a model from public facts alone."""
    model_kind, schema = kind_named(KINDS, kind, "model"), facts.declared.schema
    declared = (rule.rows for rule in schema.constraints if isinstance(rule, DeclaredRows))
    goal = _target(model_kind, kind, schema, target)
    request = LearningRequest(
        dataset=schema.table,
        schema=schema,
        features=_features(model_kind, kind, schema, features, goal),
        target=goal,
        unit=facts.declared.unit,
        price=facts.price(offer),
        rows=next(declared, None),
    )
    return models.prepare(kind, request, options)


def without_files(_facts: Facts, /, **asked: object) -> dict[str, Any]:
    """The arguments of the request, of which none names a file of this machine."""
    features = asked.get("features")
    listed = features if features is None else list(several(features, "features"))
    return {**asked, "features": listed}


def _target(kind: Kind, name: str, schema: Schema, target: str | None) -> Column | None:
    if (kind.target == "none") is (target is None):
        return None if target is None else schema.column(arguments.text(target, "target"))
    if target is None:
        raise ParameterError(
            "column_unknown",
            f"A model of kind {quoted(name)} tells one column by others. Name it with "
            f"{option('target')}.",
        )
    raise ParameterError(
        "option_not_applicable",
        f"A model of kind {quoted(name)} tells no column by others. Leave {option('target')} out.",
    )


def _features(
    kind: Kind,
    name: str,
    schema: Schema,
    features: Sequence[str] | str | None,
    target: Column | None,
) -> tuple[Column, ...]:
    """The named columns; for a table of items, those of its form."""
    form = schema.form
    if features is None:
        if isinstance(form, Items) and kind.form == form.name:
            return (schema.column(form.owner), schema.column(form.item))
        raise ParameterError(
            "column_unsuitable",
            f"A model of kind {quoted(name)} is made of columns. Name them with "
            f"{option('features', ['A', 'B'])}.",
        )
    names = several(features, "features")
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "column_unsuitable", "Name at least one column as a feature, and each only once."
        )
    if target is not None and target.name in names:
        raise ParameterError(
            "column_unsuitable",
            f"{quoted(target.name)} is the target, which cannot tell itself. Leave it out of the "
            "features.",
        )
    columns = tuple(schema.column(name) for name in names)
    for column in columns:
        if column.role is Role.IDENTIFIER:
            raise ParameterError(
                "column_unsuitable",
                f"Column {quoted(column.name)} says who somebody is, and nothing can be learnt of "
                "it. Leave it out of the features.",
            )
    return columns


def check_targets(
    _learning: Learning,
    out: Path,
    report: Path | None,
    *,
    overwrite: bool,
    kept: Sequence[Path] = (),
) -> list[Path]:
    """Refuse a model that could not be written, before anything is charged for it."""
    _check_name(out)
    places = [out] if report is None else [out, report]
    for path in places:
        check_target(path, overwrite=overwrite, kept=(*kept, *vault_files_around(path)))
    return places


def _check_name(out: Path) -> None:
    """Refuse a file name of another format than that of a model."""
    if out.suffix.lower() != ".json":
        raise OutputError(
            "format_unknown",
            f"Cannot write a model to {str(out)!r}: it is JSON, and its name must end in .json.",
        )


@dataclass(frozen=True, repr=False)
class LearnedModel(Answer):
    """A model that was paid for. It predicts by itself; `model` is all of it."""

    learning: Learning = field(kw_only=True)

    @property
    def in_folder(self) -> bool:
        """False: a model is one file, whatever tables it consists of."""
        return False

    @property
    def model(self) -> Model:
        """The model, which can be saved and used without a vault."""
        request = self.learning.request
        return model_type(self.learning.kind)(
            kind=self.learning.kind,
            kinds={column.name: str(column.kind) for column in request.features},
            target=None if request.target is None else request.target.name,
            facts=dict(self.learning.method.facts),
            tables=self.tables,
            guarantee=self.guarantee.statement,
            error=dict(self.error or {}),
            receipt=self.receipt,
        )

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803  # as scikit-learn calls it
        """Predict for each row of a table, or of an array with the features in order."""
        return self.model.predict(X)

    def score(self, X: Any, y: ArrayLike) -> float:  # noqa: N803
        """The accuracy of classes, or the R squared of numbers."""
        return self.model.score(X, y)

    def save(
        self, path: str | Path, *, overwrite: bool = False, report: str | Path | None = None
    ) -> list[Path]:
        """Write the model as JSON, without any row of the data. A `report` is a page about it."""
        target = arguments.path(path, "path")
        _check_name(target)
        check_target(target, overwrite=overwrite, kept=self.kept)
        if report is not None:
            self.report(report, overwrite=overwrite)
        return [self.model.save(target, overwrite=overwrite)]

    def summary(self) -> dict[str, Any]:
        """The kind, the tables by their lengths, and the choices of the plan."""
        return {"kind": self.learning.kind, **super().summary()}


def result(answer: Answer, learning: Learning) -> LearnedModel:
    """The answer of the gatekeeper to learning, with the model."""
    paid = {field.name: getattr(answer, field.name) for field in fields(answer)}
    return LearnedModel(**paid, learning=learning)
