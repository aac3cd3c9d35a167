"""From text to one SELECT, or a refusal that says where the text goes wrong.

BigQuery's clause, SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, ...), is unknown to the
parser, so it is taken out of the words before they are parsed. Decision 0002.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import TokenType

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot.tokenizer_core import Token


class _Words(Generator):
    """Writes what the parser accepts: DIV, which else becomes a cast of a quotient."""

    def intdiv_sql(self, expression: exp.IntDiv) -> str:
        """x DIV y, as it was written."""
        return self.binary(expression, "DIV")


def part(node: exp.Expr) -> str:
    """Name a part of a question: its words and, where known, its place."""
    try:
        words = _Words(comments=False).generate(node)
    except (SqlglotError, ValueError, RecursionError):
        words = type(node).__name__
    return f"{quoted(words)}{place(node)}"


def place(node: exp.Expr) -> str:
    """Say at which line and column a part begins; nothing where the parser did not note it."""
    starts = [
        (found.meta["line"], found.meta["col"] - (found.meta["end"] - found.meta["start"]))
        for found in node.walk()
        if "line" in found.meta
    ]
    if not starts:
        return ""
    line, column = min(starts)
    return f" (line {line}, column {column})"


def check_modifiers(node: exp.Expr, allowed: set[str]) -> None:
    """Refuse a node with parts that its rule would overlook, so that none is silently dropped."""
    strange = {name for name, given in node.args.items() if given} - allowed
    if strange:
        raise QueryError(
            "clause_not_allowed",
            f"Cannot use {part(node)} with {', '.join(sorted(strange)).upper()}. Leave that out.",
        )


_CLAUSE_WORDS = {"DIFFERENTIAL_PRIVACY", "ANONYMIZATION"}
_NUMBERS = {"epsilon", "delta", "max_groups_contributed", "max_rows_contributed"}


@dataclass(frozen=True)
class PrivacyClause:
    """What the clause asked for; all None where there was none."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups_contributed: int | None = None
    max_rows_contributed: int | None = None
    privacy_unit_column: str | None = None


def take_options(tokens: list[Token]) -> tuple[list[Token], PrivacyClause]:
    """Split the clause off the first SELECT."""
    words = [token.text.upper() for token in tokens[:3]]
    if len(words) < 3 or words[:2] != ["SELECT", "WITH"] or words[2] not in _CLAUSE_WORDS:
        return tokens, PrivacyClause()
    rest = iter(tokens[3:])
    given: dict[str, Fraction | int | str] = {}
    token = next(rest, None)
    if token is not None and token.text.upper() == "OPTIONS":
        _expect(next(rest, None), "(")
        given = _given(rest)
        token = next(rest, None)
    kept = [tokens[0], *([token] if token else []), *rest]
    return kept, PrivacyClause(**given)  # type: ignore[arg-type]  # _option made them fit


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
        "sql_syntax",
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
            "literal_invalid",
            f"Option {name} must be {'a whole' if name.startswith('max_') else 'a positive'} "
            f"number, not {quoted(token.text)}.",
        ) from None
    return number


def _expect(token: Token | None, sign: str) -> None:
    if token is None or token.text != sign:
        found = quoted(token.text) if token else "the end"
        raise QueryError(
            "sql_syntax", f"Cannot read OPTIONS(...): expected {sign!r}, found {found}."
        )


LENGTH, TOKENS, NESTING, DEPTH, BRANCHES = 65_536, 5_000, 60, 200, 64
"""Limits: characters, words and signs, open brackets, height of the tree, joins and unions."""
_SCANNED = 4 * TOKENS
"""Words and signs by a scan that takes texts apart too: of more none is looked at closely."""
_SCAN = re.compile(r"\w+|[^\w\s]")
_BRANCHING = {TokenType.JOIN, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}

_BEGIN = {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN}
_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_OPERANDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER}
_QUOTES = dict.fromkeys("\u2018\u2019\u201a\u201b", "'") | dict.fromkeys(
    "\u201c\u201d\u201e\u201f", '"'
)


@dataclass(frozen=True)
class Parsed:
    """One SELECT, and what BigQuery's clause asked for."""

    tree: exp.Select
    options: PrivacyClause


def parse(sql: str) -> Parsed:
    """Parse a question: exactly one SELECT, of limited size."""
    _check_characters(sql)
    dialect = Dialect.get_or_raise(None)
    try:
        tokens, options = take_options(dialect.tokenize(sql))
        _check_tokens(tokens)
        trees = [tree for tree in dialect.parser().parse(tokens, sql) if tree is not None]
    except SqlglotError as error:
        if word := _taken_word(sql, dialect, error):
            raise QueryError(
                "sql_syntax",
                f"Cannot read the SQL: {quoted(word.text)} (line {word.line}, column "
                f"{word.col - len(word.text) + 1}) is a word of SQL. As the name of a column write "
                f'it in double quotes: "{word.text}".',
            ) from None
        raise QueryError("sql_syntax", f"Cannot read the SQL: {_reason(error)}.") from None
    except RecursionError:
        raise _too_deep() from None
    tree = trees[0]
    if not isinstance(tree, exp.Select):
        raise _not_select(part(tree))
    check_depth(tree)
    return Parsed(tree, options)


