"""The sandbox by bubblewrap: namespaces of its own that contain only the runtime.

No network, no other process, no writable place, no /proc and no /dev; no rights, and no way to win
any in namespaces below; two filters of calls. Decision `sandbox`.
"""

from __future__ import annotations

import json
import os
import platform
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.methods.programs.sandbox import runtime, seccomp
from sfumato.methods.programs.sandbox.launcher import Started, sealed
from sfumato.methods.programs.sandbox.workers import ForkingChamber

if TYPE_CHECKING:
    from typing import BinaryIO

_SAYING_SECONDS = 10.0
_SHUT = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
    *("--die-with-parent", "--new-session", "--clearenv", "--as-pid-1"),
    *("--uid", "65534", "--gid", "65534", "--hostname", "chamber"),
)


class Bubblewrap(ForkingChamber):
    """Namespaces by `bwrap`, for root and for others."""

    name = "bubblewrap"

    def _start(self, control: int) -> Started:
        """Start it; it tells under which number we see the process that is the first inside."""
        command = _trusted()
        steps = sealed(seccomp.first_filter(platform.machine(), programs=True))
        try:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            with os.fdopen(reader, "rb") as info:
                try:
                    process = subprocess.Popen(
                        [
                            *(command, *_SHUT, *_seen()),
                            *("--seccomp", str(steps), "--info-fd", str(writer)),
                            *("--", *runtime.find_runtime().command, str(control)),
                        ],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        # No environment and no working folder of ours: both may name paths or hold
                        # secrets.
                        cwd="/",
                        env={},
                        pass_fds=(steps, writer, control),
                    )
                finally:
                    os.close(writer)
                return Started(process, _first_inside(_heard(info), process))
        finally:
            os.close(steps)


def _trusted() -> str:
    """Where bwrap is; one that others than root and ourselves could have put there is not run."""
    command = shutil.which("bwrap")
    if command is None:
        raise FileNotFoundError("bwrap is not installed")
    for path in (Path(command).resolve(), Path(command).resolve().parent):
        state = path.stat()
        # A bwrap that others may replace would run their code outside of any sandbox.
        if state.st_uid not in {0, os.geteuid()} or state.st_mode & 0o022:
            raise PermissionError(f"others may change {path}, so its bwrap is not run")
    return command


def _heard(info: BinaryIO) -> bytes:
    """What is written before the other end is closed; one who keeps it open is not waited for."""
    text, end = b"", time.monotonic() + _SAYING_SECONDS
    poll = select.poll()
    poll.register(info, select.POLLIN)
    while (seconds_left := end - time.monotonic()) > 0 and poll.poll(1000 * seconds_left):
        piece = os.read(info.fileno(), 4096)
        if not piece:
            return text
        text += piece
    return b""


def _first_inside(info: bytes, process: subprocess.Popen[bytes]) -> int:
    try:
        return int(json.loads(info)["child-pid"])
    except (ValueError, KeyError):
        process.kill()
        process.wait()
        raise PermissionError(
            "bwrap does not start: it needs version 0.8 and the right to make namespaces"
        ) from None


def _seen() -> list[str]:
    """The runtime where it lies, to be read only, and nothing else."""
    runtime_files = runtime.find_runtime()
    arguments = []
    for path in runtime_files.paths:
        arguments += ["--ro-bind", str(path), str(path)]
        # Packages for programs may lie beneath, and are shown after the others were hidden.
        for hidden in runtime_files.hidden:
            arguments += ["--tmpfs", str(hidden)] if hidden.parent == path else []
    for top in ("/lib", "/lib64"):
        if Path(top).is_symlink():
            arguments += ["--symlink", str(Path(top).readlink()), top]
    # Empty folders over other packages, read-only from here on.
    for hidden in runtime_files.hidden:
        arguments += ["--remount-ro", str(hidden)]
    for name, value in runtime.ENVIRONMENT.items():
        arguments += ["--setenv", name, value]
    return [*arguments, "--chdir", "/", "--remount-ro", "/"]
