"""Models are read from files of anybody's making, which must be refused in one plain line."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import LedgerError, SourceError
from sfumato.methods.synth import saved_model
from sfumato.methods.synth.synthesis_model import SynthesisModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("sex", sf.Kind.TEXT, domain=sf.Values(("F", "M"))),
        sf.Column("paid", sf.Kind.REAL, domain=sf.Bounds(0, 500, 50)),
        sf.Column("town", sf.Kind.TEXT),
    ),
)
PEOPLE = pa.table({"sex": ["F", "M"] * 50, "paid": [50.0] * 100, "town": ["Ulm"] * 100})


@pytest.fixture(scope="module")
def private() -> Iterator[sf.Private]:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        yield sf.protect(people, unit=sf.Rows(), epsilon=9, delta=1e-2)


@pytest.fixture(scope="module")
def made(private: sf.Private) -> SynthesisModel:
    return private.synthesize(epsilon=3, delta=1e-3, method="independent").model


def told(model: SynthesisModel) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(model.packed.schema.metadata[b"sfumato"])
    return header


def check_refused(path: Path, table: pa.Table | None = None) -> None:
    if table is not None:
        path.write_bytes(saved_model.to_file(table))
    with pytest.raises(SourceError) as caught:
        SynthesisModel.load(path)
    assert caught.value.code == "file_malformed"
    assert caught.value.exit_code == 2


def check_header_refused(path: Path, model: SynthesisModel, header: object) -> None:
    content = {b"sfumato": json.dumps(header).encode()}
    check_refused(path, model.packed.replace_schema_metadata(content))


def test_values_that_only_a_tree_names_are_kept() -> None:
    """What was paid for must be readable though the tree lies elsewhere."""
    tree = sf.Tree(("a", "b", "c"), (("ab", "*"), ("ab", "*"), ("c", "*")))
    schema = sf.Schema("people", (sf.Column("town", sf.Kind.TEXT, sf.Role.QUASI, hierarchy=tree),))
    rows = pa.table({"town": ["a", "b", "b", "c"] * 25})
    with closing(sf.read(rows, schema=schema)) as people:
        made = sf.protect(people, epsilon=9, delta=1e-2).synthesize(epsilon=3, delta=1e-3)
    # A value may be missing, so noise may say of some rows that it is.
    assert {*made.table["town"].to_pylist()} <= {"a", "b", "c", None}
    assert SynthesisModel.unpacked(made.model.packed).draw(10).num_rows == 10


def test_files_that_are_no_models(made: SynthesisModel, tmp_path: Path) -> None:
    check_refused(tmp_path / "absent")
    check_refused(tmp_path)
    (tmp_path / "text").write_text("no arrow")
    check_refused(tmp_path / "text")
    (tmp_path / "half").write_bytes(made.content[:-100])
    check_refused(tmp_path / "half")
    check_refused(tmp_path / "other", pa.table({"n": [1]}))


def test_no_schema_of_a_model_opens_a_file(made: SynthesisModel, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("F;all\nM;all\n")
    header = told(made)
    line = f"hierarchy = {{ file = '{tmp_path / 'mine.csv'}' }}"
    text = header["told"]["schema"].replace("[columns.sex]", f"[columns.sex]\n{line}")
    assert line in text
    check_header_refused(tmp_path / "m.arrow", made, header | {"told": {"schema": text}})
    readable = {**header["told"], "schema": text}
    check_header_refused(tmp_path / "m.arrow", made, header | {"told": readable})


@pytest.mark.parametrize(
    "changed",
    [{"found": {}}, {"found": {"town": ["Ulm", "Ulm"]}}, {"found": {"town": [1]}}, {"without": 5},
     {"most_bins": 2**62}, {"most_bins": None}, {"columns": {}}, {"without": ["paid"]}],
)  # fmt: skip
def test_plans_that_no_synthesis_makes(
    made: SynthesisModel, tmp_path: Path, changed: dict[str, Any]
) -> None:
    header = told(made)
    plan = {**header["told"]["encoding"], **changed}
    header["told"] = {**header["told"], "encoding": plan}
    check_header_refused(tmp_path / "m.arrow", made, header)


@pytest.mark.parametrize("schema", ["", "no toml [", 5, None, "table = 'x'\ncolumns = 3\n"])
def test_schemas_that_are_none(made: SynthesisModel, tmp_path: Path, schema: object) -> None:
    header = told(made)
    header["told"] = {**header["told"], "schema": schema}
    check_header_refused(tmp_path / "m.arrow", made, header)


def test_an_answer_of_another_version_has_the_ledgers_word(
    private: sf.Private, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"epsilon": 1, "delta": 1e-3, "method": "independent"}
    private.synthesize(**asked)
    monkeypatch.setattr(saved_model, "_VERSION", 9)
    with pytest.raises(LedgerError) as caught:
        private.synthesize(**asked)
    assert caught.value.code == "answer_unreadable"
