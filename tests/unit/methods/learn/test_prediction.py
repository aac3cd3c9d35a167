"""What a model says of a table's rows, and files that are no models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.data.schema.column import Kind
from sfumato.errors import OutputError, ParameterError, SourceError
from sfumato.methods.learn.model import load_model, predict_table, write_predictions

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.methods.learn.model import Model

COLUMNS = (
    sf.Column("age", Kind.INTEGER, domain=sf.Bounds(0, 99), nullable=False),
    sf.Column("old", Kind.TEXT, domain=sf.Values(("no", "yes")), nullable=False),
)


def learnt(kind: str, target: str | None) -> Model:
    rows = [{"age": one % 100, "old": "yes" if one % 100 > 49 else "no"} for one in range(2000)]
    private = sf.protect(rows, sf.Schema("people", COLUMNS), epsilon=10)
    return private.learn(kind, features=["age"], target=target, epsilon=10).model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learnt("naive-bayes", "old").save(tmp_path_factory.mktemp("learnt") / "model.json")


def test_rows_are_told_beside_what_the_table_has(model: Path, tmp_path: Path) -> None:
    asked, out = tmp_path / "asked.csv", tmp_path / "told.csv"
    asked.write_text("name,age\nann,5\nben,95\n")
    told = write_predictions(model, str(asked), out, overwrite=False)
    assert told.column("name").to_pylist() == ["ann", "ben"]
    first = told.column_names[2]
    assert told.column(first).to_pylist() == ["no", "yes"]
    assert out.read_text().splitlines()[0].startswith(f"name,age,{first}")


def test_a_name_that_tells_no_format_is_refused_before_rows_are_read(
    model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "zz.pdf"
    with pytest.raises(OutputError) as refused:
        write_predictions(model, str(tmp_path / "absent.csv"), out, overwrite=False)
    assert refused.value.code == "format_unknown"
    assert not out.exists()


def test_a_column_that_the_model_would_write_is_refused(model: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.csv"
    asked.write_text("age\n5\n")
    name = predict_table(model, str(asked)).column_names[1]
    asked.write_text(f"age,{name}\n5,x\n")
    with pytest.raises(ParameterError) as refused:
        predict_table(model, str(asked))
    assert refused.value.code == "name_taken"


def test_what_is_no_model_is_refused(model: Path, tmp_path: Path) -> None:
    told = json.loads(model.read_text())
    spoilt = [
        "no JSON",
        "[]",
        json.dumps({**told, "kind": "oracle"}),
        json.dumps({**told, "version": -1}),
        json.dumps({**told, "tables": {}}),
        json.dumps({**told, "facts": {}}),
    ]
    for number, text in enumerate(spoilt):
        file = tmp_path / f"{number}.json"
        file.write_text(text)
        with pytest.raises(SourceError) as refused:
            load_model(file)
        assert refused.value.code == "file_malformed"


def test_what_tells_nothing_has_no_score() -> None:
    with pytest.raises(ParameterError) as refused:
        learnt("kmeans", None).score([[5.0]], [0])
    assert refused.value.code == "option_not_applicable"
