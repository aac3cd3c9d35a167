"""A fingerprint of a table: it tells its holder which data was released, and others nothing.

Inside the engine each row becomes a hash, and hashes are added up, so neither the order of rows nor
the way they are stored matters. What leaves is an HMAC of those sums under a secret that stays with
the data holder: without the secret nobody can test a guess about the data against it.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.counting.hashing import DIGITS, digest, folded
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sfumato.data.engines.base import Engine

_LARGE = 9_000_000_000  # its millionths fit 64 bits
_LANES = 2  # sums of 28-bit numbers stay inside 64 bits up to 2^35 rows


def fingerprint(engine: Engine, table: exp.Table, columns: Sequence[str], *, secret: bytes) -> str:
    """Compute the fingerprint of these columns, as 64 hexadecimal digits."""
    sums = _sums(engine, table, [exp.column(name, quoted=True) for name in columns])
    return _keyed(secret, (list(columns), sums))


def contents(
    engine: Engine, table: exp.Table, kinds: Mapping[str, Kind], *, secret: bytes
) -> str | None:
    """Compute a fingerprint that copies share: on any engine, in any order of rows and columns.

    Columns stand in the order of their names, which are not part of it. None for no rows at all,
    because all empty tables are alike.
    """
    names = sorted(kinds, key=lambda name: (name.casefold(), name))
    sums = _sums(engine, table, [_plain(name, kinds[name]) for name in names])
    return _keyed(secret, ("contents", len(names), sums)) if sums[0] else None


def of_file(path: Path, *, secret: bytes) -> str:
    """Compute a fingerprint of a file's bytes, which copies share however they are read."""
    with path.open("rb") as stream:
        return _keyed(secret, ("file", hashlib.file_digest(stream, "sha256").hexdigest()))


def _sums(engine: Engine, table: exp.Table, values: Sequence[exp.Expr]) -> list[int]:
    """The number of rows and the sums of their hashes."""
    row = folded(partial(digest, ""), values)
    hashed = exp.select(exp.alias_(row, "sf_hash")).from_(table.copy())
    digits = [
        exp.Substring(
            this=exp.column("sf_hash"),
            start=exp.convert(1 + lane * DIGITS),
            length=exp.convert(DIGITS),
        )
        for lane in range(_LANES)
    ]
    lanes = [exp.cast(exp.Sum(this=engine.traits.from_hex(one)), "BIGINT") for one in digits]
    totals = [exp.cast(exp.Count(this=exp.Star()), "BIGINT"), *lanes]
    query = exp.select(
        *(exp.alias_(total, f"sf_total_{place}") for place, total in enumerate(totals))
    ).from_(hashed.subquery("sf_hashed"))
    return [value or 0 for value in engine.run(query).to_pylist()[0].values()]


def _plain(name: str, kind: Kind) -> exp.Expr:
    """A value in a form that all engines write alike: reals in millionths, or only as large."""
    value: exp.Expr = exp.column(name, quoted=True)
    if kind is Kind.DATE:
        return exp.cast(value, "DATE")
    if kind is not Kind.REAL:
        return value
    real = exp.cast(value, "DOUBLE")
    millionths = exp.Floor(this=real * exp.convert(1_000_000) + exp.Literal.number("0.5"))
    written = exp.cast(exp.cast(millionths, "BIGINT"), "TEXT")
    small = exp.LT(this=exp.Abs(this=real.copy()), expression=exp.convert(_LARGE))
    missing = exp.Is(this=value.copy(), expression=exp.null())
    return exp.case().when(missing, exp.null()).when(small, written).else_(exp.convert("large"))


def _keyed(secret: bytes, what: object) -> str:
    return hmac.new(secret, repr(what).encode(), hashlib.sha256).hexdigest()
