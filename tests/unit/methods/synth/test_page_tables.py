"""Drawn values are found among the codes that they were drawn by, beside what was measured."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.unit.methods.synth.test_fixed_values import PEOPLE, SCHEMA

import sfumato as sf
from sfumato.methods.synth.encode.decoder import RowDecoder
from sfumato.methods.synth.page import RowsOfModel
from sfumato.methods.synth.row_sampling import draw
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.methods.synth.synthesis_model import SynthesisModel


@pytest.fixture(scope="module")
def model() -> SynthesisModel:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        private = sf.protect(people, unit=sf.Rows(), epsilon=9)
        return private.synthesize(epsilon=9, workload=[["age", "smoker"], ["paid"]]).model


def test_codes_are_found_again(model: SynthesisModel) -> None:
    codes = draw(model.fitted, 500, SeededEntropy(1))
    rows = RowDecoder(model.encoding, SeededEntropy(2)).rows(codes)
    axes = model.encoding.axes
    for axis, drawn, found in zip(axes, codes, RowsOfModel.of(model, rows).codes, strict=True):
        expected = drawn
        if axis.column == "paid":  # NaN is drawn as missing
            expected = np.minimum(drawn, axis.size - 2)
        assert found.tolist() == expected.tolist(), axis.column


def test_shares_and_counts_are_of_what_was_measured_and_drawn(model: SynthesisModel) -> None:
    rows = model.draw(400)
    beside = RowsOfModel.of(model, rows)
    columns = {one.name: one for one in beside.columns()}
    for one in columns.values():
        assert one.drawn.sum() == pytest.approx(1)
        assert one.noisy.sum() == pytest.approx(1, abs=0.2)
        assert len(one.labels) == len(one.noisy) == len(one.drawn)
        assert one.stddev > 0
    assert columns["smoker"].labels == ("False", "True", "(missing)")
    assert columns["born"].dates
    assert columns["age"].starts[0] == 0
    assert columns["age"].starts[-1] == 111
    pairs = {one.columns: one for one in beside.pairs()}
    assert len(pairs) == 10
    measured = [names for names, one in pairs.items() if one.noisy is not None]
    assert measured == [("age", "smoker")]
    assert all(one.drawn.sum() == 400 for one in pairs.values())
