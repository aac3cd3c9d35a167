"""BigQuery's clause: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, ...) ...

The parser does not know it, so it is taken out of the words before they are parsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from sfumato.errors import QueryError
from sfumato.schema.names import quoted, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot.tokenizer_core import Token

_CLAUSES = {"DIFFERENTIAL_PRIVACY", "ANONYMIZATION"}
_NUMBERS = {"epsilon", "delta", "max_groups_contributed", "max_rows_contributed"}


@dataclass(frozen=True)
class Options:
    """What the clause asked for; all None where there was none."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups_contributed: int | None = None
    max_rows_contributed: int | None = None
    privacy_unit_column: str | None = None


def take_options(tokens: list[Token]) -> tuple[list[Token], Options]:
    """Split the clause off the first SELECT."""
    words = [token.text.upper() for token in tokens[:3]]
    if len(words) < 3 or words[:2] != ["SELECT", "WITH"] or words[2] not in _CLAUSES:
        return tokens, Options()
    rest = iter(tokens[3:])
    given: dict[str, Fraction | int | str] = {}
    token = next(rest, None)
    if token is not None and token.text.upper() == "OPTIONS":
        _expect(next(rest, None), "(")
        given = _given(rest)
        token = next(rest, None)
    kept = [tokens[0], *([token] if token else []), *rest]
    return kept, Options(**given)  # type: ignore[arg-type]  # _option made them fit


def _given(rest: Iterator[Token]) -> dict[str, Fraction | int | str]:
    """Read name = value, ... up to the closing bracket."""
    given: dict[str, Fraction | int | str] = {}
    for token in rest:
        if token.text == ")":
            return given
        if token.text == ",":
            continue
        name = token.text.lower()
        _expect(next(rest, None), "=")
        value = next(rest, None)
        if value is None or name in given:
            break
        given[name] = _option(name, value)
    raise QueryError(
        "options_malformed",
        "Cannot read OPTIONS(...): write each option once, as name = value, and close the bracket.",
    )


def _option(name: str, token: Token) -> Fraction | int | str:
    if name == "privacy_unit_column":
        return token.text
    if name not in _NUMBERS:
        known = sorted({*_NUMBERS, "privacy_unit_column"})
        raise QueryError(
            "option_unknown", f"Unknown option {quoted(name)}; {suggestion(name, known)}"
        )
    try:
        if token.token_type is not TokenType.NUMBER:
            raise InvalidOperation
        number = Fraction(Decimal(token.text))
        if name.startswith("max_"):
            if number.denominator != 1:
                raise InvalidOperation
            return int(number)
    except (InvalidOperation, OverflowError):
        raise QueryError(
            "option_not_number",
            f"Option {name} must be {'a whole' if name.startswith('max_') else 'a positive'} "
            f"number, not {quoted(token.text)}.",
        ) from None
    return number


def _expect(token: Token | None, sign: str) -> None:
    if token is None or token.text != sign:
        found = quoted(token.text) if token else "the end"
        raise QueryError(
            "options_malformed", f"Cannot read OPTIONS(...): expected {sign!r}, found {found}."
        )
