"""Beginning a stream: what is asked of it, the same for every door, and what is charged."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.domain import Values
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods.stream.catalogue import prepare
from sfumato.methods.stream.request import StreamRequest
from sfumato.vault.memory_stream import Stream
from sfumato.vault.session import Offer, Session
from sfumato.vault.stream_charge import WholeStream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.schema import Schema
    from sfumato.vault.session import AskerOf, Asking, Facts

COSTS = ("epsilon", "rho", "delta")
"""What is offered for a stream as a whole."""
_SIZES = ("periods", "window", "days")


def whole_stream(
    title: str, facts: Facts, method: str, offer: Mapping[str, Any], asked: Mapping[str, Any]
) -> WholeStream:
    """A stream as a whole, ready to be charged, from what is asked and declared."""
    by, values = asked.get("by"), ()
    if by is not None:
        values = cells(facts.declared.schema, arguments.text(by, "by"))
    sizes = {one: asked.get(one) for one in _SIZES}
    request = StreamRequest(
        unit=facts.declared.unit,
        price=facts.price(Offer(**offer)),
        cells=max(1, len(values)),
        **{
            one: None if size is None else arguments.whole(size, one) for one, size in sizes.items()
        },
        options={one: what for one, what in asked.items() if one not in (*_SIZES, "by")},
    )
    made = prepare(request, arguments.text(method, "method"))
    schema, read = facts.declared.schema, dict.fromkeys((*request.unit.columns, by))
    columns = tuple(schema.column(one) for one in read if one is not None)
    return WholeStream(title, facts.dataset, request, made, by, values, columns=columns)


def cells(schema: Schema, by: str) -> tuple[Any, ...]:
    """The declared values of a column, in order."""
    domains = {one.name: one.domain for one in schema.columns}
    domain = domains.get(by)
    if not isinstance(domain, Values):
        listed = [name for name, one in domains.items() if isinstance(one, Values)]
        raise ParameterError(
            "stream_by_wrong",
            f"{quoted(by)} is no column with declared values, one figure for each; "
            + (suggestion(by, listed) if listed else "none is declared."),
        )
    return tuple(domain.values)


def begin_stream(
    session: Asking,
    asker_of: AskerOf,
    dataset: str,
    method: str,
    offer: Mapping[str, Any],
    asked: Mapping[str, Any],
) -> Stream:
    """Charge a stream as a whole and begin it in memory; only who holds the rows can step it."""
    if not isinstance(session, Session) or not asker_of((dataset,)).is_owner:
        raise ParameterError(
            "stream_not_here",
            "A stream is stepped by who holds the rows, where they are. Ask the owner for "
            "a continual feed.",
        )
    facts = session.facts(asker_of, dataset)
    # A name of its own: two streams that ask alike are two, with a charge and noise each.
    whole = whole_stream(f"stream {token_hex(16)}", facts, method, offer, asked)
    session.admit("publish", whole, facts)
    answer = session.answer(whole, asker_of, request_id=None)
    return Stream.begun(whole, answer, session.gatekeeper.ledger)
