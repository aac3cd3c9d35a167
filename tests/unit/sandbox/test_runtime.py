"""What a program may see and import."""

from __future__ import annotations

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
    places = [str(one) for one in found.paths]
    assert not [one for one in places if one.startswith(("/etc", "/home", "/proc", "/tmp"))]
    ours = [one for one in places if one.startswith(str(SOURCE))]
    assert ours == [str(runtime.ZYGOTE)]
    assert {"numpy", "pyarrow"} <= found.packages.keys()
    assert not {"duckdb", "sqlalchemy", "sfumato"} & found.packages.keys()


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
