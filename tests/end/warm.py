"""The command without its start: each runs in a process forked from one that has loaded libraries.

What runs is the command itself, with the arguments, streams, folder and environment of whoever
calls `sfumato`, and it ends its process as it always does. Only the loading of libraries, most of
the time of a small command, is done once. That the command starts cold is tested elsewhere.
Decision `audits`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOADED = (
    "pandas",  # which Arrow asks for at its first array
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "pydantic.main",
    "rich.console",
    "rich._emoji_codes",
    "sqlglot.dialects.duckdb",
    "sfumato.cli",
    "sfumato.cli.attack",
    "sfumato.cli.anonymize",
    "sfumato.report.terminal",
    "sfumato.anonymize.result",
    "sfumato.attack.runner",
    "sfumato.vault.private",
    "sfumato.vault.protection",
    "sfumato.vault.vault",
)
# A '#!' line ends at the first space of Python's path, so the shell starts it; for Python the
# second and third line are one string.
CALLER = """\
#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
' '''
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as called:
    called.connect({address!r})
    told = [sys.argv, os.getcwd(), dict(os.environ)]
    socket.send_fds(called, [b"."], [0, 1, 2])
    called.sendall(json.dumps(told).encode() + b"\\n")
    sys.exit(called.recv(1)[0])
"""


@contextmanager
def warm_command(folder: Path) -> Iterator[Path]:
    """A folder for the PATH, in which `sfumato` is the command without its start."""
    address, command = folder / "socket", folder / "bin" / "sfumato"
    command.parent.mkdir()
    command.write_text(CALLER.format(python=sys.executable, address=str(address)))
    command.chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, str(address)])
    try:
        for _ in range(600):
            if address.exists() or server.poll() is not None:
                break
            time.sleep(0.05)
        yield command.parent
    finally:
        server.kill()
        server.wait()


def _serve(address: str) -> None:
    import pyarrow as pa

    from sfumato.attack.registry import ATTACKS

    for name in (*LOADED, *(f"sfumato.attack.{one.replace('-', '_')}" for one in ATTACKS)):
        import_module(name)
    pa.array([0])
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{address}.new")
    listening.listen()
    Path(f"{address}.new").rename(address)  # it is there once it answers
    while True:
        called, _ = listening.accept()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            listening.close()
            _answer(called)
        called.close()


def _answer(called: socket.socket) -> None:
    """Run one command in a process of its own, and tell how it ended."""
    _, streams, _, _ = socket.recv_fds(called, 1, 3)
    told = json.loads(called.makefile("rb").readline())
    command = os.fork()
    if command == 0:
        called.close()
        _run(streams, *told)
    _, status = os.waitpid(command, 0)
    called.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
    os._exit(0)


def _run(streams: list[int], words: list[str], folder: str, environment: dict[str, str]) -> None:
    from sfumato.cli import main

    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    try:
        main()
    finally:  # it ends its process itself; whatever else happens must not come back here
        os._exit(1)


if __name__ == "__main__":
    _serve(sys.argv[1])
