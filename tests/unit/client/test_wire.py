"""What is asked is sent exactly, and an answer that is none is told in words."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.client.declarations import declared_by
from sfumato.client.response_reader import Received
from sfumato.client.stored_releases import job_of
from sfumato.client.wire import answer_of, jsonable
from sfumato.errors import InternalError, ParameterError
from sfumato.operations.datasets import DatasetRecord
from sfumato.operations.releases import ANSWER


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (0.1 + 0.2, 0.30000000000000004),
        (Fraction(1, 3), "1/3"),
        (Decimal("0.10"), "0.10"),
        (True, True),
        (2**70, 2**70),
        (date(2024, 2, 29), "2024-02-29"),
        (datetime(2024, 2, 29, 23, 59, tzinfo=UTC), "2024-02-29"),
        (np.float64(0.5), 0.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array(["2024-02-29T23:59:59.999999999"], "datetime64[ns]"), ["2024-02-29"]),
        (np.datetime64("1969-12-31T23:00"), "1969-12-31"),
        (np.array([True, "x", None], object), [True, "x", None]),
        (("a", ("b",)), ["a", ["b"]]),
        ({"n": Decimal(2)}, {"n": "2"}),
    ],
)
def test_values_as_json_has_them(value: object, sent: object) -> None:
    found = jsonable(value, "x")
    assert found == sent
    assert type(found) is type(sent)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Path("x"), object(), [b"x"]])
def test_what_cannot_be_sent_is_refused(value: object) -> None:
    with pytest.raises(ParameterError) as refused:
        jsonable(value, "x")
    assert refused.value.code == "request_malformed"


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (ANSWER, b""),
        (ANSWER, b"{}\n"),
        (ANSWER, b"[" * 100_000 + b"\n"),
        (ANSWER, b'{"cost":{},"charged":true,"remaining":{},"balance":""}\n{"format":2}\n'),
        ("application/json", b"{}"),
    ],
)
def test_an_answer_that_is_none_is_told_in_words(media: str, body: bytes) -> None:
    with pytest.raises(InternalError) as refused:
        answer_of(Received(200, media, body))
    assert refused.value.code in ("server_unexpected", "answer_unreadable")


TOLD: dict[str, Any] = {
    "name": "t",
    "hides": "Hides whether any one row is present.",
    "schema": {"table": "t", "columns": [{"name": "x", "kind": "text"}]},
    "public": False,
    "population": "t",
    "keys": [],
    "place": 0,
    "usual_epsilon": "1/10",
    "largest_epsilon": None,
}


@pytest.mark.parametrize(
    "wrong", [{"schema": {}}, {"schema": {"table": "t", "columns": [5]}}, {"usual_epsilon": "1/0"}]
)
def test_declarations_that_are_none_are_told_in_words(wrong: dict[str, Any]) -> None:
    assert declared_by(DatasetRecord.from_json(TOLD)).usual == Fraction(1, 10)
    with pytest.raises(InternalError) as refused:
        declared_by(DatasetRecord.from_json(TOLD | wrong))
    assert refused.value.code == "server_unexpected"


@pytest.mark.parametrize("wrong", [{}, {"job": "x", "state": "lost"}])
def test_a_job_that_is_none_is_told_in_words(wrong: dict[str, Any]) -> None:
    with pytest.raises(InternalError) as refused:
        job_of(wrong)
    assert refused.value.code == "server_unexpected"
