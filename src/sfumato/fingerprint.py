"""A fingerprint of a table: it tells its holder which data was released, and others nothing.

Inside the engine each row becomes a hash, and hashes are added up, so neither the order of rows nor
the way they are stored matters. What leaves is an HMAC of those sums under a secret that stays with
the data holder: without the secret nobody can test a guess about the data against it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.hashing import DIGITS, digest, integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.engines.base import Engine

_LANES = 2  # sums of 28-bit numbers stay inside 64 bits up to 2^35 rows


def fingerprint(engine: Engine, table: exp.Table, columns: Sequence[str], *, secret: bytes) -> str:
    """Compute the fingerprint of these columns, as 64 hexadecimal digits."""
    values = [exp.column(name, quoted=True) for name in columns]
    hashed = exp.select(exp.alias_(digest("", values), "sf_hash")).from_(table.copy())
    lanes = [
        exp.cast(exp.Sum(this=integer(exp.column("sf_hash"), 1 + lane * DIGITS)), "BIGINT")
        for lane in range(_LANES)
    ]
    totals = [exp.cast(exp.Count(this=exp.Star()), "BIGINT"), *lanes]
    query = exp.select(
        *(exp.alias_(total, f"sf_total_{place}") for place, total in enumerate(totals))
    ).from_(hashed.subquery("sf_hashed"))
    sums = [value or 0 for value in engine.run(query).to_pylist()[0].values()]
    text = repr((list(columns), sums)).encode()
    return hmac.new(secret, text, hashlib.sha256).hexdigest()
