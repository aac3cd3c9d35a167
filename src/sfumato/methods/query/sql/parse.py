"""From text to one SELECT, or a refusal that says where the text goes wrong.

BigQuery's clause, SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, ...), is unknown to the
parser, so it is taken out of the words before they are parsed. Decision `sql-trees`.
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


class _SqlWriter(Generator):
    """Writes what the parser accepts: DIV, which else becomes a cast of a quotient."""

    def intdiv_sql(self, expression: exp.IntDiv) -> str:
        """x DIV y, as it was written."""
        return self.binary(expression, "DIV")


def quote_sql(node: exp.Expr) -> str:
    """Name a part of a question: its words and, where known, its place."""
    try:
        text = _SqlWriter(comments=False).generate(node)
    except (SqlglotError, ValueError, RecursionError):
        text = type(node).__name__
    return f"{quoted(text)}{position_text(node)}"


def position_text(node: exp.Expr) -> str:
    """Say at which line and column a part begins; nothing where the parser did not note it."""
    starts = [
        (child.meta["line"], child.meta["col"] - (child.meta["end"] - child.meta["start"]))
        for child in node.walk()
        if "line" in child.meta
    ]
    if not starts:
        return ""
    line, column = min(starts)
    return f" (line {line}, column {column})"


def check_modifiers(node: exp.Expr, allowed: set[str]) -> None:
    """Refuse a node with parts that its rule would overlook, so that none is silently dropped."""
    extra = {name for name, value in node.args.items() if value} - allowed
    if extra:
        raise QueryError(
            "clause_not_allowed",
            f"Cannot use {quote_sql(node)} with {', '.join(sorted(extra)).upper()}. Leave that "
            "out.",
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


def split_privacy_clause(tokens: list[Token]) -> tuple[list[Token], PrivacyClause]:
    """Split the clause off the first SELECT."""
    first_words = [token.text.upper() for token in tokens[:3]]
    if (
        len(first_words) < 3
        or first_words[:2] != ["SELECT", "WITH"]
        or first_words[2] not in _CLAUSE_WORDS
    ):
        return tokens, PrivacyClause()
    remaining = iter(tokens[3:])
    options: dict[str, Fraction | int | str] = {}
    token = next(remaining, None)
    if token is not None and token.text.upper() == "OPTIONS":
        _expect(next(remaining, None), "(")
        options = _read_options(remaining)
        token = next(remaining, None)
    statement = [tokens[0], *([token] if token else []), *remaining]
    return statement, PrivacyClause(**options)  # type: ignore[arg-type]  # _option made them fit


def _read_options(remaining: Iterator[Token]) -> dict[str, Fraction | int | str]:
    """Read name = value, ... up to the closing bracket."""
    options: dict[str, Fraction | int | str] = {}
    for token in remaining:
        if token.text == ")":
            return options
        if token.text == ",":
            continue
        name = token.text.lower()
        _expect(next(remaining, None), "=")
        value = next(remaining, None)
        if value is None or name in options:
            break
        options[name] = _read_option(name, value)
    raise QueryError(
        "sql_syntax",
        "Cannot read OPTIONS(...): write each option once, as name = value, and close the bracket.",
    )


def _read_option(name: str, token: Token) -> Fraction | int | str:
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
        actual = quoted(token.text) if token else "the end"
        raise QueryError(
            "sql_syntax", f"Cannot read OPTIONS(...): expected {sign!r}, found {actual}."
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
        tokens, options = split_privacy_clause(dialect.tokenize(sql))
        _check_tokens(tokens)
        trees = [tree for tree in dialect.parser().parse(tokens, sql) if tree is not None]
    except SqlglotError as error:
        if token := _find_reserved_word(sql, dialect, error):
            raise QueryError(
                "sql_syntax",
                f"Cannot read the SQL: {quoted(token.text)} (line {token.line}, column "
                f"{token.col - len(token.text) + 1}) is a word of SQL. As the name of a column "
                "write "
                f'it in double quotes: "{token.text}".',
            ) from None
        raise QueryError("sql_syntax", f"Cannot read the SQL: {_error_text(error)}.") from None
    except RecursionError:
        raise _too_deep() from None
    tree = trees[0]
    if not isinstance(tree, exp.Select):
        raise _not_select(quote_sql(tree))
    check_depth(tree)
    return Parsed(tree, options)


def check_depth(tree: exp.Expr) -> None:
    """Refuse a tree that is too high to be planned safely."""
    level, height = [tree], 0
    while level:
        height += 1
        # Level by level, without recursion, which a deep tree would exhaust.
        if height > DEPTH:
            raise _too_deep()
        level = [child for node in level for child in node.iter_expressions()]


def _not_select(statement: str) -> QueryError:
    return QueryError(
        "question_not_supported",
        f"Cannot run {statement}. Only one SELECT ... FROM ... is answered.",
    )


def _too_deep() -> QueryError:
    return QueryError(
        "sql_too_complex",
        f"Cannot read the SQL: it is nested too deeply. At most {NESTING} brackets may be open and "
        f"{DEPTH} operators stacked; write IN (...) for long chains of OR.",
    )


def _too_many_tokens(token_count: int) -> QueryError:
    return QueryError(
        "sql_too_complex",
        f"Cannot read SQL of {token_count:,} words and signs; at most {TOKENS:,} are allowed.",
    )


def _check_characters(sql: str) -> None:
    if len(sql) > LENGTH:
        raise QueryError(
            "sql_too_complex",
            f"Cannot read SQL of {len(sql):,} characters; at most {LENGTH:,} are allowed.",
        )
    # A cheap scan first: SQL of millions of words is refused before it is tokenized.
    scanned = sum(1 for _ in _SCAN.finditer(sql))
    if scanned > _SCANNED:
        raise _too_many_tokens(scanned)
    for number, sign in enumerate(sql, 1):
        # Word processors and chat programs put these in place of straight quotes.
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
        raise _too_many_tokens(len(tokens))
    semicolons = [
        index for index, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON
    ]
    if not tokens or (semicolons and semicolons[0] + len(semicolons) < len(tokens)):
        raise QueryError(
            "question_not_supported",
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
        # Before parsing: the parser recurses with every bracket.
        nesting += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if nesting > NESTING:
            raise _too_deep()


def _find_reserved_word(sql: str, dialect: Dialect, error: SqlglotError) -> Token | None:
    """A reserved word near a fault that would be no fault as a quoted name; else None."""
    if not getattr(error, "errors", None):
        return None
    tokens = dialect.tokenize(sql)
    fault = _error_position(error)
    candidates = [
        token
        for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False)
        if (token.line, token.col) <= fault
        and token.text.isidentifier()
        and token.token_type not in _OPERANDS
        and (before and before.token_type not in _OPERANDS | {TokenType.R_PAREN})
        and (after is None or after.token_type not in _OPERANDS | {TokenType.L_PAREN})
    ]
    for candidate in reversed(candidates[-2:]):
        quoted_sql = f'{sql[: candidate.start]}"{candidate.text}"{sql[candidate.end + 1 :]}'
        try:
            dialect.parser().parse(
                split_privacy_clause(dialect.tokenize(quoted_sql))[0], quoted_sql
            )
        except SqlglotError as second_error:
            if not getattr(second_error, "errors", None) or _error_position(second_error) <= (
                fault[0],
                fault[1] + 2,
            ):
                continue
        return candidate
    return None


def _error_position(error: SqlglotError) -> tuple[int, int]:
    """The line and the column of the parser's first complaint."""
    first = error.errors[0]  # type: ignore[attr-defined]
    return first["line"], first["col"]


def _error_text(error: SqlglotError) -> str:
    """The parser's first complaint without its colours, in one line, with its place."""
    errors = getattr(error, "errors", None)
    if not errors:
        return "it has an unfinished text or comment"
    first_error = errors[0]
    complaint = (
        str(first_error["description"]).split("<class")[0].split(" but got <")[0].strip(" .:")
    )
    near = " ".join(str(first_error["highlight"] or "the end").split())[:40]
    return f"{complaint}, near {near!r} (line {first_error['line']}, column {first_error['col']})"
