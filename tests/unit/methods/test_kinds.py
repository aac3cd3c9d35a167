"""The registries of kinds: options are declared once, as their makers take them."""

from __future__ import annotations

from dataclasses import fields
from inspect import Parameter, signature
from typing import get_args

import pytest

from sfumato.errors import ParameterError
from sfumato.methods.kinds import Kind, kind_named, option_help
from sfumato.methods.learn.catalogue import KINDS as MODELS
from sfumato.methods.publish.catalogue import KINDS as PUBLICATIONS
from sfumato.methods.synth.methods import FORMS
from sfumato.vault.method_options import KindName, KindOptions, LearningOptions

REGISTRIES = {"publish": PUBLICATIONS, "learn": MODELS, "synthesize": FORMS}
ALL = [
    pytest.param(kind, id=f"{family} {name}")
    for family, kinds in REGISTRIES.items()
    for name, kind in kinds.items()
]


@pytest.mark.parametrize("kind", ALL)
def test_options_are_the_keywords_of_the_maker_with_their_defaults(kind: Kind) -> None:
    taken = {
        parameter.name: parameter.default
        for parameter in signature(kind.maker).parameters.values()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }
    assert {option.name: option.default for option in fields(kind.options)} == taken


@pytest.mark.parametrize("kind", ALL)
def test_every_option_has_a_type_and_a_line_of_help(kind: Kind) -> None:
    for option in fields(kind.options):
        assert option.type != "object"
        assert str(option.metadata["help"]).endswith(".")


def test_another_option_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ParameterError) as refusal:
        PUBLICATIONS["tree"].make(None, {"fanuot": 4}, "A publication of kind 'tree'")
    assert refusal.value.code == "option_unknown"
    assert "fanout" in refusal.value.message


def test_another_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ParameterError) as refusal:
        kind_named(PUBLICATIONS, "histgram", "publication")
    assert refusal.value.code == "choice_unknown"
    assert "histogram" in refusal.value.message


def test_help_lists_every_option_once_with_the_kinds_that_take_it() -> None:
    lines = option_help(MODELS)
    assert lines["clusters"] == "Of kmeans: How many centres there are. Default: 3."
    assert lines["rounds"].startswith("Of perceptron, kmeans: ")


def test_editors_know_every_option_of_every_kind() -> None:
    """The typed dictionaries of the Python methods name what the registries declare."""
    declared = {
        family: {field.name for kind in kinds.values() for field in fields(kind.options)}
        for family, kinds in (("publish", PUBLICATIONS), ("learn", MODELS))
    }
    assert declared["publish"] == set(KindOptions.__annotations__)
    assert declared["learn"] == set(LearningOptions.__annotations__)
    assert set(PUBLICATIONS) == set(get_args(KindName))
