"""The table of routes: those of operations, and those of `server.routes`."""

from __future__ import annotations

from sfumato.operations.private_methods import METHOD_OPERATIONS
from sfumato.operations.table import all_operations
from sfumato.server.operation_routes import operation_routes
from sfumato.server.routes import about, releases, reports

ROUTES = (
    *about.ROUTES,
    *operation_routes(METHOD_OPERATIONS),
    *releases.ROUTES,
    *reports.ROUTES,
    *operation_routes(all_operations()),
)
"""Every route below /v1, in the order of the document."""
