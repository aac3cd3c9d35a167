"""What a program may see and import."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.sandbox import BlockLimits, Program, runtime

from .conftest import SOURCE, stream

if TYPE_CHECKING:
    from sfumato.sandbox import Chamber

import pyarrow as pa

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
    found = runtime.found()
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
from sfumato.sandbox import chambers, runtime
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
    return done.said


def test_a_rehearsal_shows_the_program_s_own_error(chamber: Chamber) -> None:
    block = stream(pa.table({"x": [1.0]}))
    told = said(chamber, "def f(table):\n    print('so far')\n    return table['y']\n", block)
    assert told.startswith("so far\nTraceback")
    assert '"program.py", line 3, in f' in told
    assert "return table['y']" in told
    assert "zygote" not in told


def test_a_rehearsal_says_what_to_do(chamber: Chamber) -> None:
    assert "SyntaxError" in said(chamber, "def f(:\n")
    assert "no function 'f'" in said(chamber, "def g(): pass\n")
    assert "2 numbers were given, 1 are declared" in said(chamber, "def f(t): return [1, 2]\n")
    assert "a number was expected, and str was given" in said(chamber, "def f(t): return 'x'\n")
    assert "No module 'requests' is loaded" in said(chamber, "import requests\ndef f(t): pass\n")
    assert "It ended without a result" in said(chamber, "import os\ndef f(t): os._exit(0)\n")
    late = chamber.rehearse(
        Program(b"def f(t):\n    while True: pass\n", "f"), b"", 1, BlockLimits(seconds=0.2)
    )
    assert "longer than 0.2 seconds" in late.said


def test_what_is_said_is_cut(chamber: Chamber) -> None:
    limits = BlockLimits(seconds=20, said=1000)
    program = Program(b"def f(t):\n    print('x' * 10**7)\n    return 1\n", "f")
    done = chamber.rehearse(program, b"", 1, limits)
    assert done.record is not None
    assert done.said == "x" * 1000


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
    assert done.record is not None, done.said
