"""The kinds of models by name: who makes a learner, and who reads a model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods.learn.catalogue import KINDS
from sfumato.methods.learn.request import Learning
from sfumato.methods.publish.options import of_maker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.learn.catalogue import LearningKind
    from sfumato.methods.learn.model import Model
    from sfumato.methods.learn.request import LearningRequest


def kind_named(kind: str) -> LearningKind:
    """A kind by its name."""
    if arguments.text(kind, "kind") not in KINDS:
        raise ParameterError(
            "kind_unknown",
            f"There is no kind of model {quoted(kind)}; {suggestion(kind, list(KINDS))}",
        )
    return KINDS[kind]


def prepare(kind: str, request: LearningRequest, options: Mapping[str, object]) -> Learning:
    """Make a request ready to be charged and run; every choice is made from public facts."""
    make = getattr(_home(kind), kind_named(kind).home.partition(":")[2] or "prepare")
    made = of_maker(make, options, f"A model of kind {quoted(kind)}")
    return Learning(kind, request, made(request))


def model_type(kind: str) -> type[Model]:
    """What reads the tables of a kind: the `MODEL` of its module."""
    found: type[Model] = _home(kind).MODEL
    return found


def _home(kind: str) -> Any:
    module = kind_named(kind).home.partition(":")[0]
    return import_module(f"sfumato.methods.learn.{module}")
