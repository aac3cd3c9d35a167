"""The sandbox by Landlock: no helper program and no namespaces, for machines without both.

The worker gives up its own rights: beneath the runtime it may read, elsewhere nothing; no port, and
where the kernel knows how, no signal and no socket of anybody outside. The filters of calls are
those of bubblewrap. Decision `sandbox`.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from typing import Any

from sfumato.methods.programs.sandbox import runtime
from sfumato.methods.programs.sandbox.launcher import Started
from sfumato.methods.programs.sandbox.workers import ForkingChamber

_CREATE_RULESET, _ONLY_VERSION = 444, 1
_NEEDED_VERSION = 4
"""The first that knows the network."""
_READ_FILE, _READ_FOLDER = 4, 8
_ALL_OF_FILES = {4: (1 << 15) - 1, 5: (1 << 16) - 1}
_ALL_PORTS, _ALL_SCOPES = 3, 3
_SCOPES_SINCE = 6


class Landlock(ForkingChamber):
    """Rights given up by the worker itself, for root and for others."""

    name = "landlock"

    def _start(self, control: int) -> Started:
        """Start it as it is; it shuts itself in before it loads anything or sees a program."""
        # Older versions cannot forbid the network, and a block could send its rows away.
        if version() < _NEEDED_VERSION:
            raise PermissionError(f"the kernel knows Landlock {version()}, 4 is needed")
        process = subprocess.Popen(
            [*runtime.find_runtime().command, str(control)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=runtime.ENVIRONMENT,
            pass_fds=(control,),
            start_new_session=True,
        )
        return Started(process, process.pid)

    def _own_setup(self) -> dict[str, Any]:
        known = version()
        runtime_files = runtime.find_runtime()
        return {
            "parent": os.getpid(),
            "landlock": {
                "files": _ALL_OF_FILES[min(known, 5)] if known >= _NEEDED_VERSION else 0,
                "ports": _ALL_PORTS,
                "scopes": _ALL_SCOPES if known >= _SCOPES_SINCE else 0,
                "paths": [
                    [str(path), _READ_FILE | (_READ_FOLDER if path.is_dir() else 0)]
                    for path in runtime_files.paths
                ],
            },
        }


def version() -> int:
    """Which Landlock this kernel knows; 0 for none."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return max(int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ONLY_VERSION)), 0)
