"""What a program may see and import."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.methods.programs.sandbox.conftest import SOURCE, stream

from sfumato.errors import PolicyError
from sfumato.methods.programs.sandbox import BlockLimits, Program, runtime

if TYPE_CHECKING:
    from sfumato.methods.programs.sandbox import Chamber
    from sfumato.methods.programs.sandbox.workers import ForkingChamber

LIMITS = BlockLimits(seconds=20.0)


def test_what_a_program_names_is_loaded_before_its_rows_come() -> None:
    source = """
import numpy as np, os.path
from sklearn.linear_model import (LogisticRegression,
    Ridge)
from sfumato import vault
import requests
def f(table):
    from scipy import stats
"""
    found = runtime.modules_of(source)
    assert {"numpy", "os.path", "sklearn.linear_model", "scipy.stats", "numpy.random"} <= set(found)
    assert not [one for one in found if one.startswith(("sfumato", "requests"))]


def test_a_chamber_sees_python_and_the_packages_for_programs_only() -> None:
    found = runtime.find_runtime()
    # Python, its packages and this checkout may lie anywhere, below /home or /tmp too. What counts
    # is that no shown folder contains one that is private.
    private = (Path("/etc"), Path("/proc"), Path("/tmp"), Path.home(), SOURCE.parent)
    for shown in found.paths:
        assert not [one for one in private if one.is_relative_to(shown)], shown
        assert not shown.is_relative_to("/etc"), shown
        assert not shown.is_relative_to("/proc"), shown
    ours = [one for one in found.paths if one.is_relative_to(SOURCE)]
    assert ours == [runtime.ZYGOTE]
    installed = Path(sysconfig.get_path("purelib")).resolve()
    shown_names = {one.name for one in found.paths if one.parent == installed}
    assert installed not in found.paths
    assert shown_names <= {Path(one).name for one in _installed_names(found)}
    assert {"numpy", "pyarrow"} <= found.packages.keys()
    assert not {"duckdb", "sqlalchemy", "sfumato"} & found.packages.keys()


def _installed_names(found: runtime.Runtime) -> set[str]:
    """Names of files and folders that the packages for programs have beside each other."""
    names = {*found.packages, *(f"{one}.py" for one in found.packages)}
    return names | {f"{one}.libs" for one in (*found.packages, "scikit_learn")}


_ELSEWHERE = """
import json
from sfumato.methods.programs.sandbox import chambers, runtime
print(json.dumps([str(runtime.ZYGOTE), {one.name: one.probe().findings for one in chambers()}]))
"""


def test_a_sandbox_holds_from_a_checkout_below_tmp_with_a_space_in_its_path(
    chamber: Chamber, tmp_path: Path
) -> None:
    copy = Path(tempfile.mkdtemp(dir="/tmp")) / "my clones" / "src"
    try:
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        done = subprocess.run(
            [sys.executable, "-B", "-c", _ELSEWHERE],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        shutil.rmtree(copy.parents[1])
    assert done.returncode == 0, done.stderr
    zygote, findings = json.loads(done.stdout)
    assert Path(zygote).is_relative_to(copy)
    assert findings[chamber.name] == []


def said(chamber: Chamber, source: str, block: bytes = b"") -> str:
    done = chamber.rehearse(Program(source.encode(), "f"), block, 1, LIMITS)
    assert done.record is None
    return done.reason


def test_a_rehearsal_names_an_error_and_a_line_and_nothing_of_the_program_s(
    chamber: Chamber,
) -> None:
    block = stream(pa.table({"x": [1.0]}))
    source = """
import sys
class Telling(Exception): pass
class ValueError(ValueError): pass
def f(table):
    print("printed")
    print("printed", file=sys.stderr)
    raise {error}("secret text")
