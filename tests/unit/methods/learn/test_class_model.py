"""Models of classes whatever is given: never a crash, never a number without an end."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.class_learning import AGE, ILL, learnt, planned, spread, table

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.errors import SourceError
from sfumato.methods.learn.model import load_model
from sfumato.text import dumps

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.methods.learn.model import Model

KINDS = ["naive-bayes", "tree", "forest"]
OPTIONS: dict[str, dict[str, Any]] = {
    "naive-bayes": {},
    "tree": {"bins": 4},
    "forest": {"trees": 2},
}
MISSING = [(one, *[None] * 5, "yes", 1) for one in range(20)]
WIDE = tuple(
    Column(f"f{place}", Kind.REAL, domain=Bounds(Decimal(-1), Decimal(1))) for place in range(60)
)


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    made = {kind: learnt(planned(kind, **OPTIONS[kind]), table(spread(80))) for kind in KINDS}
    return {kind: dumps(model.to_json()) for kind, model in made.items()}


def sound(model: Model, rows: pa.Table) -> None:
    chances = model.predict_proba(rows)  # type: ignore[attr-defined]
    assert np.isfinite(chances).all()
    assert chances.sum(axis=1) == pytest.approx(np.ones(rows.num_rows))
    assert len(model.predict(rows)) == rows.num_rows
    for one in model.tables.values():
        assert all(column.null_count == 0 for column in one.columns)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rows", [[], MISSING, spread(1), [(*row[:6], "no", 1) for row in spread(9)]]
)
def test_any_rows_make_a_model(kind: str, rows: list[Any]) -> None:
    """No rows, nothing but missing cells, one row, one class."""
    model = learnt(planned(kind, **OPTIONS[kind], rows=50), table(rows))
    sound(model, table(spread(20)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", ["1e-6", "1e6"])
def test_any_price_makes_a_model(kind: str, epsilon: str) -> None:
    cost = {"epsilon": epsilon, "maximum": Decimal("1e6")}
    sound(learnt(planned(kind, **OPTIONS[kind], cost=cost), table(spread(60))), table(spread(20)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [None, 1, 10**12])
def test_any_number_of_declared_rows_makes_a_model(kind: str, rows: int | None) -> None:
    sound(
        learnt(planned(kind, **OPTIONS[kind], features=(AGE,), rows=rows), table(spread(9))),
        table(spread(9)),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_constant_columns_and_one_class_make_a_model(kind: str) -> None:
    still = Column("age", Kind.INTEGER, domain=Bounds(5, 5))
    only = replace(ILL, domain=Values(("yes",)))
    sound(
        learnt(planned(kind, **OPTIONS[kind], features=(still,), target=only), table(spread(9))),
        table(spread(9)),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_sixty_features_make_a_model(kind: str) -> None:
    held = {one.name: np.linspace(-2, 2, 30) for one in WIDE}
    rows = pa.table({**held, "ill": ["yes", "no", "maybe"] * 10})
    depth: dict[str, Any] = {"depth": 1} if kind == "tree" else {}
    sound(learnt(planned(kind, **OPTIONS[kind], **depth, features=WIDE), rows), rows)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_released_has_the_same_shape_on_any_rows(kind: str) -> None:
    def shape(rows: list[Any]) -> dict[str, Any]:
        model = learnt(planned(kind, **OPTIONS[kind]), table(rows))
        return {
            name: (one.schema, [one.column(key) for key in ("tree", "leaf", "bin", "class")
                                if key in one.column_names])
            for name, one in model.tables.items()
        }  # fmt: skip

    assert shape([]) == shape(spread(50)) == shape(MISSING)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_saved_without_data_and_read_again(kind: str, tmp_path: Path) -> None:
    model, held = learnt(planned(kind, **OPTIONS[kind]), table(spread(80))), table(spread(30))
    again = load_model(model.save(tmp_path / "model.json"))
    assert (again.predict(held) == model.predict(held)).all()
    assert kind in repr(again)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda told: told["facts"].pop("classes"),
        lambda told: told["facts"]["sizes"].pop(),
        lambda told: told["facts"].update(sizes=[10**9] * 5),
        lambda told: next(iter(told["tables"].values())).pop("feature"),
        lambda told: [one["count"]["values"].append(1.0) for one in told["tables"].values()
                      if "count" in one],
        lambda told: [one["count"]["values"].__setitem__(0, float("nan"))
                      for one in told["tables"].values() if "count" in one],
        lambda told: told["facts"].update(sd=float("nan")),
    ],
)  # fmt: skip
def test_a_file_that_was_changed_is_refused(
    kind: str, spoil: Any, tmp_path: Path, written: dict[str, str]
) -> None:
    told = json.loads(written[kind])
    spoil(told)
    path = tmp_path / "model.json"
    path.write_text(dumps(told))
    with pytest.raises(SourceError, match="not a model"):
        load_model(path)
