"""Addresses of Spark's, taken apart without Spark: where it runs, and what it is to read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sfumato.errors import SourceError

SPARK = ("spark", "sc", "spark+parquet", "spark+delta", "spark+iceberg")
"""How addresses of Spark's begin, before '://'."""

LOCAL = "spark://local"
"""The address of Spark on this machine."""

_FOLDER = re.compile(
    r"spark\+(?P<form>parquet|delta|iceberg)://(?P<path>[^?#*\[\]{},]*[^?#*\[\]{},/:])/?"
    r"(?:\?master=(?P<master>(?:spark|sc)://[^#]+))?"
)
"""What Spark reads patterns by is no part of a folder's name; masters are no part of a pattern."""


@dataclass(frozen=True)
class SparkAddress:
    """Where Spark runs, and which table, or which folder in which form, it is to read."""

    master: str
    table: str = ""
    form: str = ""
    path: str = ""


def spark_address(url: str) -> SparkAddress:
    """Take an address of Spark's apart."""
    if "+" not in url.partition("://")[0]:
        master, _, table = url.partition("#")
        return SparkAddress(master, table=table)
    found = _FOLDER.fullmatch(url)
    if found is None:
        raise SourceError(
            "source_url_malformed",
            "Cannot read this address as a folder that Spark reads. Write "
            "spark+parquet:///data/visits/ for Spark on this machine, and "
            "?master=spark://host:7077 or ?master=sc://host:15002 after it for another.",
        )
    path = found["path"]
    at = f"file://{path}" if path.startswith("/") else path
    return SparkAddress(found["master"] or LOCAL, form=found["form"], path=at)
