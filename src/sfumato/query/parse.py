"""From text to one SELECT, or a refusal that says where the text goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sfumato.errors import QueryError
from sfumato.query.bigquery import Options, take_options
from sfumato.query.refusal import part
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

LENGTH, TOKENS, NESTING, DEPTH = 65_536, 5_000, 60, 200
"""Limits: characters, words and signs, open brackets, height of the tree."""

_BEGIN = {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN}
_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_QUOTES = dict.fromkeys("\u2018\u2019\u201a\u201b", "'") | dict.fromkeys(
    "\u201c\u201d\u201e\u201f", '"'
)


@dataclass(frozen=True)
class Parsed:
    """One SELECT, and what BigQuery's clause asked for."""

    tree: exp.Select
    options: Options


def parse(sql: str) -> Parsed:
    """Parse a question: exactly one SELECT, of limited size."""
    _check_characters(sql)
    dialect = Dialect.get_or_raise(None)
    try:
        tokens, options = take_options(dialect.tokenize(sql))
        _check_tokens(tokens)
        trees = [tree for tree in dialect.parser().parse(tokens, sql) if tree is not None]
    except SqlglotError as error:
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
        "sql_not_select", f"Cannot run {what}. Only one SELECT ... FROM ... is answered."
    )


def _too_deep() -> QueryError:
    return QueryError(
        "sql_too_deep",
        f"Cannot read the SQL: it is nested too deeply. At most {NESTING} brackets may be open and "
        f"{DEPTH} operators stacked; write IN (...) for long chains of OR.",
    )


def _check_characters(sql: str) -> None:
    if len(sql) > LENGTH:
        raise QueryError(
            "sql_too_long",
            f"Cannot read SQL of {len(sql):,} characters; at most {LENGTH:,} are allowed.",
        )
    for number, sign in enumerate(sql, 1):
        if sign in _QUOTES:
            raise QueryError(
                "sql_character",
                f"Cannot read the SQL: character {number} is a typographic quote. "
                f"Write {_QUOTES[sign]} instead.",
            )
        if (sign < " " and sign not in "\t\n\r") or "\ud800" <= sign <= "\udfff":
            raise QueryError(
                "sql_character",
                f"Cannot read the SQL: character {number} is the control character "
                f"U+{ord(sign):04X}. Remove it.",
            )


def _check_tokens(tokens: Sequence[Token]) -> None:
    if len(tokens) > TOKENS:
        raise QueryError(
            "sql_too_long",
            f"Cannot read SQL of {len(tokens):,} words and signs; at most {TOKENS:,} are allowed.",
        )
    ends = [place for place, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON]
    if not tokens or (ends and ends[0] + len(ends) < len(tokens)):
        raise QueryError(
            "sql_not_one_statement",
            "Cannot run no or several statements. Ask exactly one SELECT at a time.",
        )
    if tokens[0].token_type not in _BEGIN:
        raise _not_select(quoted(tokens[0].text))
    nesting = 0
    for token in tokens:
        nesting += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if nesting > NESTING:
            raise _too_deep()


def _reason(error: SqlglotError) -> str:
    """The parser's first complaint without its colours, in one line, with its place."""
    errors = getattr(error, "errors", None)
    if not errors:
        return "it has an unfinished text or comment"
    first = errors[0]
    complaint = str(first["description"]).split("<class")[0].strip(" .:")
    near = " ".join(str(first["highlight"] or "the end").split())[:40]
    return f"{complaint}, near {near!r} (line {first['line']}, column {first['col']})"
