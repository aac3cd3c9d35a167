"""Publishing a data set's statistics: the request from public facts, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from sfumato.axes import declared
from sfumato.errors import ParameterError
from sfumato.publish.boxes import to_codes
from sfumato.publish.kinds import prepare
from sfumato.publish.options import several
from sfumato.publish.request import Request
from sfumato.vault.gatekeeper import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from sfumato.privacy.price import Price
    from sfumato.privacy.units import Unit
    from sfumato.publish.publication import Publication
    from sfumato.schema.schema import Schema


def planned(
    kind: str,
    schema: Schema,
    unit: Unit,
    price: Price,
    *,
    columns: Sequence[str] | str,
    workload: ArrayLike | None = None,
    postprocess: Sequence[str] | str = (),
    options: Mapping[str, object],
) -> Publication:
    """Plan a publication of some columns from public facts alone."""
    names = several(columns, "columns")
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "columns_wrong", "Name at least one column to publish, and each only once."
        )
    axes = tuple(declared(schema.column(name)) for name in names)
    request = Request(
        dataset=schema.table,
        axes=axes,
        unit=unit,
        price=price,
        boxes=None if workload is None else to_codes(axes, workload),
        postprocess=several(postprocess, "postprocess") if postprocess else (),
    )
    return prepare(kind, request, options)


@dataclass(frozen=True)
class Published(Answer):
    """A publication that was paid for. Ranges are estimated from what was released alone."""

    publication: Publication = field(kw_only=True)

    def ranges(self, queries: ArrayLike) -> NDArray[np.float64]:
        """Estimate the rows within ranges, (queries, columns, 2), in values, ends included."""
        return self.publication.ranges(self.tables, queries)

    def ranges_stddev(self, queries: ArrayLike) -> NDArray[np.float64]:
        """The standard deviation that the noise gives each of these estimates."""
        return self.publication.ranges_stddev(queries)


def published(answer: Answer, publication: Publication) -> Published:
    """The answer of the gatekeeper to a publication, with the means to read it."""
    given = {one.name: getattr(answer, one.name) for one in fields(answer)}
    return Published(**given, publication=publication)
