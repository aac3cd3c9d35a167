"""Data sets: list those that a principal may query, show their declarations, add one."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sfumato import arguments
from sfumato.errors import ParameterError, PolicyError, SfumatoError, SourceError
from sfumato.exact_numbers import decimal_of
from sfumato.operations.fields import (
    FIELD_TYPES,
    MOST_NAMES,
    NAMES_SCHEMA,
    FieldType,
    Name,
    Request,
    Words,
    arg,
)
from sfumato.operations.operation import (
    OWNERS,
    Context,
    Permission,
    Result,
    operation,
    print_table,
)

if TYPE_CHECKING:
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.query.sql.tables import PrivateRows, PublicRows

PAGE = "/console/owner/tables"
_PUBLIC = "Public: it is about nobody."
_BUDGET, _CONSENT, _PUBLIC_TABLES = "Budget", "Consent", "Public tables"


class DeclaredSchema:
    """A schema, or the path of its file on this machine."""

    __slots__ = ("value",)

    def __init__(self, value: Schema | str) -> None:
        self.value = value


class ColumnSets(tuple[tuple[str, ...], ...]):
    """Sets of columns, each a list or a text such as "a,b"."""

    __slots__ = ()


def _read_schema(value: object, name: str) -> Schema | str:
    from sfumato.data.schema.json_form import schema_from_json
    from sfumato.data.schema.schema import Schema

    if not isinstance(value, dict):
        schema: Schema | Path | str = arguments.require(
            value, name, (str, Path, Schema), "a path or an sf.Schema"
        )
        return str(schema) if isinstance(schema, Path) else schema
    try:
        # JSON is read with exact decimals; in the JSON form of a schema exact numbers are texts.
        return schema_from_json(json.loads(json.dumps(value, default=float, allow_nan=False)))
    except SfumatoError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        raise ParameterError(
            "schema_malformed",
            "The schema must be written as GET datasets/{name} tells one: table, unit and columns, "
            "each with its name and kind.",
        ) from None


def _schema_to_send(declared: DeclaredSchema) -> dict[str, Any]:
    from sfumato.data.schema.json_form import schema_to_json
    from sfumato.vault.registration import loaded

    return schema_to_json(loaded(declared.value))


def _read_sets(value: object, name: str) -> tuple[tuple[str, ...], ...]:
    sets = [value] if isinstance(value, str) else value
    if not isinstance(sets, list | tuple):
        raise ParameterError(
            "parameter_type_wrong", f"{name} must be a list of columns.", parameter=name
        )
    return tuple(
        tuple(columns.split(",")) if isinstance(columns, str) else arguments.names(columns, name)
        for columns in sets
    )


FIELD_TYPES[DeclaredSchema] = FieldType(
    "FILE", {"type": "object"}, _read_schema, names_file=True, send=_schema_to_send
)
FIELD_TYPES[ColumnSets] = FieldType(
    "A,B",
    {"type": "array", "items": NAMES_SCHEMA, "maxItems": MOST_NAMES},
    _read_sets,
    repeated=True,
)


class DatasetSummary(Result):
    """A data set, with its privacy promise (`hides`) and the names of its columns."""

    name: str
    public: bool
    hides: str
    columns: tuple[str, ...]


class DatasetList(Result):
    """The data sets that a principal may query."""

    principal: str
    datasets: tuple[DatasetSummary, ...]

    def show(self) -> None:
        """Print a table."""
        rows = [
            (dataset.name, dataset.hides, ", ".join(dataset.columns)) for dataset in self.datasets
        ]
        print_table(("Data set", "What it hides", "Columns"), rows, "There are no data sets.")


class UniqueColumns(msgspec.Struct):
    """Columns of a public table, and the largest number of rows with the same values."""

    columns: tuple[str, ...]
    rows: int


class DatasetRecord(Result):
    """The declarations of a data set, and the budget that a principal has left for it."""

    name: str
    public: bool
    hides: str
    schema: dict[str, Any]
    population: str | None = None
    purposes: tuple[str, ...] = ()
    keys: tuple[UniqueColumns, ...] = ()
    place: int = 0
    """Data sets with the same number are in one database and can be joined."""
    usual_epsilon: str | None = None
    largest_epsilon: str | None = None
    remaining: dict[str, float] | None = None
    balance: str | None = None

    def show(self) -> None:
        """Print what it hides and what is left, and a table of the columns."""
        lines = [f"{self.name}: {self.hides}"]
        if self.balance is not None:
            lines.append(f"Budget: {self.balance}.")
        if self.purposes:
            lines.append(f"Purposes: {', '.join(self.purposes)}.")
        print("\n".join(lines))  # noqa: T201
        rows = [
            (column["name"], column["kind"], column.get("role", ""))
            for column in self.schema["columns"]
        ]
        print_table(("Column", "Kind", "Role"), rows, "It has no columns.")


class AddedDataset(Result):
    """A new data set, with warnings for its owner."""

    dataset: str
    public: bool
    warnings: tuple[str, ...]
    population: str | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    balance: str | UnsetType = UNSET
    purposes: tuple[str, ...] | UnsetType = UNSET

    def print(self, *, as_json: bool) -> None:
        """Print the record; warnings go to standard error."""
        for warning in self.warnings:
            print(f"sfumato: {warning}", file=sys.stderr)  # noqa: T201
        super().print(as_json=as_json)

    def command_json(self) -> dict[str, Any]:
        """The record without warnings, balance and purposes, which other commands print."""
        hidden = ("warnings", "balance", "purposes")
        return {name: value for name, value in self.to_json().items() if name not in hidden}

    def show(self) -> None:
        """Print what the data set hides, and its budget."""
        lines = [f"Added '{self.dataset}' to the vault. {self.unit or 'It is public.'}"]
        if not self.public:
            lines.append(f"Budget: {self.balance}.")
        if self.purposes:
            lines.append(
                "Nobody is seen until they agree: 'sfumato consent import FILE' takes "
                "person,purpose,agreed."
            )
        print("\n".join(lines))  # noqa: T201


class AddDataset(Request):
    """Add a data set to a vault, with a budget for the people in it.

    The vault counts what it spends itself. Keep people in one vault: another one that holds the
    same file has a budget of its own, and what both tell adds up.
    """

    name: Annotated[Name, arg("The name of the data set in queries.", positional=True)]
    source: Annotated[
        str,
        Meta(min_length=1, max_length=10_000),
        arg(
            "A .csv, .tsv, .txt, .parquet, .xlsx, .sav, .dta or .sas7bdat file, a folder or "
            "pattern of Parquet files, duckdb:///file#table, postgresql://...#table, "
            "spark://...#table, sc://...#table or spark+parquet:///folder/.",
            metavar="SOURCE",
            positional=True,
        ),
    ]
    schema: Annotated[DeclaredSchema | None, arg("The table's schema (TOML).")] = None
    unit: Annotated[
        Name | None,
        arg("What one person is; by default as the schema says.", metavar="row|COLUMN"),
    ] = None
    max_rows: Annotated[int | None, arg("Rows of one person to use.")] = None
    max_groups: Annotated[int | None, arg("Groups one person can be in.", metavar="M")] = None
    epsilon: Annotated[
        Fraction | None,
        arg("The whole budget, for all answers ever.", metavar="EPSILON", topic=_BUDGET),
    ] = None
    delta: Annotated[Fraction, arg("Its delta.", metavar="DELTA", topic=_BUDGET)] = Fraction(0)
    population: Annotated[
        Name | None, arg("Data sets about the same people share one budget.", topic=_BUDGET)
    ] = None
    consent: Annotated[
        Name | None,
        arg(
            "Use only people whose rows all are true in this column.",
            metavar="COLUMN",
            topic=_CONSENT,
        ),
    ] = None
    purposes: Annotated[
        Words | None,
        arg("What people are asked to agree to: questions name one.", topic=_CONSENT),
    ] = None
    public: Annotated[
        bool,
        arg(
            "A public table: it is about nobody, and queries of it are free.", topic=_PUBLIC_TABLES
        ),
    ] = False
    unique: Annotated[
        ColumnSets,
        arg("Columns whose values are unique in a public table.", topic=_PUBLIC_TABLES),
    ] = ColumnSets()


class ListDatasets(Request):
    """List the data sets that you may query."""


class ShowDataset(Request):
    """Show what is declared of a data set, and what you may still spend on it."""

    name: Annotated[Name, arg("The data set.", positional=True)]


class NamedSourceError(SourceError):
    """A source that cannot be read and that the caller named: their mistake, not the server's."""

    status = 422


