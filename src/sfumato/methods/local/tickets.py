"""One-time tickets: a report counts once, and nobody learns whose it is.

A page issues a ticket with every view: 16 random bytes and a code that only the collector's key can
compute, so nobody forges one. A device that writes a batch file has no collector to ask and draws
16 random bytes of its own. In both cases the store keeps a digest of used tickets, apart from the
reports and in another order, and refuses them a second time.

Guaranteed: a report that is sent twice, copied or replayed counts once, and flooding a round takes
a request for each ticket. Not guaranteed: one report per person. Opening the page twice allows two
answers, which also costs that person's privacy twice. Decision `surveys`.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

NONCE_BYTES = 16
_CODE_BYTES = 16
MOST_LETTERS = 64
"""No ticket has more letters."""


def encode_ticket(ticket: bytes) -> str:
    """Encode a ticket as letters, digits, '-' and '_'."""
    return urlsafe_b64encode(ticket).rstrip(b"=").decode("ascii")


def decode_ticket(text: object) -> bytes | None:
    """Decode a ticket; None if the text is no ticket."""
    if not isinstance(text, str) or not 0 < len(text) <= MOST_LETTERS or not text.isascii():
        return None
    try:
        ticket_bytes = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    # Only the canonical text counts: the decoder ignores some bits, so variants would be replays.
    return ticket_bytes if encode_ticket(ticket_bytes) == text else None


class TicketOffice:
    """Issues and recognises the tickets of one round."""

    def __init__(self, secret: bytes, round_id: str) -> None:
        self._key = hmac.digest(secret, f"sfumato tickets of {round_id}".encode(), "sha256")

    def issue(self, nonce: bytes) -> str:
        """Issue the ticket of these random bytes."""
        return encode_ticket(nonce + self._code(nonce))

    def is_ours(self, ticket: bytes) -> bool:
        """Whether a ticket was issued here."""
        nonce, code = ticket[:NONCE_BYTES], ticket[NONCE_BYTES:]
        return len(ticket) == NONCE_BYTES + _CODE_BYTES and hmac.compare_digest(
            code, self._code(nonce)
        )

    def _code(self, nonce: bytes) -> bytes:
        return hmac.digest(self._key, nonce, "sha256")[:_CODE_BYTES]


def is_drawn(ticket: bytes) -> bool:
    """Whether a ticket has the length of tickets that devices draw themselves."""
    return len(ticket) == NONCE_BYTES


def digest_of(ticket: bytes) -> bytes:
    """The digest of a used ticket, which the store keeps."""
    return sha256(ticket).digest()[:NONCE_BYTES]
