"""Anyone's synthetic table: whatever its form, it is compared as far as it can be, and told of."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("id", sf.Kind.INTEGER, sf.Role.IDENTIFIER),
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 99), nullable=False),
        sf.Column("sex", sf.Kind.TEXT, domain=sf.Values(("F", "M"))),
        sf.Column("weight", sf.Kind.REAL, domain=sf.Bounds(Decimal(0), Decimal(200))),
        sf.Column("born", sf.Kind.DATE, domain=sf.Bounds(date(1900, 1, 1), date(2026, 1, 1))),
        sf.Column("smoker", sf.Kind.BOOLEAN),
    ),
)
ROWS = 60
PEOPLE = pa.table(
    {
        "id": range(ROWS),
        "age": [20 + one % 30 for one in range(ROWS)],
        "sex": ["FM"[one % 2] for one in range(ROWS)],
        "weight": [50.0 + one for one in range(ROWS)],
        "born": [date(1980, 1, 1 + one % 28) for one in range(ROWS)],
        "smoker": [one % 3 == 0 for one in range(ROWS)],
    }
)


@pytest.fixture
def people() -> sf.Table:
    return sf.read(PEOPLE, SCHEMA)


def written(folder: Path, frame: pd.DataFrame, **how: object) -> Path:
    frame.to_csv(folder / "made.csv", index=False, **how)
    return folder / "made.csv"


def test_a_csv_in_another_order_with_more_and_fewer_columns(
    people: sf.Table, tmp_path: Path
) -> None:
    frame = PEOPLE.to_pandas().drop(columns=["id", "smoker"])
    frame = frame[["weight", "age", "born", "sex"]].assign(extra=1)
    found = sf.evaluate(written(tmp_path, frame, sep=";"), people)
    assert [one.name for one in found.columns] == ["age", "sex", "weight", "born"]
    assert found.tvd(3) == 0
    told = " ".join(found.remarks)
    assert "lacks the column smoker" in told
    assert "has the column extra" in told
    assert "another order" in told
    assert "identify people: id." in told


def test_odd_cells_are_counted_and_stop_nothing(people: sf.Table, tmp_path: Path) -> None:
    frame = PEOPLE.to_pandas().astype({"age": object, "born": object, "sex": object})
    frame.loc[0, "age"], frame.loc[1, "age"] = "young", None
    frame.loc[2, "born"], frame.loc[3, "sex"], frame.loc[4, "age"] = "2020-13-45", "X", 120
    found = sf.evaluate(written(tmp_path, frame), people)
    by_name = {one.name: one for one in found.columns}
    assert (by_name["age"].malformed, by_name["age"].gaps, by_name["age"].outside) == (1, 1, 1)
    assert by_name["born"].malformed == 1
    assert by_name["sex"].outside == 1
    assert any(one.startswith("age: 1 cell not of its kind") for one in found.remarks)


def test_whole_numbers_written_with_a_fraction_are_whole(people: sf.Table, tmp_path: Path) -> None:
    frame = PEOPLE.to_pandas().astype({"age": float})
    found = sf.evaluate(written(tmp_path, frame), people)
    assert found.tvd(1) == 0
    assert found.columns[0].malformed == 0


def test_a_column_of_another_kind_is_left_out_and_told(people: sf.Table) -> None:
    frame = PEOPLE.to_pandas().astype({"smoker": int})
    found = sf.evaluate(frame, people)
    assert "smoker" not in [one.name for one in found.columns]
    assert any("smoker holds integer where boolean is declared" in one for one in found.remarks)


def test_numbers_written_as_the_original_or_as_usual_are_both_read(tmp_path: Path) -> None:
    schema_file = tmp_path / "people.toml"
    schema_file.write_text(
        'table = "p"\n[columns.w]\nkind = "real"\nbounds = [0, 10]\ndecimal = ","\n'
        '[columns.n]\nkind = "integer"\nbounds = [0, 10]\n'
    )
    (tmp_path / "people.csv").write_text("w;n\n1,5;1\n2,5;2\n")
    for words in ("w;n\n1,5;1\n2,5;2\n", "w,n\n1.5,1\n2.5,2\n"):
        (tmp_path / "made.csv").write_text(words)
        found = sf.evaluate(tmp_path / "made.csv", tmp_path / "people.csv", schema_file)
        assert found.tvd(2) == 0
        assert not any(one.malformed for one in found.columns)


def test_nothing_in_common_is_refused(people: sf.Table) -> None:
    with pytest.raises(SchemaError) as refused:
        sf.evaluate(pa.table({"Age": [1]}), people)
    assert refused.value.code == "comparison_impossible"
    assert refused.value.message.startswith("The synthetic table has the column Age, and none of ")
    assert ": 5 columns: age, sex, weight, born, smoker. " in refused.value.message
    with pytest.raises(SchemaError) as refused:
        sf.evaluate(pa.table({"smoker": [1.5]}), people)
    assert refused.value.code == "comparison_impossible"
    lone = sf.Schema("p", SCHEMA.columns[:1])
    with pytest.raises(SchemaError) as refused:
        sf.evaluate(PEOPLE, PEOPLE, lone)
    assert refused.value.code == "comparison_impossible"


def test_two_schemas_are_one_too_many(people: sf.Table) -> None:
    with pytest.raises(ParameterError) as refused:
        sf.evaluate(PEOPLE, people, SCHEMA)
    assert refused.value.code == "options_conflict"
    assert "schema=" in refused.value.message


def test_tables_of_ours_and_guessed_schemas_are_taken(people: sf.Table) -> None:
    assert sf.evaluate(people, people).tvd(1) == 0
    with sf.read(PEOPLE.drop_columns(["id"])) as guessed:
        assert sf.evaluate(PEOPLE, guessed).tvd(1) == 0


def test_it_shows_itself_and_writes_its_page_for_the_owner(
    people: sf.Table, tmp_path: Path
) -> None:
    found = sf.evaluate(PEOPLE, people)
    assert repr(found).startswith("<Evaluation: 60 synthetic rows against 60")
    assert "computed from the original" in (found._repr_html_() or "")
    target = tmp_path / "page.html"
    found.report(target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert "For the owner only: computed from the original" in target.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]
