"""The self-test of a sandbox: a program tries all escapes from inside, against planted targets."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sfumato.errors import PolicyError
from sfumato.methods.programs.sandbox import runtime
from sfumato.methods.programs.sandbox.base import BlockLimits, Probe, Program
from sfumato.methods.programs.sandbox.escapes import ESCAPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.methods.programs.sandbox.workers import ForkingChamber

LIMITS: Final = BlockLimits(seconds=5.0, memory=64 << 20)
NAMES: Final = tuple(escape.__name__ for escape in ESCAPES)
"""The ways out that are tried."""

_ALSO_SET = ("LC_CTYPE", "PWD")


def probe(chamber: ForkingChamber) -> Probe:
    """Try them all, now; who cannot even run a program has not passed."""
    try:
        with planted() as facts:
            record = chamber.attempt(program(facts), b"", len(NAMES) + 1, LIMITS).record
    except PolicyError as error:
        return Probe(passed=False, findings=(error.detail or error.message,))
    except OSError as error:
        return Probe(passed=False, findings=(f"{chamber.name}: the probe failed: {error}",))
    if record is None:
        return Probe(passed=False, findings=(f"{chamber.name}: a program does not run",))
    # The first number shows that the program ran: a record of zeros alone would look like a pass.
    ran, *tried = struct.unpack(f"<{len(NAMES) + 1}d", record)
    findings = tuple(name for name, is_open in zip(NAMES, tried, strict=True) if is_open)
    return Probe(passed=ran == 1 and not findings, findings=findings)


def program(facts: dict[str, Any]) -> Program:
    """The ways out as a program that knows where to look."""
    source = Path(__file__).with_name("escapes.py").read_text()
    first_import = "from __future__ import annotations\n"
    return Program(
        source.replace(first_import, f"{first_import}PLANTED = {facts!r}\n", 1).encode(), "attempt"
    )


@contextmanager
def planted() -> Iterator[dict[str, Any]]:
    """A secret that all may read, people who listen, and this process to look into."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-probe-")))
        folder.chmod(0o755)
        secret = folder / "secret"
        secret.write_text("Bob\n")
        secret.chmod(0o644)
        names = [str(folder / "socket"), f"\0{folder.name}"]
        for name in names:
            local = stack.enter_context(socket.socket(socket.AF_UNIX))
            local.bind(name)
            local.listen()
        (folder / "socket").chmod(0o777)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield {
            "secret": str(secret),
            "folder": str(folder),
            "sockets": names,
            "port": listener.getsockname()[1],
            "process": os.getpid(),
            "memory": 2 * LIMITS.memory,
            "environment": [*runtime.ENVIRONMENT, *_ALSO_SET],
        }
