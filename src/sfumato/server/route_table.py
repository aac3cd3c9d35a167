"""The one table of routes. A new door is a module of `gate.doors` and its name here."""

from __future__ import annotations

from sfumato.server.operation_routes import operation_routes
from sfumato.server.routes import (
    about,
    datasets,
    jobs,
    questions,
    releases,
    reports,
    vault_admin,
)

ROUTES = (
    *about.ROUTES,
    *datasets.ROUTES,
    *questions.ROUTES,
    *jobs.ROUTES,
    *releases.ROUTES,
    *reports.ROUTES,
    *operation_routes(),
    *vault_admin.ROUTES,
)
"""Every route below /v1, in the order in which people are told of them."""
