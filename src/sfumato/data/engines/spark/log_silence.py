"""Keep output and logs of Spark from the terminal: logs of failed queries quote values.

The output of the Java machine goes to an unnamed temporary file, and into the detail of an error if
the machine does not start. Logs and warnings of the Python side are dropped by logger.

Decision `engine-errors`.
"""

from __future__ import annotations

import logging
import warnings
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from sfumato.data.engines.base import engine_failed

if TYPE_CHECKING:
    from collections.abc import Mapping

_AUTHORS = ("py4j", "SQLQueryContextLogger")


def hush() -> None:
    """Silence warnings and logs of PySpark and of its bridge to Java in this process."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)  # the error says so
    for author in _AUTHORS:
        logging.getLogger(author).setLevel(logging.CRITICAL + 1)
    # The bridge reports a lost connection through the root logger, with a traceback.
    logging.getLogger().addFilter(_not_of_the_bridge)


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java machine of this process, unless it has one, with its output hidden."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # noqa: SLF001  there is no other way to look
        return
    with TemporaryFile() as java_output:
        output = {"stdout": java_output, "stderr": java_output}
        failed = ""
        try:
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            gateway = launch_gateway(conf, output)
        except Exception as error:  # noqa: BLE001  whatever it is, what Java said explains it
            java_output.seek(0)
            failed = (
                f"{type(error).__name__}: {error} {java_output.read().decode(errors='replace')}"
            )
    if failed:
        raise engine_failed("Spark", failed)
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  or it would start another


def _not_of_the_bridge(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"