def source_below(folder: Path | None, source: str) -> str:
    """Find a file below a server's folder for data; all else is refused with the same message.

    The holder of a token must not read every file that the account of the server can read. One
    message for all, because another for existing files would tell which files there are.
    """
    if folder is not None and "://" not in source:
        allowed = folder.resolve()
        path = (allowed / source).resolve()  # without .. and links, which could leave the folder
        if path != allowed and path.is_relative_to(allowed):
            return str(path)
    where = "no folder" if folder is None else "a folder"
    raise PolicyError(
        "permission_missing",
        f"This server was given {where} to add data sets from, and the source is not in it. Put "
        "the file into the server's folder of data and name it from there, or add it where "
        "the vault is with 'sfumato add'.",
    )


@operation(
    "dataset add",
    allowed=OWNERS,
    examples=[
        {
            "name": "visits",
            "source": "visits.parquet",
            "schema": {
                "table": "visits",
                "unit": "row",
                "columns": [{"name": "cost", "kind": "integer", "bounds": [0, 50]}],
            },
            "epsilon": "1",
        }
    ],
    command_examples=[
        {"name": "people", "source": "people.csv", "schema": "people.toml", "epsilon": "3"},
        {
            "name": "visits",
            "source": "visits.csv",
            "schema": "visits.toml",
            "epsilon": "2",
            "purposes": ["care", "research"],
        },
        {
            "name": "towns",
            "source": "towns.csv",
            "schema": "towns.toml",
            "public": True,
            "unique": ["town"],
        },
    ],
    path="/admin/datasets",
    status=201,
    refusals=(403,),
    repeatable=False,
    page=PAGE,
)
def add_dataset(context: Context, request: AddDataset) -> AddedDataset:
    """Check the data set, write it into the configuration and open its account."""
    from sfumato.vault import registration
    from sfumato.vault.accounts import remaining_budget
    from sfumato.vault.config import PrivateSet

    vault, warnings = context.vault, list[str]()
    source = request.source if context.find_source is None else context.find_source(request.source)
    try:
        dataset = registration.add_dataset(
            vault.config.folder,
            request.name,
            source,
            None if request.schema is None else request.schema.value,
            public=request.public,
            unique=request.unique,
            warn=warnings.append,
            unit=request.unit,
            max_rows=request.max_rows,
            max_groups=request.max_groups,
            epsilon=None if request.epsilon is None else decimal_of(request.epsilon),
            delta=decimal_of(request.delta),
            population=request.population,
            consent=request.consent,
            purposes=request.purposes,
        )
    except SourceError as error:
        if context.find_source is None:
            raise
        # Without the detail of the error, which is for the operator of the server.
        raise NamedSourceError(error.code, error.sentence) from None
    # The vault that is open reads the new data set from the configuration.
    vault.refresh()
    added = AddedDataset(request.name, request.public, tuple(warnings))
    if not isinstance(dataset, PrivateSet):
        return added
    return msgspec.structs.replace(
        added,
        population=dataset.population,
        unit=dataset.unit.sentence(),
        balance=remaining_budget(vault.ledger, [dataset.population])[1],
        purposes=dataset.purposes,
    )


@operation(
    "dataset list",
    allowed=Permission("plan"),
    examples=[{}],
    method="GET",
    path="/datasets",
    whole_vault=True,
    page=PAGE,
)
def list_datasets(context: Context, request: ListDatasets) -> DatasetList:  # noqa: ARG001
    """Read the data sets that the principal may query."""
    visible = context.vault.questions(principal=context.principal).catalogue
    summaries = [
        DatasetSummary(
            name,
            _is_public(entry),
            _promise(entry),
            tuple(column.name for column in entry.schema.columns),
        )
        for name, entry in visible.items()
    ]
    return DatasetList(context.principal, tuple(summaries))


@operation(
    "dataset show",
    allowed=Permission("plan"),
    examples=[{"name": "people"}],
    method="GET",
    path="/datasets/{name}",
    whole_vault=True,
    page=PAGE,
)
def show_dataset(context: Context, request: ShowDataset) -> DatasetRecord:
    """Read the public facts of a data set, and what is left of the principal's budget."""
    from sfumato.data.schema.json_form import schema_to_json

    vault, name = context.vault, request.name
    visible = vault.questions(principal=context.principal).catalogue
    if name not in visible:
        # The same error as for a name that does not exist: names of data sets are not public.
        raise ParameterError("not_found", "There is no data set of this name that you may query.")
    entry = visible[name]
    # Numbers count only visible data sets, so they tell nothing about the others.
    addresses = [vault.addresses[dataset] for dataset in visible]
    record = DatasetRecord(
        name,
        _is_public(entry),
        _promise(entry),
        schema_to_json(entry.schema),
        purposes=vault.purposes(name),
        place=list(dict.fromkeys(addresses)).index(vault.addresses[name]),
    )
    if record.public:
        keys = (UniqueColumns(columns, rows) for columns, rows in entry.keys.items())
        return msgspec.structs.replace(record, keys=tuple(keys))
    return msgspec.structs.replace(
        record, population=entry.population, **_budget_of(vault, name, context.principal)
    )


def _budget_of(vault: Any, name: str, principal: str) -> dict[str, Any]:
    """The costs and the budget left of a principal; empty without a budget for the data set."""
    private = vault.private(name, principal=principal)
    try:
        return {
            "usual_epsilon": str(private.usual_epsilon),
            "largest_epsilon": str(private.largest_epsilon),
            "remaining": private.remaining,
            "balance": private.balance,
        }
    except SfumatoError as error:
        # Who has no budget may still see the declarations.
        if error.code != "budget_missing":
            raise
        return {}


def _is_public(entry: PrivateRows | PublicRows) -> bool:
    return not hasattr(entry, "unit")


def _promise(entry: PrivateRows | PublicRows) -> str:
    """What answers hide of the people in a data set."""
    unit: Unit | None = getattr(entry, "unit", None)
    return _PUBLIC if unit is None else unit.sentence()
