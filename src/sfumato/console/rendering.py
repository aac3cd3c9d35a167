"""Pages as they are sent: templates that escape whatever they get, one style sheet, one script.

Nothing of a page is code or style of its own: what it needs stands in files of this server, whose
names change with what is in them, so that browsers may keep them for good.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.report.page import templates
from sfumato.report.palette import picture_style, sheet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

STATIC = "/console/static/{file}"
_HERE = "sfumato.console"
_MEDIA = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class StaticFile(NamedTuple):
    """A file for browsers: under which name, of which media type, and its bytes."""

    name: str
    media: str
    content: bytes


@cache
def static_files() -> dict[str, StaticFile]:
    """The style sheet, the script and the mark, by the word for each."""
    found = {}
    for name in ("console.css", "console.js", "mark.svg"):
        text = files(_HERE).joinpath("static", name).read_text(encoding="utf-8")
        if name == "console.css":
            # As reports look, and then what only a console has.
            text = picture_style() + sheet("page.css") + text
        content = text.encode()
        stem, _, ending = name.partition(".")
        digest = hashlib.sha256(content).hexdigest()[:16]
        found[name] = StaticFile(f"{stem}-{digest}.{ending}", _MEDIA[ending], content)
    return found


def static_file(name: str) -> StaticFile | None:
    """The file of that name, with what it has in it now."""
    return next((one for one in static_files().values() if one.name == name), None)


def render(template: str, facts: Mapping[str, Any]) -> str:
    """A template with these facts."""
    return _environment().get_template(template).render(facts)


@cache
def _environment() -> Environment:
    made = templates(_HERE, "sfumato.report")
    made.globals["static"] = {
        name: STATIC.format(file=one.name) for name, one in static_files().items()
    }
    return made
