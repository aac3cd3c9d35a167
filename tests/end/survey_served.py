"""A survey that is really served."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from sfumato.methods.local.collection import Collection
from sfumato.server.serve import Listening, RoundServer
from sfumato.testing.servers import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.methods.local.rounds import Round

PROGRAM = "from sfumato.cli import main; main()"


@dataclass(frozen=True)
class Served:
    """A round and where it is served."""

    file: Path
    round: Round
    url: str
    page: str

    def held(self) -> int:
        """How many reports the collector has, of which the public may see fewer."""
        return int(self.exactly()["n"])

    def exactly(self) -> dict[str, Any]:
        """What the collector itself is told."""
        with closing(Collection(self.file)) as collection:
            return collection.estimate().to_json()

    def estimate(self) -> dict[str, Any]:
        """What the public is told."""
        with urlopen(f"{self.url}/v1/reports/{self.round.id}", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextmanager
def serving(file: Path, made: Round) -> Iterator[Served]:
    """Run `sfumato survey serve` until the end of the block."""
    command = ["survey", "serve", str(file), "--port", "0", "--json"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            ready = json.loads(line)
            yield Served(file, made, ready["url"], ready["page"])
        finally:
            os.kill(process.pid, signal.SIGINT)
            process.wait(timeout=30)
    assert process.returncode == 0


@contextmanager
def served_here(file: Path, made: Round) -> Iterator[Served]:
    """Serve a round by a thread of this process, where the command is not what is tested."""
    with closing(Collection(file)) as collection:
        server = RoundServer(collection, Listening(port=0))
        with running(server):
            yield Served(file, made, server.url, server.page)
