"""Nothing that Spark says about itself reaches a terminal, or whatever reads what we print.

The Java machine's own lines go to a file without a name, and are told in the detail of an error if
it does not start. What the Python side logs or warns of is dropped by its author; what it logs of
failed queries quotes values.

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
    """Silence what PySpark and the bridge to Java warn of and log in this process."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)  # an error says it
    for author in _AUTHORS:
        logging.getLogger(author).setLevel(logging.CRITICAL + 1)
    # Of a lost connection the bridge tells by the root logger, with a traceback.
    logging.getLogger().addFilter(_not_of_the_bridge)


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java machine of this process, if it has none, where nobody sees what it says."""
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
