"""An engine that several releases read: it is closed when the last of them is gone."""

from __future__ import annotations

from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING
from weakref import finalize

if TYPE_CHECKING:
    from sfumato.data.engines.base import Engine


@dataclass
class _Use:
    engine: Engine
    users: int = 0
    closed: bool = False


_USES: dict[int, _Use] = {}
_USING = RLock()  # whoever is freed may be freed while this thread has the lock


def hold_open(engine: Engine, user: object) -> None:
    """Keep an engine open for as long as its user is there."""
    with _USING:
        use = _USES.setdefault(id(engine), _Use(engine))
        use.users += 1
    finalize(user, _leave, use)


def close_after_use(engine: Engine) -> None:
    """Close an engine, once none of its users is there any more."""
    with _USING:
        use = _USES.get(id(engine))
        if use is not None:
            use.closed = True
            return
    engine.close()


def _leave(use: _Use) -> None:
    with _USING:
        use.users -= 1
        if use.users:
            return
        del _USES[id(use.engine)]
    if use.closed:
        use.engine.close()
