"""SQL that is too large is refused before it costs anything to look at."""

from __future__ import annotations

import pytest
from sqlglot import Dialect

from sfumato.errors import QueryError
from sfumato.methods.query.sql.parse import BRANCHES, parse

COUNT = "SELECT COUNT(*) FROM people"


def refused(sql: str) -> str:
    with pytest.raises(QueryError) as found:
        parse(sql)
    return found.value.code


def unreached(*_: object) -> None:
    raise AssertionError("it was looked at closely")


@pytest.mark.parametrize("sign", ["(", "- ", "+1", "a,"])
def test_many_signs_are_refused_before_they_are_words(
    monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    monkeypatch.setattr(Dialect, "tokenize", unreached)
    assert refused(COUNT + f" WHERE {sign * 20_000}") == "sql_too_complex"


@pytest.mark.parametrize("more", [" JOIN places USING (city)", f" UNION ALL {COUNT}"])
def test_many_joins_and_unions_are_refused_before_they_are_parsed(
    monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.setattr(Dialect, "parser", unreached)
    assert refused(COUNT + more * (BRANCHES + 1)) == "sql_too_complex"
    with pytest.raises(AssertionError, match="closely"):
        parse(COUNT + more * BRANCHES)
