from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.schema.constraints import OrderedColumns, UniqueKey
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.encode.identifiers import key_room
from sfumato.methods.synth.fitted_model import Conditional


def schema(*, nullable: bool = False) -> sf.Schema:
    return sf.Schema(
        "stays",
        (
            sf.Column("ward", sf.Kind.INTEGER, domain=sf.Bounds(0, 3), nullable=False),
            sf.Column("day", sf.Kind.INTEGER, domain=sf.Bounds(0, 499), nullable=nullable),
            sf.Column("end", sf.Kind.INTEGER, domain=sf.Bounds(0, 999), nullable=False),
        ),
        constraints=(UniqueKey(("ward", "day")), OrderedColumns(("day", "end"))),
    )


ROWS = pa.table({"ward": np.arange(60) % 4, "day": np.arange(60), "end": np.arange(60) + 900})


def synthesized(rows: int | None, epsilon: float = 5) -> pa.Table:
    with sf.read(ROWS, schema=schema()) as stays:
        private = sf.protect(stays, unit=sf.Rows(), epsilon=9)
        return private.synthesize(epsilon=epsilon, method="independent", rows=rows).table


def test_bins_count_by_their_points() -> None:
    assert key_room(Encoding(schema())) == 4 * 500


def test_missing_keys_may_repeat() -> None:
    assert key_room(Encoding(schema(nullable=True))) is None


@pytest.mark.parametrize("rows", [300, 1_900])
def test_a_key_that_nearly_fills_its_domain_does_not_repeat(rows: int) -> None:
    made = synthesized(rows).to_pandas()
    assert len(made) == rows
    assert not made.duplicated(["ward", "day"]).any()
    assert (made["day"] <= made["end"]).all()


def test_more_rows_than_keys_are_refused_before_the_charge() -> None:
    with sf.read(ROWS, schema=schema()) as stays:
        private = sf.protect(stays, unit=sf.Rows(), epsilon=9)
        with pytest.raises(sf.SfumatoError, match="2,000 different values") as refused:
            private.synthesize(epsilon=1, rows=2_001)
        assert refused.value.code == "parameter_out_of_range"
        model = private.synthesize(epsilon=1, method="independent", rows=10).model
    for rows in (2_001, 2**70):
        with pytest.raises(sf.SfumatoError, match="2,000 different values"):
            model.draw(rows)


def test_noise_that_leaves_nothing_possible_still_gives_rows() -> None:
    with sf.read(ROWS, schema=schema()) as stays:
        private = sf.protect(stays, unit=sf.Rows(), epsilon=9)
        model = private.synthesize(epsilon=1, method="independent").model
    late, early = (
        Conditional(place, (), np.eye(model.fitted.shape.sizes[place])[code])
        for place, code in ((1, -1), (2, 0))
    )
    impossible = (model.fitted.conditionals[0], late, early)
    made = replace(model, fitted=replace(model.fitted, conditionals=impossible)).draw(20)
    assert made.num_rows == 20
    assert (made.to_pandas()["day"] <= made.to_pandas()["end"]).all()
