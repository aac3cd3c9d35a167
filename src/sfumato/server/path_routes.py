"""A path of an application, for every method: what is unknown is refused by its own endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route as PathRoute

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response


def path_route(path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> PathRoute:
    """A path whose endpoint is asked whatever the method; the framework's refusals are not ours."""
    route = PathRoute(path, endpoint)
    route.methods = None
    return route
