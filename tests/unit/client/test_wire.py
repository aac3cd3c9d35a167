"""What is asked is sent exactly, and an answer that is none is told in words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sfumato.client.declarations import declared_by
from sfumato.client.response_reader import Received
from sfumato.client.stored_releases import job_of
from sfumato.client.wire import answer_of
from sfumato.errors import InternalError
from sfumato.operations.datasets import DatasetRecord
from sfumato.operations.releases import ANSWER


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
