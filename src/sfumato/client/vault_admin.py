"""What an owner does to a vault behind a server itself: its data sets, budgets and ledger."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from sfumato.client.admin import amount, reading
from sfumato.client.wire import jsonable
from sfumato.data.schema.json_form import schema_to_json
from sfumato.vault.registration import declared_of, loaded

if TYPE_CHECKING:
    from sfumato.client.admin import Office


def add_there(office: Office, name: str, source: object, schema: object, **asked: Any) -> None:
    """Have a data set added; the schema is what is declared here, the source lies there."""
    place, declared, unit = declared_of(name, source, schema, asked.pop("unit"))
    amounts = {one: amount(asked.pop(one), one) for one in ("epsilon", "delta")}
    told = {
        "name": name,
        "source": place,
        "schema": schema_to_json(loaded(declared)),
        "unit": unit,
        **amounts,
        **{one: jsonable(value, one) for one, value in asked.items()},
    }
    for one in ("delta", "public", "unique"):  # which are nothing unless they are said
        if not told[one]:
            del told[one]
    with reading("what was added"):
        for line in office.once("datasets", told)["warnings"]:
            warnings.warn(str(line), stacklevel=4)
