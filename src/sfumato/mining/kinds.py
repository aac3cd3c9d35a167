"""The kinds of models by name: who makes a learner, and who reads a model."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from sfumato import given
from sfumato.errors import ParameterError
from sfumato.mining.catalogue import KINDS
from sfumato.mining.request import Learning
from sfumato.schema.names import quoted, suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.mining.catalogue import LearningKind
    from sfumato.mining.model import Model
    from sfumato.mining.request import LearningRequest


def kind_named(kind: str) -> LearningKind:
    """A kind by its name."""
    if given.text(kind, "kind") not in KINDS:
        raise ParameterError(
            "kind_unknown",
            f"There is no kind of model {quoted(kind)}; {suggestion(kind, list(KINDS))}",
        )
    return KINDS[kind]


def prepare(kind: str, request: LearningRequest, options: Mapping[str, object]) -> Learning:
    """Make a request ready to be charged and run; every choice is made from public facts."""
    make = getattr(_home(kind), kind_named(kind).home.partition(":")[2] or "prepare")
    known = [
        name
        for name, one in signature(make).parameters.items()
        if one.kind is Parameter.KEYWORD_ONLY
    ]
    for name in options:
        if name not in known:
            told = suggestion(name, known) if known else "it has none."
            raise ParameterError(
                "option_unknown",
                f"A model of kind {quoted(kind)} has no option {quoted(name)}; {told}",
            )
    return Learning(kind, request, make(request, **options))


def model_type(kind: str) -> type[Model]:
    """What reads the tables of a kind: the `MODEL` of its module."""
    found: type[Model] = _home(kind).MODEL
    return found


def _home(kind: str) -> Any:
    module = kind_named(kind).home.partition(":")[0]
    return import_module(f"sfumato.mining.{module}")
