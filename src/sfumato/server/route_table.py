"""The one table of routes. A new door is a module of `gate.doors` and its name here."""

from __future__ import annotations

from sfumato.server.operation_routes import operation_routes
from sfumato.server.routes import (
    about,
    jobs,
    questions,
    releases,
    reports,
)

ROUTES = (
    *about.ROUTES,
    *questions.ROUTES,
    *jobs.ROUTES,
    *releases.ROUTES,
    *reports.ROUTES,
    *operation_routes(),
)
"""Every route below /v1, in the order in which people are told of them."""
