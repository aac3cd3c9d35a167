"""Pages as HTML: templates that escape every value, one style sheet and one script.

No page holds code or style of its own, so the content security policy can forbid both inline. The
names of static files contain a hash of their content, so browsers may cache them forever.
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
_PACKAGE = "sfumato.console"
_MEDIA = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class StaticFile(NamedTuple):
    """A file for browsers."""

    name: str
    media: str
    content: bytes


@cache
def static_files() -> dict[str, StaticFile]:
    """The style sheet, the script and the logo, by their names without hash."""
    static = {}
    for name in ("console.css", "console.js", "mark.svg"):
        text = files(_PACKAGE).joinpath("static", name).read_text(encoding="utf-8")
        if name == "console.css":
            # The console looks like reports, with a few additions.
            text = picture_style() + sheet("page.css") + text
        content = text.encode()
        stem, _, ending = name.partition(".")
        # 64 bits of the hash: enough to tell versions apart.
        digest = hashlib.sha256(content).hexdigest()[:16]
        static[name] = StaticFile(f"{stem}-{digest}.{ending}", _MEDIA[ending], content)
    return static


def static_file(name: str) -> StaticFile | None:
    """The file of this name, hash included, or None."""
    return next((file for file in static_files().values() if file.name == name), None)


def render(template: str, facts: Mapping[str, Any]) -> str:
    """Fill a template."""
    return _environment().get_template(template).render(facts)


@cache
def _environment() -> Environment:
    environment = templates(_PACKAGE, "sfumato.report")
    environment.globals["static"] = {
        name: STATIC.format(file=file.name) for name, file in static_files().items()
    }
    return environment
