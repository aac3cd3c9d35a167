"""Tickets: nobody invents one, and one is written in one way only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.local.tickets import (
    TicketOffice,
    decode_ticket,
    digest_of,
    encode_ticket,
    is_drawn,
)

OFFICE = TicketOffice(b"k" * 32, "round")


@given(nonce=st.binary(min_size=16, max_size=16))
def test_a_ticket_is_known_again_where_it_was_handed_out(nonce: bytes) -> None:
    ticket = decode_ticket(OFFICE.issue(nonce))
    assert ticket is not None
    assert OFFICE.is_ours(ticket)
    assert not TicketOffice(b"k" * 32, "another").is_ours(ticket)
    assert not TicketOffice(b"l" * 32, "round").is_ours(ticket)


@given(ticket=st.binary(max_size=48))
def test_nobody_invents_one(ticket: bytes) -> None:
    assert not OFFICE.is_ours(ticket)
    assert is_drawn(ticket) == (len(ticket) == 16)


@pytest.mark.parametrize(
    "text", ["", None, 3, True, [], "é", "a b", "a=", "a" * 65, "ab\n", "A" * 43 + "\0", "+/+/"]
)
def test_what_is_no_ticket_is_none(text: object) -> None:
    assert decode_ticket(text) is None


def test_a_ticket_has_one_spelling() -> None:
    """Base64 leaves bits behind the last byte: set otherwise they would make a second ticket."""
    text = encode_ticket(bytes(16))
    assert decode_ticket(text) == bytes(16)
    assert [decode_ticket(text[:-1] + last) for last in "BCDEFGHIJKLMNOP"] == [None] * 15


def test_what_is_kept_does_not_give_the_ticket_away() -> None:
    ticket = bytes(range(32))
    assert digest_of(ticket) not in ticket
    assert len(digest_of(ticket)) == 16
