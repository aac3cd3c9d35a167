"""Chambers of this machine, blocks to run programs on, and a plain user to run as."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pytest

from sfumato.methods.programs.sandbox import PROVIDERS, BlockLimits, Program, chambers
from sfumato.methods.programs.sandbox.workers import ForkingChamber

SOURCE = Path(__file__).parents[5] / "src"
LIMITS = BlockLimits(seconds=20.0, memory=256 << 20)


@pytest.fixture(params=PROVIDERS)
def chamber(request: pytest.FixtureRequest) -> ForkingChamber:
    """Each sandbox that this machine has."""
    return provided(request.param)


@cache
def provided(name: str) -> ForkingChamber:
    """A sandbox by name; a test of one that cannot start here is skipped with the reason."""
    found = next((one for one in chambers() if one.name == name), None)
    if found is None:
        pytest.skip(f"{name} is not made for this kind of machine")
    tried = found.probe()
    # One that starts and does not hold is no reason to skip: then tests must fail.
    if not tried.passed and any(reason in tried.findings[0] for reason in ("bwrap", "Landlock")):
        pytest.skip(tried.findings[0])
    assert isinstance(found, ForkingChamber)
    return found


def stream(table: pa.Table) -> bytes:
    """A block as it is handed to a chamber."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


class Runs(Protocol):
    """Runs a program on blocks that hold one number each, and gives what came of each."""

    def __call__(
        self, source: str, *blocks: float, width: int = 1, limits: BlockLimits = LIMITS
    ) -> list[tuple[float, ...] | None]: ...


@pytest.fixture
def runs(chamber: ForkingChamber) -> Runs:
    """Run a program whose function is `f`."""

    def run(
        source: str, *blocks: float, width: int = 1, limits: BlockLimits = LIMITS
    ) -> list[tuple[float, ...] | None]:
        given = [stream(pa.table({"x": [one]})) for one in blocks]
        records = chamber.run(Program(source.encode(), "f"), given, width, limits, 2, on_time=False)
        return [None if one is None else struct.unpack(f"<{width}d", one) for one in records]

    return run


_AS_PLAIN_USER = """
set -e
mount -t tmpfs tmpfs /mnt
mkdir /mnt/python /mnt/packages /mnt/source
mount --bind "$1" /mnt/python
mount --bind "$2" /mnt/packages
mount --bind "$3" /mnt/source
if [ -n "$6" ]; then
    original=$(echo /mnt/python/lib/python3.*/lib-dynload/_codecs_jp.*.so)
    cp "$original" "$6/owned.so"
    chown 12345 "$6/owned.so"
    sync "$6/owned.so"
    mount --bind "$6/owned.so" "$original"
fi
exec setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps=-all \
    env -i PATH="$PATH" PYTHONPATH=/mnt/source:/mnt/packages "/mnt/python/bin/$4" -B -c "$5"
"""


def as_plain_user(script: str, owned: Path | str = "") -> str:
    """What a script prints that runs as a user without rights, on this Python and this source.

    Where root's Python lies may be closed to others, so it is seen elsewhere meanwhile. With a
    folder `owned`, one library of it belongs to that user, as all do in an environment of theirs.
    """
    if os.geteuid() != 0:
        pytest.skip("this is a plain user already")
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("unshare or setpriv is missing")
    python = Path(sys.executable).resolve()
    # Packages may be borrowed from another environment: they are where they were imported from.
    packages = str(Path(pa.__file__).parents[1])
    places = (sys.base_prefix, packages, str(SOURCE), python.name)
    command = ["unshare", "--mount", "sh", "-c", _AS_PLAIN_USER, "sh", *places, script, str(owned)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"this root may not mount: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout
