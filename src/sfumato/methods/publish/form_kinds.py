"""Publications of tables whose rows are not people: of edges, points and items.

A kind of such a form is a module whose `prepare(request, **options)` makes a method from public
facts alone. Its rows come from any engine, those that lack a part of the form left out, and where
the unit is a person bounded in the engine as for every other door. Decision 0389.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sqlglot import exp

from sfumato.data.counting.contribution import COUNT, PERSON, bound
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.methods.publish.rounding import readable
from sfumato.privacy.noise.entropy import secret
from sfumato.release.release import Guarantee, Provenance, Release, today
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.data.counting.axes import Grid
    from sfumato.data.schema.row_forms import Form
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class FormRequest:
    """A data set of a form, with its unit, at a price. Nothing in it saw data."""

    dataset: str
    schema: Schema
    form: Form
    unit: Unit
    price: Price
    others: Mapping[str, Schema] = field(default_factory=dict)
    """The other private data sets of the same people, with their units, which an option may name.

    Their budget is that of these people too, so one charge pays for all.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    axes: ClassVar[tuple[()]] = ()


class FormMethod(Protocol):
    """One way to publish a table of a form, with all its parameters."""

    @property
    def event(self) -> Event:
        """What it costs."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The choices made, in JSON form: public, and part of the release's provenance."""
        ...

    @property
    def error(self) -> Mapping[str, Any]:
        """How far the release will be off, in JSON form, known before anything is spent."""
        ...

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that it will release, by name, without a row."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """The data sets beside its own that it reads."""
        ...

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The noisy tables, of rows that it reads."""
        ...


@dataclass(frozen=True)
class FormRows:
    """The rows of a data set of a form, as a method reads them once its cost was charged."""

    data: Dataset
    salt: str
    """Secret, and drawn anew for each release: it keys the hash by which rows are kept."""
    others: Mapping[str, Dataset] = field(default_factory=dict)

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
        return _read(self.others[name], columns, (), self.salt)


def _read(
    data: Dataset,
    columns: Sequence[str],
    groups: Sequence[str],
    salt: str,
    grids: Sequence[Grid] = (),
) -> pa.Table:
    named = list(dict.fromkeys(columns))
    whole = [exp.column(one, quoted=True).is_(exp.Null()).not_() for one in named]
    codes = {grid.column: exp.alias_(grid.code(), grid.column, quoted=True) for grid in grids}
    selected = [codes.get(one) or exp.column(one, quoted=True) for one in named]
    query = exp.select(*selected).from_(data.table.copy()).where(*whole)
    if len(data.unit.columns) != 1:  # each row is by itself, or is bounded by projection
        return data.engine.run(query)
    [owner] = data.unit.columns
    person = exp.alias_(exp.column(owner, quoted=True), PERSON)
    rest = [one for one in named if one not in groups]
    kept = bound(query.select(person), data.unit, list(groups), salt, rest)
    found = data.engine.run(kept)
    times = found.column(COUNT).to_numpy()
    return found.select(named).take(times.nonzero()[0].repeat(times[times > 0]))


@dataclass(frozen=True, repr=False)
class FormPublication(Shown):
    """What the gatekeeper charges and runs. Nothing in it saw data."""

    kind: str
    request: FormRequest
    method: FormMethod
    family: str = "publish"

    public = ()

    def _card(self) -> Card:
        price = self.request.price.sentence()
        line = f"{self.kind} of {self.request.dataset}, would cost {price}"
        return Card(line, {**self.error, **self.method.parameters}, notes=["Nothing was spent."])

    @property
    def name(self) -> str:
        """The method's name, for the ledger and the release."""
        return f"{self.family} {self.kind}"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets it reads, all charged together."""
        return (self.request.dataset, *self.method.reads)

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        return self.method.event

    @property
    def error(self) -> Mapping[str, Any]:
        """How far the release will be off, known before anything is spent."""
        return self.method.error

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form."""
        request = self.request
        return {
            "form": request.form.facts(),
            "cost": request.price.to_record(),
            "unit": request.unit.sentence(),
            "method": dict(self.method.parameters),
        }

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Read the rows, bounded by the unit, and give what the method makes of them."""
        others = {name: datasets[name] for name in self.method.reads}
        rows = FormRows(datasets[self.request.dataset], secret(entropy), others)
        tables = self.method.release(rows, entropy)
        return Release(
            readable(tables, self.method.error, ()),
            self.guarantee,
            Provenance(self.name, self.parameters, fingerprint="", made=today()),
            self.error,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        price = self.request.price.charged(self.event)
        return Guarantee(*price.promise(self.request.unit, table=self.request.dataset))


def form_of(schema: Schema, wanted: str, what: str) -> Form:
    """The form of a table; refused where it is not the one wanted."""
    if schema.form is None or schema.form.name != wanted:
        has = "no form" if schema.form is None else f"the form {schema.form.name!r}"
        raise ParameterError(
            "form_wrong",
            f"{what} is made of a table of {wanted}, but {quoted(schema.table)} has {has}. Add to "
            f"its schema {_EXAMPLES[wanted]}.",
        )
    return schema.form


_EXAMPLES = {
    "edges": 'form = { edges = ["from", "to"] }',
    "points": 'form = { points = { path = "trip", time = "at", at = ["x", "y"] } }',
    "items": 'form = { items = { of = "basket", item = "product" } }',
}
