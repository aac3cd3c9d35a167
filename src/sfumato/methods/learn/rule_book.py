"""Rules that were learnt, as a model: what they suggest to a basket."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.methods.learn.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray

    Truths = NDArray[np.bool_]


class Suggestion(NamedTuple):
    """An item that a basket lacks, and the confidence of the surest rule that leads to it."""

    item: str
    confidence: float


class RuleBook(Model):
    """Rules from some items to another, the surest first.

    Of a table of items, what is told of a row is what is suggested to the basket that it is of. Of
    a plain table it is a "column = value" of a column whose value is missing in the row. How sure a
    rule is, is a lower bound of its confidence, by which rules come ordered.
    """

    @property
    def _rules(self) -> list[tuple[list[str], str, float]]:
        table = self.tables["rules"]
        names = [one for one in table.column_names if one.startswith("if_")]
        return [
            ([row[one] for one in names if row[one] is not None], row["then"], row["confidence"])
            for row in table.to_pylist()
        ]

    def check(self) -> None:
        """Refuse rules that lack a part, and baskets that are not two columns."""
        baskets = self.facts["baskets"]
        assert baskets is None or list(baskets) == list(self.features)
        for items, then, confidence in self._rules:
            assert items
            assert all(isinstance(one, str) for one in (*items, then))
            assert 0 <= confidence <= 1

    def suggest(self, basket: Sequence[str]) -> list[Suggestion]:
        """What whoever has a basket has besides, by all rules that it meets, the surest first."""
        held = set(arguments.names(basket, "basket"))
        found: dict[str, float] = {}
        for items, then, confidence in self._rules:
            if then not in held and held.issuperset(items):
                found.setdefault(then, confidence)
        return [Suggestion(*one) for one in found.items()]

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The surest suggestion to the basket of each row, and its confidence; null if none."""
        rules = self._rules
        names = sorted({one for items, then, _ in rules for one in (*items, then)})
        place = {one: number for number, one in enumerate(names)}
        of, has, closed = self._held(rows, place)
        told = np.full(len(has), -1)
        for number, (items, then, _) in enumerate(rules):
            meets = has[:, [place[one] for one in items]].all(axis=1) & ~closed[:, place[then]]
            told[meets & (told < 0)] = number
        mine = told[of]
        chosen = pa.array(mine, mask=mine < 0)
        then_of = pa.array([then for _, then, _ in rules], pa.string())
        sure = pa.array([confidence for *_, confidence in rules], pa.float64())
        return {"suggested": then_of.take(chosen), "confidence": sure.take(chosen)}

    def _held(self, rows: pa.Table, place: Mapping[str, int]) -> tuple[IntArray, Truths, Truths]:
        """Which basket each row is of, which items baskets have, and which cannot be suggested."""
        if self.facts["baskets"] is None:
            has, closed = _of_columns(rows, place)
            return np.arange(len(has)), has, closed
        owners, items = (rows.column(one).combine_chunks() for one in self.features)
        coded = owners.dictionary_encode(null_encoding="encode")
        of = coded.indices.to_numpy().astype(np.int64)
        has = np.zeros((len(coded.dictionary), len(place)), dtype=bool)
        distinct = items.dictionary_encode(null_encoding="encode")
        code = np.array(
            [place.get(item_text(one), -1) for one in distinct.dictionary.to_pylist()], dtype=int
        )
        found = code[distinct.indices.to_numpy()]
        has[of[found >= 0], found[found >= 0]] = True
        return of, has, has


def _of_columns(rows: pa.Table, place: Mapping[str, int]) -> tuple[Truths, Truths]:
    """The items of rows of a plain table; closed are all items of a column that has a value."""
    has = np.zeros((rows.num_rows, len(place)), dtype=bool)
    closed = np.zeros_like(has)
    for name in rows.column_names:
        coded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy()
        for code, value in enumerate(coded.dictionary.to_pylist()):
            if value is None:
                continue
            mine = codes == code
            for item, number in place.items():
                if item.startswith(f"{_marked(name)} = "):
                    closed[mine, number] = True
            if (number := place.get(item_text(value, name), -1)) >= 0:
                has[mine, number] = True
    return has, closed


def item_text(value: Any, column: str | None = None) -> str:
    """An item as it is written in a rule."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if column is None else f"{_marked(column)} = {_marked(text)}"


def _marked(text: str) -> str:
    """A part of an item, in quotes where it could be taken for more than a part."""
    return dumps(text, ensure_ascii=False) if "=" in text or '"' in text else text
