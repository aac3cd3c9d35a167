"""A control group for each block, in which nothing is swapped, where the machine gives one.

Memory that is swapped out could be seen by another block: by the time it takes to come back. So
one of these must hold, else no program is run: the machine has no swap; the group of this process
may not swap; groups may be made (version 2, delegated or for root), and each block has one of its
own that may not swap; memory can be locked. Decision `program-blocks`.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from sfumato.filesystem import mount_point

_NEXT = itertools.count()
_SWAPS, _MOUNTS, _OWN = Path("/proc/swaps"), Path("/proc/self/mounts"), Path("/proc/self/cgroup")
_LEAVE_SECONDS = 0.05


Keeping = Literal["no swap", "groups", "locks"]


def keeping() -> Keeping:
    """What keeps memory from being swapped out here; locks, where nothing else does."""
    if not _swaps() or _is_kept_from_swapping():
        return "no swap"
    group = _create_group()
    leave(group)
    return "groups" if group else "locks"


def join(process: int) -> Path | None:
    """Put a process that has seen no rows into a fresh group of its own, where one can be made."""
    group = _create_group()
    try:
        if group is not None:
            (group / "cgroup.procs").write_text(str(process))
    except OSError:
        leave(group)
        return None
    return group


def _create_group() -> Path | None:
    """A fresh group that may not swap."""
    above = parent()
    if above is None:
        return None
    group = above / f"sfumato-{os.getpid()}-{next(_NEXT)}"
    try:
        group.mkdir()
        (group / "memory.swap.max").write_text("0")
    except OSError:
        leave(group)
        return None
    return group


def leave(group: Path | None) -> None:
    """Remove a group whose process has ended; the kernel may still be busy with it for a moment."""
    end = time.monotonic() + _LEAVE_SECONDS
    while group is not None and group.exists() and time.monotonic() < end:
        with suppress(OSError):
            group.rmdir()


def parent() -> Path | None:
    """The nearest group in which we may make others that limit their memory."""
    own = _own()
    if own is None:
        return None
    root, home = own
    for group in (home, *home.parents):
        if not group.is_relative_to(root):
            break
        try:
            controlled = (group / "cgroup.subtree_control").read_text().split()
        except OSError:
            continue
        paths = (group, group / "cgroup.procs")
        if "memory" in controlled and all(os.access(path, os.W_OK) for path in paths):
            return group
    return None


def _swaps() -> bool:
    """Whether this machine has anywhere to swap to; one that does not say may have."""
    try:
        return len(_SWAPS.read_text().splitlines()) > 1
    except OSError:
        return True


def _is_kept_from_swapping() -> bool:
    """Whether the group of this process, or one above, allows no swap."""
    own = _own()
    if own is None:
        return False
    root, home = own
    for group in (home, *home.parents):
        if not group.is_relative_to(root):
            break
        with suppress(OSError):
            if (group / "memory.swap.max").read_text().strip() == "0":
                return True
    return False


def _own() -> tuple[Path, Path] | None:
    """Where groups of version 2 are seen, and the one of this process."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
        names = _OWN.read_text().splitlines()
    except OSError:
        return None
    roots = [mount_point(mount[1]) for mount in mounts if mount[2] == "cgroup2"]
    homes = [name[3:] for name in names if name.startswith("0::")]
    if not roots or not homes:
        return None
    return roots[0], roots[0] / homes[0].lstrip("/")
