"""Fingerprints of tables, and the secrets that key them.

A fingerprint shows its holder which data was released, and shows others nothing. The engine hashes
each row and adds the hashes up, so neither the order of rows nor their storage matters. The
fingerprint is an HMAC of these sums under a secret that stays with the data holder: without the
secret nobody can test a guess about the data against it. Each user and each vault has a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.counting.hashing import DIGITS, digest, folded
from sfumato.data.schema.column import Kind
from sfumato.errors import OutputError, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.data.engines.base import Engine


_LARGE = 9_000_000_000  # in millionths this still fits 64 bits
_LANES = 2  # sums of 28-bit numbers stay inside 64 bits up to 2^35 rows


def fingerprint(engine: Engine, table: exp.Table, columns: Sequence[str], *, secret: bytes) -> str:
    """Compute the fingerprint of these columns, as 64 hexadecimal digits."""
    sums = _sums(engine, table, [exp.column(name, quoted=True) for name in columns])
    return _keyed_digest(secret, (list(columns), sums))


def contents(
    engine: Engine, table: exp.Table, kinds: Mapping[str, Kind], *, secret: bytes
) -> str | None:
    """Compute a fingerprint that copies share: on any engine, in any order of rows and columns.

    Columns are sorted by name, and names are not part of it. Returns None for a table without rows,
    because all empty tables are alike.
    """
    names = sorted(kinds, key=lambda name: (name.casefold(), name))
    sums = _sums(engine, table, [_plain(name, kinds[name]) for name in names])
    return _keyed_digest(secret, ("contents", len(names), sums)) if sums[0] else None


def of_file(path: Path, *, secret: bytes) -> str:
    """Compute a fingerprint of the bytes of a file, for files that no engine reads."""
    with path.open("rb") as stream:
        return _keyed_digest(secret, ("file", hashlib.file_digest(stream, "sha256").hexdigest()))


def _sums(engine: Engine, table: exp.Table, values: Sequence[exp.Expr]) -> list[int]:
    """Return the number of rows and the sums of their hashes."""
    # Sums of hashes do not depend on the order of rows, nor on how they are stored.
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
    lanes = [
        exp.cast(exp.Sum(this=engine.traits.from_hex(lane_digits)), "BIGINT")
        for lane_digits in digits
    ]
    totals = [exp.cast(exp.Count(this=exp.Star()), "BIGINT"), *lanes]
    # One query for all sums: the table is read once.
    query = exp.select(
        *(exp.alias_(total, f"sf_total_{lane}") for lane, total in enumerate(totals))
    ).from_(hashed.subquery("sf_hashed"))
    return [value or 0 for value in engine.run(query).to_pylist()[0].values()]


def _plain(name: str, kind: Kind) -> exp.Expr:
    """Return a value as text that all engines write alike: reals in millionths, or "large"."""
    value: exp.Expr = exp.column(name, quoted=True)
    if kind is Kind.DATE:
        return exp.cast(value, "DATE")
    if kind is not Kind.REAL:
        return value
    real = exp.cast(value, "DOUBLE")
    # Engines print floats differently; millionths are integers, which all print alike.
    millionths = exp.Floor(this=real * exp.convert(1_000_000) + exp.Literal.number("0.5"))
    written = exp.cast(exp.cast(millionths, "BIGINT"), "TEXT")
    small = exp.LT(this=exp.Abs(this=real.copy()), expression=exp.convert(_LARGE))
    missing = exp.Is(this=value.copy(), expression=exp.null())
    return exp.case().when(missing, exp.null()).when(small, written).else_(exp.convert("large"))


def _keyed_digest(secret: bytes, content: object) -> str:
    return hmac.new(secret, repr(content).encode(), hashlib.sha256).hexdigest()


_BYTES = 32
_OTHERS_MAY_READ = 0o077


def holder_secret() -> bytes:
    """Read this user's secret, or draw one at first use."""
    path = _home() / "secret"
    if not path.exists():
        write_secret(path, new_secret())
    return read_secret(path)


def new_secret() -> bytes:
    """Draw a new secret, without storing it."""
    return os.urandom(_BYTES)


def read_secret(path: Path) -> bytes:
    """Read a secret; raise if others may read its file."""
    try:
        exposed = path.stat().st_mode & _OTHERS_MAY_READ
        secret = path.read_bytes()
    except OSError as error:
        raise SourceError(
            "secret_unusable",
            f"Cannot read the secret in '{path}': {os.strerror(error.errno or 0)}. "
            "Put it back, readable for you alone.",
        ) from None
    # Anyone with the secret can test guesses about the data against a published fingerprint.
    if exposed:
        raise SourceError(
            "secret_exposed",
            f"Others may read '{path}', which must stay secret. Run: chmod 600 '{path}'.",
        )
    if len(secret) != _BYTES:
        raise SourceError(
            "secret_unusable",
            f"'{path}' does not hold a secret of {_BYTES} bytes. Put the original back.",
        )
    return secret


def _home() -> Path:
    configured = os.environ.get("XDG_CONFIG_HOME")
    return (Path(configured) if configured else Path.home() / ".config") / "sfumato"


def write_secret(path: Path, secret: bytes) -> None:
    """Write a secret, readable by its owner alone; keep one that another process wrote first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(prefix=".secret.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(secret)
                stream.flush()
                os.fsync(stream.fileno())
            # A link fails where another process was quicker; its secret is then the one that is
            # read.
            with suppress(FileExistsError):
                os.link(name, path)
        finally:
            Path(name).unlink()
    except OSError as error:
        raise OutputError(
            "secret_unusable",
            f"Cannot keep a secret in '{path}': {os.strerror(error.errno or 0)}. "
            "Make its folder writable; XDG_CONFIG_HOME names that of a user.",
        ) from None
