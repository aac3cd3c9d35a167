"""Format text for output: JSON without NaN and infinity, percentages, texts without secrets."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote


def dumps(
    value: object, *, indent: int | None = None, sort_keys: bool = False, ensure_ascii: bool = True
) -> str:
    """Write a value as JSON; a number that is not finite is null."""
    options: dict[str, Any] = {
        "indent": indent,
        "sort_keys": sort_keys,
        "ensure_ascii": ensure_ascii,
        "allow_nan": False,
    }
    try:
        return json.dumps(value, **options)
    except ValueError:
        return json.dumps(_finite(value), **options)


# Encoding 1000 rows takes some milliseconds, so that other threads are served in between.
_CHUNK_ENTRIES = 1000


def dumps_in_parts(value: object) -> str:
    """Write a value as JSON like `dumps`, long lists in parts.

    The encoder holds the interpreter's lock as long as one call lasts: a list of a million rows
    in one call would stop every other thread for seconds.
    """
    if isinstance(value, dict):
        items = (f"{dumps(str(key))}: {dumps_in_parts(entry)}" for key, entry in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list) and len(value) > _CHUNK_ENTRIES:
        starts = range(0, len(value), _CHUNK_ENTRIES)
        chunks = (
            dumps(value[start : start + _CHUNK_ENTRIES], ensure_ascii=False) for start in starts
        )
        return f"[{', '.join(chunk[1:-1] for chunk in chunks)}]"
    return dumps(value, ensure_ascii=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


def share(fraction: float) -> str:
    """Format a share in percent. Only 0 is shown as 0 %, and only 1 as 100 %: a rounded 0 % would
    claim that nobody is affected."""
    percent = 100 * fraction
    for edge, bound in ((0.0, "< 0.1 %"), (100.0, "> 99.9 %")):
        if percent != edge and abs(percent - edge) < 0.05:
            return bound
    return f"{percent:.0f} %" if percent in {0.0, 100.0} else f"{percent:.1f} %"


def minute(time: str | None) -> str:
    """Format an ISO time in UTC to the minute: 2031-01-31 18:00; without the time at midnight."""
    return "never" if time is None else time[:16].replace("T", " ").removesuffix(" 00:00")


HIDDEN = "***"
"""Replaces a password in a text that others may see."""

# One slash is enough: a normalised path, or a typing error, leaves one of two.
_BEFORE_HOST = r":/+[^\s/@:?#\"']*:(?P<first>[^\s?#\"']+)@"
# A key of an address (?password=, &sslpassword=), of PostgreSQL's plain form (host=h password=p),
# and one that servers take as a header (;token=, ;x-api-key=).
_BY_KEY = (
    r"(?:(?<![A-Za-z0-9_.-])(?:ssl)?(?:password|passwd|passphrase|pwd)"
    r"|(?<=[;?&])(?:[A-Za-z0-9_.]+-)*(?:token|secret|authorization|api[_-]?key|cookie))\s*=\s*"
    r"(?P<second>'(?:[^'\\]|\\.)+'|[^\s&;#\"']+)"
)
_SECRET = re.compile(f"{_BEFORE_HOST}|{_BY_KEY}", re.IGNORECASE)

# With an unquoted '@' in a password, drivers take the part after it for the host, and quote it.
_STRAY = re.compile(r"(?<=['\"])[^\s'\"]+(?=@)")


def holds_password(text: str) -> bool:
    """Whether a text contains a password, in an address or as a key with its value."""
    return any(_SECRET.search(form) for form in (text, unquote(text)))


def without_passwords(text: str) -> str:
    """Hide the password of every address that a text quotes."""
    plain = text if not _SECRET.search(unquote(text)) else unquote(text)
    return _STRAY.sub(HIDDEN, _SECRET.sub(_hidden, plain))


# A path in quotes may have spaces; one without ends at the first.
_QUOTED_PATH = re.compile(r"(?<=')/[^'\n]+(?=')")
_PATH = re.compile(r"(?<![\w/.:~'-])/[^\s'\"<>,;:()]+")


def without_places(text: str) -> str:
    """Shorten every absolute path of this machine in a text to its last name.

    A path would reveal user names and the location of data to callers, who cannot use it. A path
    whose first folder does not exist on this machine, such as that of a web page, is unchanged.
    """
    return _PATH.sub(_last_name, _QUOTED_PATH.sub(_last_name, text))


def _last_name(match: re.Match[str]) -> str:
    path = PurePosixPath(match[0])
    with suppress(OSError):  # a caller's text may contain a name that is too long for a file
        if len(path.parts) > 1 and Path(*path.parts[:2]).exists():
            return path.name
    return match[0]


def _hidden(match: re.Match[str]) -> str:
    secret = match["first"] or match["second"]
    return match[0].replace(secret, HIDDEN)
