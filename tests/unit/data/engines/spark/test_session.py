from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

STARTING = """\
import logging
import warnings
from sfumato.data.engines.spark.session import start_session
from sfumato.errors import EngineError
try:
    start_session("spark://local")
except EngineError as error:
    print(error.code, "/nowhere" in error.detail)
logging.getLogger("py4j.clientserver").error("of the bridge")
logging.getLogger("SQLQueryContextLogger").error("of a query")
warnings.warn("[RETRIES_EXCEEDED] The maximum number of retries has been exceeded.")
"""


def test_what_java_says_when_it_does_not_start_is_kept_for_the_operator() -> None:
    pytest.importorskip("pyspark", reason="no Spark: pyspark is not installed")
    if not shutil.which("bash"):
        pytest.skip("no shell that starts Spark")
    done = subprocess.run(
        [sys.executable, "-c", STARTING],
        env=os.environ | {"JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("engine_failed True\n", "")
