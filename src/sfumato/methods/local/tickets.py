"""One-time tickets: what makes a report count once, without saying whose it is.

A ticket of a page is 16 random bytes and a code that only the collector's key can make, so nobody
invents one; one is handed out with every view of the page. A device that writes a batch file has no
collector to ask and draws 16 random bytes of its own. Either way the store keeps a digest of what
was used, apart from the reports and in an order of its own, and refuses it a second time.

It promises: a report that is sent twice, copied or replayed counts once; nobody floods a round but
by asking for a ticket each time. It does not promise one report for each person: whoever opens the
page twice may answer twice, which costs them their privacy twice. Decision `surveys`.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

NONCE_BYTES = 16
_CODE_BYTES = 16
LONGEST = 64
"""More letters than any ticket has."""


def written(ticket: bytes) -> str:
    """A ticket as it travels: letters, digits, '-' and '_'."""
    return urlsafe_b64encode(ticket).rstrip(b"=").decode("ascii")


def read(text: object) -> bytes | None:
    """The bytes of a ticket, or none where it is no text of that form."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST or not text.isascii():
        return None
    try:
        ticket_bytes = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    # One ticket is written in one way only: what the decoder overlooks would make it another.
    return ticket_bytes if written(ticket_bytes) == text else None


class TicketOffice:
    """Hands tickets of one round out and knows its own again."""

    def __init__(self, secret: bytes, round_id: str) -> None:
        self._key = hmac.digest(secret, f"sfumato tickets of {round_id}".encode(), "sha256")

    def issue(self, nonce: bytes) -> str:
        """A ticket with these random bytes."""
        return written(nonce + self._code(nonce))

    def is_ours(self, ticket: bytes) -> bool:
        """Whether it was handed out here."""
        nonce, code = ticket[:NONCE_BYTES], ticket[NONCE_BYTES:]
        return len(ticket) == NONCE_BYTES + _CODE_BYTES and hmac.compare_digest(
            code, self._code(nonce)
        )

    def _code(self, nonce: bytes) -> bytes:
        return hmac.digest(self._key, nonce, "sha256")[:_CODE_BYTES]


def is_drawn(ticket: bytes) -> bool:
    """Whether it may be one that a device drew for itself."""
    return len(ticket) == NONCE_BYTES


def digest_of(ticket: bytes) -> bytes:
    """What is kept of a ticket once it was used."""
    return sha256(ticket).digest()[:NONCE_BYTES]
