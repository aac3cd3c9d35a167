"""Secrets that key fingerprints and never leave the machine: of a data holder, of a vault."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from sfumato.errors import OutputError, SourceError

_BYTES = 32
_OTHERS_MAY_READ = 0o077


def holder_secret() -> bytes:
    """Read this user's secret, or draw one at first use."""
    path = _home() / "secret"
    if not path.exists():
        write_secret(path, new_secret())
    return read_secret(path)


def new_secret() -> bytes:
    """A new secret, which is nowhere yet."""
    return os.urandom(_BYTES)


def read_secret(path: Path) -> bytes:
    """Read a secret that only its owner may read."""
    try:
        exposed = path.stat().st_mode & _OTHERS_MAY_READ
        secret = path.read_bytes()
    except OSError as error:
        raise SourceError(
            "holder_secret_unreadable",
            f"Cannot read the secret in '{path}': {os.strerror(error.errno or 0)}. "
            "Put it back, readable for you alone.",
        ) from None
    if exposed:
        raise SourceError(
            "holder_secret_exposed",
            f"Others may read '{path}', which must stay secret. Run: chmod 600 '{path}'.",
        )
    if len(secret) != _BYTES:
        raise SourceError(
            "holder_secret_damaged",
            f"'{path}' does not hold a secret of {_BYTES} bytes. Put the original back.",
        )
    return secret


def _home() -> Path:
    given = os.environ.get("XDG_CONFIG_HOME")
    return (Path(given) if given else Path.home() / ".config") / "sfumato"


def write_secret(path: Path, secret: bytes) -> None:
    """Put a secret there, whole and readable by its owner alone, unless another was quicker."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(prefix=".secret.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(secret)
                stream.flush()
                os.fsync(stream.fileno())
            with suppress(FileExistsError):
                os.link(name, path)
        finally:
            Path(name).unlink()
    except OSError as error:
        raise OutputError(
            "holder_secret_unwritable",
            f"Cannot keep a secret in '{path}': {os.strerror(error.errno or 0)}. "
            "Make its folder writable; that of a user is named with XDG_CONFIG_HOME.",
        ) from None
