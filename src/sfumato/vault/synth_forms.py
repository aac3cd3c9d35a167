"""Made-up graphs, paths and baskets: which form a synthesis has, and the module that makes it."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, NamedTuple

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods.publish.form_kinds import FormPublication
from sfumato.vault.publish_family import form_request, refuse_useless

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.schema import Schema
    from sfumato.vault.session import Facts, Offer

TABLE, PATHS = "table", "paths"


class Twin(NamedTuple):
    """A form of made-up data: the form of the table it is made of, and the module that does it."""

    form: str
    home: str


TWINS = {
    "graph": Twin("edges", "sfumato.methods.graph.synthesize"),
    PATHS: Twin("points", "sfumato.methods.trajectory.synthesize"),
    "baskets": Twin("items", "sfumato.methods.itemsets.synthesize"),
}


def twin_of(schema: Schema, wanted: str | None) -> str:
    """What is made up of a table: what is asked for, else what the form of its schema says."""
    if wanted is None:
        form = schema.form
        return next((name for name, one in TWINS.items() if form and one.form == form.name), TABLE)
    if wanted not in (TABLE, *TWINS):
        raise ParameterError(
            "form_unknown",
            f"Nothing can be made up as {quoted(wanted)}; {suggestion(wanted, [TABLE, *TWINS])}",
        )
    return wanted


def prepare_twin(
    facts: Facts, offer: Offer, made: str, said: Mapping[str, object]
) -> FormPublication:
    """Make a synthesis of a form ready to be charged and run, by the options that it has."""
    twin, what = TWINS[made], f"A synthesis as {made}"
    request = form_request(facts, offer, twin.form, what)
    make = import_module(twin.home).prepare
    known = [
        name
        for name, one in signature(make).parameters.items()
        if one.kind is Parameter.KEYWORD_ONLY
    ]
    usual = {"method": "auto"}
    given = {name: one for name, one in said.items() if one is not None and one != usual.get(name)}
    refuse_useless(what, {name: one for name, one in given.items() if name not in known})
    return FormPublication(made, request, make(request, **given), "synthesize")