"""
    for error, expected in (
        ("KeyError", "KeyError"),
        ("Telling", "Exception"),
        ("ValueError", "Exception"),
        ("type('KeyError', (KeyError,), {})", "Exception"),
    ):
        program = Program(source.replace("{error}", error).encode(), "f")
        done = chamber.rehearse(program, block, 1, LIMITS)
        assert (done.record, done.error, done.line) == (None, expected, 8)
        assert done.reason == f"{expected} in line 8"


def test_what_a_program_writes_as_its_report_is_worth_no_more(chamber: Chamber) -> None:
    """It can choose a class and a line, as by raising; whatever else it writes is no report."""
    for written in ("b'secret text'", "b'\\xff' * 6", "b''", "b'x' * 10**6"):
        source = f"import os\ndef f(t):\n    os.write(5, {written})\n    os._exit(0)\n"
        done = chamber.rehearse(Program(source.encode(), "f"), b"", 1, LIMITS)
        assert done.record is None
        assert (done.error, done.line) == (None, None)
        assert done.reason.startswith("It ended without a result")
    forged = "import os\ndef f(t):\n    os.write(5, b'\\0\\0\\xff\\xff\\0\\0')\n    os._exit(0)\n"
    assert chamber.rehearse(Program(forged.encode(), "f"), b"", 1, LIMITS).line is None


def test_a_rehearsal_says_what_to_do(chamber: Chamber) -> None:
    assert said(chamber, "def f(:\n") == "SyntaxError in line 1"
    assert "no function 'f'" in said(chamber, "def g(): pass\n")
    assert "as many numbers as are declared, 1" in said(chamber, "def f(t): return [1, 2]\n")
    assert "must give a number" in said(chamber, "def f(t): return 'x'\n")
    missing = said(chamber, "\nimport requests\ndef f(t): pass\n")
    assert missing.startswith("ImportError in line 2: only Python's own library")
    assert "It ended without a result" in said(chamber, "import os\ndef f(t): os._exit(0)\n")
    late = chamber.rehearse(
        Program(b"def f(t):\n    while True: pass\n", "f"), b"", 1, BlockLimits(seconds=0.2)
    )
    assert "longer than 0.2 seconds" in late.reason


def test_a_rehearsal_waits_for_its_turn(
    chamber: ForkingChamber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside real blocks it could feel them by how busy the machine is."""
    monkeypatch.setattr("sfumato.methods.programs.sandbox.workers._REHEARSAL_WAIT", 0.1)
    program = Program(b"def f(t):\n    return 1\n", "f")
    with runtime.ZYGOTE.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(PolicyError, match="one at a time") as caught:
            chamber.rehearse(program, b"", 1, LIMITS)
        assert chamber.probe().passed
    assert caught.value.code == "sandbox_busy"
    assert chamber.rehearse(program, b"", 1, LIMITS).record is not None


NUMERIC = """
import numpy as np, pyarrow as pa, pyarrow.compute as pc
def f(table):
    x = table["x"].to_numpy()
    square = np.outer(x, x) + np.eye(len(x)) * 100
    solved = np.linalg.solve(square, x)
    fitted = np.linalg.lstsq(square, x, rcond=None)[0]
    singular = np.linalg.svd(square, compute_uv=False)
    large = np.ones((700, 700))
    product = large @ large
    list_ = []
    for n in range(300_000):
        list_.append(n)
    total = pc.sum(table["x"]).as_py() + pc.mean(pc.multiply(table["x"], 2.0)).as_py()
    order = pc.sort_indices(table, sort_keys=[("x", "descending")])[0].as_py()
    kept = table.filter(pc.greater(table["x"], 3.0)).num_rows
    return [solved @ x, fitted @ x, singular[0], product[0, 0], total, order, kept, len(list_)]
"""


def test_numpy_and_arrow_end_without_threads_and_shared_futexes(chamber: Chamber) -> None:
    rows = stream(pa.table({"x": np.arange(200.0) / 10}))
    done = chamber.rehearse(Program(NUMERIC.encode(), "f"), rows, 8, LIMITS)
    assert done.record is not None, done.reason
    here: dict[str, Any] = {}
    exec(NUMERIC, here)  # noqa: S102 - ours
    expected = here["f"](pa.table({"x": np.arange(200.0) / 10}))
    assert np.frombuffer(done.record) == pytest.approx(expected)


def test_learners_run_inside(chamber: Chamber) -> None:
    source = b"""
import numpy as np
from sklearn.cluster import KMeans
def f(table):
    rows = np.column_stack([table["x"], table["y"]])
    return KMeans(2, n_init=1, random_state=0).fit(rows).cluster_centers_
"""
    rows = pa.table({"x": [0.0, 0.1, 5.0, 5.1], "y": [0.0, 0.1, 5.0, 5.1]})
    done = chamber.rehearse(Program(source, "f"), stream(rows), 4, LIMITS)
    assert done.record is not None, done.reason
