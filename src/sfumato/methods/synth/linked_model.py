"""Fitted models of a parent table and of its children, from which both are drawn, keys and all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.methods.synth.encode.axes import Weekdays, codes_of
from sfumato.methods.synth.encode.decoder import RowDecoder
from sfumato.methods.synth.encode.identifiers import room, running_identifiers
from sfumato.methods.synth.row_sampling import draw_given
from sfumato.methods.synth.saved_model import LINK, SavedModel, from_content, to_file
from sfumato.methods.synth.synthesis_model import (
    CHUNK,
    MOST_IN_MEMORY,
    SynthesisModel,
    check_memory,
    drawn,
    rows_to_draw,
)
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.arrays import IntArray
    from sfumato.methods.synth.row_sampling import Codes
    from sfumato.privacy.noise.entropy import Entropy


_TRIES = 16
"""How often a child that fell to a constraint is drawn again."""
_CELLS = 1 << 24
"""So many chances of codes, over all children that are drawn together."""


@dataclass(frozen=True)
class Link:
    """How two tables belong together: by a key, and by what a child knows of its parent.

    `number` is the column of the parent's model with how many children there are; `seen` says under
    which names the columns of the parent's model stand in that of the child.
    """

    parent_key: str
    child_key: str
    number: str
    seen: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class LinkedModel(SavedModel, Shown):
    """A distribution of parents, with how many children each has, and of children given parents.

    *Guarantee*: that of the release that it came with; nothing more is read or paid.
    *Error*: each model tells that of its measured sets of columns.
    *Edges*: a parent may come out with fewer children than drawn for it where constraints of the
    child allow no more; a table with fewer rows than asked for where its key has no more values.
    """

    parent: SynthesisModel
    child: SynthesisModel
    link: Link

    of_two = True

    def _card(self) -> Card:
        parent, child = (model.encoding.schema.table for model in (self.parent, self.child))
        line = f"of {parent} and {child}, about {self.parent.fitted.total:,.0f} rows of {parent}"
        measured = {parent: self.parent.measured, child: self.child.measured}
        facts = {f"Measured of {name}": [", ".join(columns) for columns in sets]
                 for name, sets in measured.items()}  # fmt: skip
        return Card(line, facts)

    def draw(self, rows: int | None = None) -> dict[str, pa.Table]:
        """Draw so many parents and their children, each table by its name."""
        row_count = rows_to_draw(self.parent, rows)
        check_memory(row_count, "Draw fewer.")
        parents, children = self.drawn(row_count, SystemEntropy(), most_children=MOST_IN_MEMORY)
        names = (model.encoding.schema.table for model in (self.parent, self.child))
        return dict(zip(names, (parents, children), strict=True))

    @property
    def content(self) -> bytes:
        """What a file of it holds: both models and their noisy tables."""
        contents = [model.content for model in (self.parent, self.child)]
        table = pa.table({"model": pa.array(contents, pa.large_binary())})
        link_json = dumps(asdict(self.link)).encode()
        return to_file(table.replace_schema_metadata({LINK: link_json}))

    @classmethod
    def unpacked(cls, table: pa.Table) -> LinkedModel:
        """Read what a file of it holds; something else is refused in the words of Python."""
        link, contents = json.loads(table.schema.metadata[LINK]), table.column("model")
        if table.num_rows != 2:
            raise ValueError("other models than two")
        models = [
            SynthesisModel.unpacked(from_content(content)) for content in contents.to_pylist()
        ]
        return cls(models[0], models[1], _link(link, models))

    def with_model_columns(
        self, parents: pa.Table, children: pa.Table
    ) -> tuple[pa.Table, pa.Table]:
        """Rows that were drawn, with the columns that only their models have.

        Parents come with the number of their children, children with what they know of parents.
        """
        link, keys = self.link, parents.column(self.link.parent_key).combine_chunks()
        owners = pc.index_in(children.column(link.child_key).combine_chunks(), value_set=keys)
        numbers = np.bincount(np.asarray(owners, dtype=np.int64), minlength=len(keys))
        parents = parents.append_column(link.number, pa.array(numbers, pa.int64()))
        seen = parents.select(list(link.seen)).rename_columns(list(link.seen.values())).take(owners)
        for name in seen.column_names:
            children = children.append_column(name, seen.column(name))
        return parents, children

    def drawn(
        self, rows: int, entropy: Entropy, *, most_children: int
    ) -> tuple[pa.Table, pa.Table]:
        """Draw parents and their children from a given source of randomness.

        Keys of parents are running numbers, each once; every child has one of them, and each
        parent as many children as were drawn for it. Parents come as long as there is room for
        their children.
        """
        encoding, link = self.parent.encoding, self.link
        column = encoding.schema.column(link.parent_key)
        most = room(column)
        parents = drawn(self.parent, rows if most is None else min(rows, most), entropy)
        numbers = np.asarray(parents.column(link.number), dtype=np.int64)
        fitting = int(np.searchsorted(np.cumsum(numbers), most_children, "right"))
        parents, numbers = parents.slice(0, max(fitting, 1)), numbers[: max(fitting, 1)]
        keys = running_identifiers(column, 0, parents.num_rows)
        position = parents.column_names.index(link.parent_key)
        field = parents.schema.field(position)
        parents = parents.set_column(position, field, keys.cast(field.type))
        children = pa.concat_tables(self._children(parents, numbers, keys, entropy))
        own = [name for name in children.column_names if name not in link.seen.values()]
        return parents.drop_columns([link.number]), children.select(own)

    def _children(
        self, parents: pa.Table, numbers: IntArray, keys: pa.Array, entropy: Entropy
    ) -> Iterator[pa.Table]:
        """Draw the children of all parents, some at a time: at least one table."""
        known = self._known(parents)
        decoder = RowDecoder(self.child.encoding, entropy, linked=[self.link.child_key])
        most = max(1, min(CHUNK, _CELLS // max(self.child.fitted.shape.sizes)))
        parent_of_child = np.repeat(np.arange(parents.num_rows), numbers)
        for first in range(0, max(len(parent_of_child), 1), most):
            pending = parent_of_child[first : first + most]
            for _ in range(_TRIES):
                codes = draw_given(
                    self.child.fitted,
                    {index: column[pending] for index, column in known.items()},
                    len(pending),
                    entropy,
                )
                linked = {self.link.child_key: keys.take(pa.array(pending))}
                yield decoder.rows(codes, linked)
                pending = pending[~decoder.kept_rows]
                if not len(pending):
                    break

    def _known(self, parents: pa.Table) -> dict[int, Codes]:
        """The codes of what children know of their parents, by places of the child's model."""
        axes = {axis.column: axis for axis in self.child.encoding.axes}
        names = self.child.fitted.shape.names
        return {
            names.index(seen): codes_of(axes[seen], parents.column(name))
            for name, seen in self.link.seen.items()
        }


def _link(fields: Mapping[str, Any], models: Sequence[SynthesisModel]) -> Link:
    """How two models belong together; refused where it is not of columns that they have."""
    link = Link(**fields)
    parent, child = models
    drawn = [axis.column for axis in parent.encoding.axes if not isinstance(axis, Weekdays)]
    known = {axis.column: axis.size for axis in child.encoding.axes}
    sizes = {axis.column: axis.size for axis in parent.encoding.axes}
    keys = [(parent, link.parent_key), (child, link.child_key)]
    invented = all(
        key in [column.name for column in model.encoding.invented] for model, key in keys
    )
    alike = all(sizes[name] == known[seen] for name, seen in link.seen.items())
    if list(link.seen) != drawn or not invented or not alike or link.number not in drawn:
        raise ValueError("other columns than the models'")
    return link
