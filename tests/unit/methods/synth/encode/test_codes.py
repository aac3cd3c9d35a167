"""Values become the codes that they were decoded from."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.axes import Grid
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.methods.synth.encode.axes import codes_of
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.data.counting.axes import Axis

COLUMNS = (
    Column("few", Kind.INTEGER, domain=Bounds(-3, 9, 3)),
    Column("odd", Kind.INTEGER, domain=Bounds(-7 * 2**59, 7 * 2**59, 7), nullable=False),
    Column("dose", Kind.REAL, domain=Bounds(Decimal("-0.3"), Decimal("99.7"))),
    Column("grade", Kind.REAL, domain=Bounds(Decimal("0.5"), Decimal(5), Decimal("0.5"))),
    Column("level", Kind.REAL, domain=Values((Decimal("0.5"), Decimal(2)))),
    Column("day", Kind.DATE, domain=Bounds(date(1950, 12, 30), date(2003, 1, 3), 11)),
    Column("sex", Kind.TEXT, domain=Values(("F", "M"))),
    Column("smoker", Kind.BOOLEAN),
    Column("town", Kind.TEXT),
)
ENCODING = Encoding(Schema("t", COLUMNS)).discovered({"town": ("Ulm", "other")})


@pytest.mark.parametrize("axis", ENCODING.axes, ids=lambda axis: axis.column)
def test_every_code_comes_back(axis: Axis) -> None:
    codes = np.arange(axis.size)
    if isinstance(axis, Grid):
        codes = np.minimum(codes, axis.points)  # NaN is drawn as missing
    for seed in range(3):
        values = ENCODING.values(axis, codes, SeededEntropy(seed))
        assert codes_of(axis, pa.chunked_array([values])).tolist() == codes.tolist()
