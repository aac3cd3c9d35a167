"""Reference counting of engines: an engine is closed when its last user is gone."""

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
# Reentrant: garbage collection can run `_leave` while this thread holds the lock.
_USING = RLock()


def hold_open(engine: Engine, user: object) -> None:
    """Keep an engine open until its user is garbage collected."""
    with _USING:
        use = _USES.setdefault(id(engine), _Use(engine))
        use.users += 1
    finalize(user, _leave, use)


def close_after_use(engine: Engine) -> None:
    """Close an engine as soon as it has no users, perhaps now."""
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
