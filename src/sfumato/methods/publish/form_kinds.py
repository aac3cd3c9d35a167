"""Publications of tables whose rows are not people: of edges, points and items.

A kind of such a form is a module whose `prepare(request, **options)` makes a method from public
facts alone. Its rows come from any engine, those that lack a part of the form left out, and where
the unit is a person bounded in the engine as for every other door. Decision `counts-only`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sqlglot import exp

from sfumato.data.counting.contribution import COUNT, PERSON, bound
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.methods.method import KindRequest, Method, SaltedData
from sfumato.methods.publish.rounding import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.data.counting.axes import Grid
    from sfumato.data.schema.row_forms import Form
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.price import Price


@dataclass(frozen=True, kw_only=True)
class FormRequest(KindRequest):
    """A data set of a form, with its unit, at a price. Nothing in it saw data."""

    dataset: str
    schema: Schema
    form: Form
    unit: Unit
    price: Price
    linked: Mapping[str, Schema] = field(default_factory=dict)
    """The other private data sets of the same people, with their units, which an option may name.

    Their budget is that of these people too, so one charge pays for all.
    """

    columns: ClassVar[tuple[str, ...]] = ()

    @property
    def subject(self) -> str:
        """The data set."""
        return self.dataset

    def record(self, method: object) -> dict[str, Any]:  # noqa: ARG002  # says nothing more
        """The form, the price and the unit."""
        return {
            "form": self.form.facts(),
            "cost": self.price.to_record(),
            "unit": self.unit.sentence(),
        }

    def open(self, datasets: Mapping[str, Dataset], salt: str) -> FormRows:
        """The rows of the form, and of the other data sets that the method reads."""
        linked = {name: data for name, data in datasets.items() if name != self.dataset}
        return FormRows(datasets[self.dataset], salt, linked)

    def reads(self, method: FormMethod) -> tuple[str, ...]:
        """The data set of the form, and those that the method reads beside it."""
        return (self.dataset, *method.reads)

    def rounded(
        self, tables: Mapping[str, pa.Table], error: Mapping[str, Any]
    ) -> Mapping[str, pa.Table]:
        """Figures on a decimal step far below their noise."""
        return readable(tables, error, ())


class FormMethod(Method["FormRows"], Protocol):
    """A method of a form, which may read other data sets of the same people."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The data sets beside its own that it reads."""
        ...


@dataclass(frozen=True)
class FormRows(SaltedData):
    """The rows of a data set of a form, as a method reads them once its cost was charged."""

    linked: Mapping[str, Dataset] = field(default_factory=dict)

    def read(
        self, columns: Sequence[str], *, groups: Sequence[str] = (), grids: Sequence[Grid] = ()
    ) -> pa.Table:
        """These columns of the rows that have them all, bounded where the unit is a person.

        A person then keeps at most `max_rows` rows, and those of at most `max_groups` of the
        `groups`, such as paths, whole where they fit; both are chosen by a keyed hash. A column
        of the `grids` comes as the number of its nearest point, found by the engine, so that no
        cell has to be converted here; NULL where it is not a number.
        """
        return _read(self.data, columns, groups, self.salt, grids)

    def of(self, name: str, columns: Sequence[str]) -> pa.Table:
        """The same of another data set that the method reads."""
        return _read(self.linked[name], columns, (), self.salt)


def _read(
    data: Dataset,
    columns: Sequence[str],
    groups: Sequence[str],
    salt: str,
    grids: Sequence[Grid] = (),
) -> pa.Table:
    names = list(dict.fromkeys(columns))
    complete = [exp.column(name, quoted=True).is_(exp.Null()).not_() for name in names]
    codes = {grid.column: exp.alias_(grid.code(), grid.column, quoted=True) for grid in grids}
    selected = [codes.get(name) or exp.column(name, quoted=True) for name in names]
    query = exp.select(*selected).from_(data.table.copy()).where(*complete)
    if len(data.unit.columns) != 1:  # each row is by itself, or is bounded by projection
        return data.engine.run(query)
    [owner] = data.unit.columns
    person = exp.alias_(exp.column(owner, quoted=True), PERSON)
    other_columns = [name for name in names if name not in groups]
    bounded = bound(query.select(person), data.unit, list(groups), salt, other_columns)
    rows = data.engine.run(bounded)
    times = rows.column(COUNT).to_numpy()
    return rows.select(names).take(times.nonzero()[0].repeat(times[times > 0]))


def form_of(schema: Schema, form_name: str, subject: str) -> Form:
    """The form of a table; refused where it is not the one wanted."""
    if schema.form is None or schema.form.name != form_name:
        has = "no form" if schema.form is None else f"the form {schema.form.name!r}"
        raise ParameterError(
            "form_invalid",
            f"{subject} needs a table of {form_name}, but {quoted(schema.table)} has {has}. Add to "
            f"its schema {_EXAMPLES[form_name]}.",
        )
    return schema.form


_EXAMPLES = {
    "edges": 'form = { edges = ["from", "to"] }',
    "points": 'form = { points = { path = "trip", time = "at", at = ["x", "y"] } }',
    "items": 'form = { items = { of = "basket", item = "product" } }',
}