def check_depth(tree: exp.Expr) -> None:
    """Refuse a tree that is too high to be planned safely."""
    level, height = [tree], 0
    while level:
        height += 1
        if height > DEPTH:
            raise _too_deep()
        level = [child for node in level for child in node.iter_expressions()]


def _not_select(what: str) -> QueryError:
    return QueryError(
        "sql_not_one_select", f"Cannot run {what}. Only one SELECT ... FROM ... is answered."
    )


def _too_deep() -> QueryError:
    return QueryError(
        "sql_too_complex",
        f"Cannot read the SQL: it is nested too deeply. At most {NESTING} brackets may be open and "
        f"{DEPTH} operators stacked; write IN (...) for long chains of OR.",
    )


def _too_many_words(found: int) -> QueryError:
    return QueryError(
        "sql_too_complex",
        f"Cannot read SQL of {found:,} words and signs; at most {TOKENS:,} are allowed.",
    )


def _check_characters(sql: str) -> None:
    if len(sql) > LENGTH:
        raise QueryError(
            "sql_too_complex",
            f"Cannot read SQL of {len(sql):,} characters; at most {LENGTH:,} are allowed.",
        )
    scanned = sum(1 for _ in _SCAN.finditer(sql))
    if scanned > _SCANNED:
        raise _too_many_words(scanned)
    for number, sign in enumerate(sql, 1):
        if sign in _QUOTES:
            raise QueryError(
                "sql_syntax",
                f"Cannot read the SQL: character {number} is a typographic quote. "
                f"Write {_QUOTES[sign]} instead.",
            )
        if (sign < " " and sign not in "\t\n\r") or "\ud800" <= sign <= "\udfff":
            raise QueryError(
                "sql_syntax",
                f"Cannot read the SQL: character {number} is the control character "
                f"U+{ord(sign):04X}. Remove it.",
            )


def _check_tokens(tokens: Sequence[Token]) -> None:
    if len(tokens) > TOKENS:
        raise _too_many_words(len(tokens))
    ends = [place for place, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON]
    if not tokens or (ends and ends[0] + len(ends) < len(tokens)):
        raise QueryError(
            "sql_not_one_select",
            "Cannot run no or several statements. Ask exactly one SELECT at a time.",
        )
    if tokens[0].token_type not in _BEGIN:
        raise _not_select(quoted(tokens[0].text))
    branches = sum(token.token_type in _BRANCHING for token in tokens)
    if branches > BRANCHES:
        raise QueryError(
            "sql_too_complex",
            f"Cannot read SQL of {branches:,} joins and unions; at most {BRANCHES} are allowed.",
        )
    nesting = 0
    for token in tokens:
        nesting += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if nesting > NESTING:
            raise _too_deep()


def _taken_word(sql: str, dialect: Dialect, error: SqlglotError) -> Token | None:
    """The word of SQL near a fault that stands where a name would, if as a name it is none."""
    if not getattr(error, "errors", None):
        return None
    tokens = dialect.tokenize(sql)
    fault = _fault(error)
    words = [
        token
        for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False)
        if (token.line, token.col) <= fault
        and token.text.isidentifier()
        and token.token_type not in _OPERANDS
        and (before and before.token_type not in _OPERANDS | {TokenType.R_PAREN})
        and (after is None or after.token_type not in _OPERANDS | {TokenType.L_PAREN})
    ]
    for word in reversed(words[-2:]):
        mended = f'{sql[: word.start]}"{word.text}"{sql[word.end + 1 :]}'
        try:
            dialect.parser().parse(take_options(dialect.tokenize(mended))[0], mended)
        except SqlglotError as other:
            if not getattr(other, "errors", None) or _fault(other) <= (fault[0], fault[1] + 2):
                continue
        return word
    return None


def _fault(error: SqlglotError) -> tuple[int, int]:
    """The line and the column of the parser's first complaint."""
    first = error.errors[0]  # type: ignore[attr-defined]
    return first["line"], first["col"]


def _reason(error: SqlglotError) -> str:
    """The parser's first complaint without its colours, in one line, with its place."""
    errors = getattr(error, "errors", None)
    if not errors:
        return "it has an unfinished text or comment"
    first = errors[0]
    complaint = str(first["description"]).split("<class")[0].split(" but got <")[0].strip(" .:")
    near = " ".join(str(first["highlight"] or "the end").split())[:40]
    return f"{complaint}, near {near!r} (line {first['line']}, column {first['col']})"
