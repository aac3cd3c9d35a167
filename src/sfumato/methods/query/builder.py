"""Build queries step by step, as with a data frame, instead of writing SQL. The plan is the same.

::

    table("visits").where("cost > 5").group_by("city").aggregate(n="COUNT(*)").order_by("n DESC")
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.errors import QueryError
from sfumato.methods.query.sql.parse import parse

_SIDES = {"inner": "", "left": "LEFT", "right": "RIGHT"}


def table(name: str, alias: str | None = None) -> Frame:
    """The rows of a declared table."""
    item = exp.Table(this=exp.to_identifier(arguments.text(name, "name"), quoted=True))
    if arguments.maybe_text(alias, "alias") is not None:
        item.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return Frame(exp.select().from_(item))


@dataclass(frozen=True)
class Frame:
    """Rows of one or several tables, filtered, joined and with computed columns; not aggregated."""

    _tree: exp.Select

    def where(self, condition: str) -> Frame:
        """Keep the rows for which a condition holds."""
        return Frame(self._tree.where(_expression(condition)))

    def join(self, other: Frame, *, alias: str, on: str, how: str = "inner") -> Frame:
        """Join the rows of another frame under an alias: inner, left or right."""
        if arguments.text(how, "how") not in _SIDES:
            raise QueryError(
                "join_not_allowed",
                f"Cannot join by how={how!r}; allowed are {', '.join(map(repr, _SIDES))}.",
            )
        arguments.require(other, "other", Frame, "rows of sf.table(...)")
        name = exp.to_identifier(arguments.text(alias, "alias"), quoted=True)
        item = other._everything().subquery(name)
        return Frame(self._tree.join(item, on=_expression(on), join_type=_SIDES[how]))

    def with_columns(self, alias: str = "rows", **columns: str) -> Frame:
        """Add columns that are computed from those of the row."""
        inner = self._everything()
        for name, value in columns.items():
            inner = inner.select(exp.alias_(_expression(value), name, quoted=True))
        around = exp.to_identifier(arguments.text(alias, "alias"), quoted=True)
        return Frame(exp.select().from_(inner.subquery(around)))

    def group_by(self, *keys: str, **named: str) -> Grouped:
        """Group the rows by columns or expressions, the named ones under their names."""
        outputs: list[exp.Expr] = [_expression(key) for key in keys]
        outputs += [exp.alias_(_expression(key), name, quoted=True) for name, key in named.items()]
        grouped = self._tree.group_by(*(output.unalias() for output in outputs))
        return Grouped(grouped.select(*outputs))

    def aggregate(self, **measures: str) -> BuiltQuestion:
        """Aggregate all rows together."""
        return Grouped(self._tree).aggregate(**measures)

    def _everything(self) -> exp.Select:
        return self._tree.select(exp.Star())


@dataclass(frozen=True)
class Grouped:
    """Rows in groups."""

    _tree: exp.Select

    def aggregate(self, **measures: str) -> BuiltQuestion:
        """Aggregate each group: aggregates and arithmetic over them, by name."""
        outputs = [
            exp.alias_(_expression(value), name, quoted=True) for name, value in measures.items()
        ]
        return BuiltQuestion(self._tree.select(*outputs))


@dataclass(frozen=True)
class BuiltQuestion:
    """A complete query; further steps use the released figures only."""

    tree: exp.Select

    def having(self, condition: str) -> BuiltQuestion:
        """Keep the groups for whose released figures a condition holds."""
        return BuiltQuestion(self.tree.having(_expression(condition)))

    def order_by(self, *values: str) -> BuiltQuestion:
        """Sort by outputs; write "n DESC" for the largest first."""
        return BuiltQuestion(self.tree.order_by(*(_order_entry(value) for value in values)))

    def limit(self, rows: int) -> BuiltQuestion:
        """Keep the first rows."""
        return BuiltQuestion(self.tree.limit(arguments.whole(rows, "rows")))


def built_tree(asked: object) -> exp.Select:
    """The tree of a built query; refused unless it is complete."""
    if isinstance(asked, BuiltQuestion):
        return asked.tree
    if isinstance(asked, Frame | Grouped):
        raise QueryError(
            "column_not_aggregated",
            "Cannot ask a question that is not finished: it shows rows, not aggregates. End it "
            'with .aggregate(n="COUNT(*)") or another aggregate.',
        )
    raise QueryError(
        "parameter_type_wrong",
        f"Cannot ask {type(asked).__name__}. A question is SQL as text, or built from "
        "sf.table(...) and finished with .aggregate(...).",
        parameter="sql",
    )


def _expression(text: str) -> exp.Expr:
    """One expression, read as SQL."""
    tree = parse(f"SELECT {arguments.text(text, 'An expression')} FROM nowhere").tree
    # A text such as "1 FROM other WHERE" would add clauses to the query around it.
    clauses = {key for key, value in tree.args.items() if value}
    if clauses != {"expressions", "from_"} or len(tree.expressions) != 1:
        raise QueryError("sql_syntax", f"Cannot read {quoted(text)} as one expression.")
    expression: exp.Expr = tree.expressions[0]
    return expression


def _order_entry(text: str) -> exp.Expr:
    """One entry of ORDER BY, read as SQL."""
    asked = arguments.text(text, "An entry to order by")
    tree = parse(f"SELECT nothing FROM nowhere ORDER BY {asked}").tree
    clauses = {key for key, value in tree.args.items() if value}
    entries = tree.args["order"].expressions if "order" in clauses else []
    if clauses != {"expressions", "from_", "order"} or len(entries) != 1:
        raise QueryError("sql_syntax", f"Cannot read {quoted(text)} as one entry to order by.")
    entry: exp.Expr = entries[0]
    return entry
