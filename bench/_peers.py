"""Other tools on the same questions and table, each in an environment of its own beside `.venv`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venv-peers"
DEADLINE = 300
"""Seconds for all questions to one peer."""

PEERS = {
    "opendp": "OpenDP 0.16 on Polars",
    "tumult": "Tumult Analytics 0.21",
    "smartnoise": "SmartNoise SQL 1.0",
    "pipelinedp": "PipelineDP 0.3",
}


SYNTHESIZERS = (
    ("dpmm", "mst", "dpmm 0.1.9, mst"),
    ("dpmm", "aim", "dpmm 0.1.9, aim"),
    ("dpmm", "privbayes", "dpmm 0.1.9, privbayes"),
    ("datasynthesizer", "network", "DataSynthesizer 0.1.13, at 2 epsilon"),
)
"""Environment, method, and what they are called."""
LONGEST = 1800
"""Seconds for one synthesis."""


def synthesized(
    peer: str, method: str, table: Path, domain: Path, *, epsilon: float, out: Path
) -> dict[str, float] | str:
    """What a peer's synthesis took, of which the rows are in a file; or why there is none."""
    try:
        python = _environment(peer)
    except subprocess.CalledProcessError:
        return "does not install here"
    module = f"bench.peers.synthetic_{peer}"
    script = [str(python), "-W", "ignore", "-m", module, *map(str, (table, domain, method))]
    try:
        done = subprocess.run(
            [*script, str(epsilon), str(out)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not within {LONGEST} s"
    lines = [one for one in done.stdout.splitlines() if one.startswith(b'{"synthetic"')]
    found: dict[str, float] | str = json.loads(lines[-1])["synthetic"] if lines else "failed"
    return found


def asked(peer: str, table: Path, *, deadline: int = DEADLINE) -> dict[str, float | str]:
    """A peer's seconds for each question, by its number, or why there are none."""
    try:
        python = _environment(peer)
    except subprocess.CalledProcessError:
        return {"": "does not install here"}
    script = [str(python), "-W", "ignore", "-m", f"bench.peers.with_{peer}", str(table)]
    places = {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        done = subprocess.run(
            script,
            cwd=ROOT,
            env={**os.environ, **places},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=deadline,
            check=False,
        )
        lines, left = done.stdout, "failed"
    except subprocess.TimeoutExpired as late:
        lines, left = late.stdout or b"", f"not within {deadline} s for all questions"
    found = [json.loads(line) for line in lines.splitlines() if line.startswith(b'{"question"')]
    return {"": left, **{one["question"]: one["found"] for one in found}}


def _environment(peer: str) -> Path:
    """The interpreter of a peer's environment, which is made once."""
    folder = ENVIRONMENTS / peer
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        (ENVIRONMENTS / ".gitignore").write_text("*\n", encoding="utf-8")
        locked = ROOT / "requirements" / "peers" / f"{peer}.txt"
        install = ["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r"]
        subprocess.run([str(python), *install, str(locked)], check=True)
        stamp.touch()
    return python
