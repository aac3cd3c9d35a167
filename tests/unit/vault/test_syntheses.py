"""A synthesis by every door: one charge, rows in the table's form, a model to draw more from."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

import sfumato as sf
from sfumato.cli.main import run
from sfumato.data.schema.constraints import DeclaredRows, ImpossibleCombination
from sfumato.data.schema.layout import FileLayout
from sfumato.errors import BudgetError, OutputError, ParameterError, QueryError
from sfumato.methods.synth.methods import METHOD_WORDS
from sfumato.methods.synth.synthesis import METHODS
from sfumato.methods.synth.synthesis_model import SynthesisModel
from sfumato.release.writer import _Staged
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Iterator

N = 4000
SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("id", sf.Kind.INTEGER, sf.Role.IDENTIFIER, nullable=False),
        sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 99), nullable=False),
        sf.Column("sex", sf.Kind.TEXT, sf.Role.QUASI, sf.Values(("F", "M")), nullable=False),
        sf.Column("smoker", sf.Kind.BOOLEAN, nullable=False),
        sf.Column("town", sf.Kind.TEXT),
    ),
)
_AGES = np.arange(N) % 100
PEOPLE = pa.table(
    {
        "id": np.arange(N),
        "age": _AGES,
        "sex": np.where(np.arange(N) % 7 < 3, "F", "M"),
        "smoker": _AGES > 60,
        "town": np.where(_AGES > 60, "Rome", "Bonn"),
    }
)
FEW: dict[str, Any] = {"columns": ["age", "sex", "smoker"]}


@pytest.fixture
def private() -> Iterator[sf.Private]:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        yield sf.protect(people, unit=sf.Rows(), epsilon=9, delta=1e-5)


def test_help_has_words_for_every_method() -> None:
    assert list(METHOD_WORDS) == list(METHODS)


def test_rows_have_the_form_of_the_table_and_are_paid_for_once(private: sf.Private) -> None:
    before = private.remaining["rho"]
    made = private.synthesize(epsilon=3, delta=1e-6)
    after = private.remaining["rho"]
    assert made.table.schema.names == PEOPLE.column_names
    assert made.table.num_rows == pytest.approx(N, abs=100)
    assert set(made.table["town"].to_pylist()) <= {"Rome", "Bonn", "other", None}
    assert made.table["id"].to_pylist() == list(range(1, made.table.num_rows + 1))
    agree = pc.sum(pc.equal(made.table["smoker"], pc.equal(made.table["town"], "Rome"))).as_py()
    assert agree / made.table.num_rows > 0.9
    assert made.cost == {"epsilon": 3, "delta": pytest.approx(1e-6)}
    assert after < before
    again = private.synthesize(epsilon=3, delta=1e-6)
    assert again.table.equals(made.table)
    assert (again.charged, private.remaining["rho"]) == (False, after)


def test_another_request_is_another_charge(private: sf.Private) -> None:
    first = private.synthesize(epsilon=1, rows=50, **FEW)
    assert first.table.num_rows == 50
    assert private.synthesize(epsilon=1, rows=51, **FEW).charged
    with pytest.raises(BudgetError):
        private.synthesize(epsilon=9, method="mst", **FEW)


def test_more_rows_than_the_ledger_can_store_are_refused_before_the_charge(
    private: sf.Private,
) -> None:
    before = private.remaining
    for rows in (0, 1 << 24):  # of 25 bytes each: 3 columns, and one letter
        with pytest.raises(ParameterError, match="from 1 to 10,737,418") as refused:
            private.synthesize(epsilon=1, rows=rows, **FEW)
        assert refused.value.code == "parameter_out_of_range"
    assert private.remaining == before


def test_what_was_measured_and_how_far_off_it_is(private: sf.Private) -> None:
    made = private.synthesize(epsilon=2, target="smoker", **FEW)
    told = made.to_json([Path("x.csv")])
    assert told["method"] == "workload"
    assert told["measured"] == [["age", "smoker"], ["sex", "smoker"]]
    assert 0 < told["error"]["one_way"] < told["error"]["two_way"] < 0.2
    assert {"rows", "columns", "cost", "remaining", "receipt"} <= told.keys()
    alone = private.synthesize(epsilon=1, method="independent", **FEW)
    assert alone.to_json()["error"]["two_way"] is None


def test_a_target_is_weighed_by_methods_that_choose(private: sf.Private) -> None:
    made = private.synthesize(epsilon=2, target="smoker", method="mst", **FEW)
    told = made.to_json([Path("x.csv")])
    assert told["method"] == "mst"
    assert ["age"] in told["measured"]  # columns too: it is no workload
    assert private.synthesize(epsilon=2, method="mst", **FEW).charged  # another request
    with pytest.raises(ParameterError) as refused:
        private.synthesize(epsilon=2, target="name", method="mst", **FEW)
    assert refused.value.code == "column_unknown"


def test_adaptive_rounds_take_a_workload_and_a_tree_does_not(private: sf.Private) -> None:
    named = [["sex", "smoker"], ["age"]]
    made = private.synthesize(epsilon=2, workload=named, method="aim", **FEW)
    assert made.method == "aim"
    assert all(set(one) <= {"sex", "smoker"} for one in made.model.measured if len(one) > 1)
    assert private.synthesize(epsilon=2, method="aim", **FEW).charged  # another request
    both = private.synthesize(epsilon=1, workload=named, target="sex", method="aim", **FEW)
    assert both.charged
    with pytest.raises(ParameterError, match="or aim") as refused:
        private.synthesize(epsilon=2, workload=named, method="mst", **FEW)
    assert refused.value.code == "option_not_applicable"


def test_counts_have_bars_where_the_log_tells(private: sf.Private) -> None:
    made = private.synthesize(epsilon=2, target="smoker", **FEW)
    asked = "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people WHERE smoker GROUP BY sex"
    answer = made.query(asked)
    assert answer.column_names == ["sex", "n", "n_sd", "mean"]
    places = [made.model.fitted.shape.names.index(one) for one in ("sex", "smoker")]
    [noisy] = [one for one in made.model.log.tables if list(one.columns) == places]
    scale = made.table.num_rows / made.model.fitted.total
    told = {row["sex"]: row for row in answer.to_pylist()}
    for place, sex in enumerate(("F", "M")):
        away = told[sex]["n"] - scale * noisy.counts[place, 1]
        expected = hypot(scale * noisy.variance**0.5, away)
        assert told[sex]["n_sd"] == pytest.approx(expected)
    both = made.query("SELECT COUNT(*) AS n FROM people WHERE smoker AND sex >= 'F'")  # two cells
    away = told["F"]["n"] + told["M"]["n"] - scale * noisy.counts[:, 1].sum()
    expected = hypot(scale * (2 * noisy.variance) ** 0.5, away)
    assert both["n_sd"].to_pylist() == [pytest.approx(expected)]
    unknown = made.query("SELECT COUNT(*) AS n FROM people WHERE sex = 'F' AND age < 9")
    assert unknown["n_sd"].to_pylist() == [None]
    named = made.query("SELECT COUNT(*) AS n FROM People AS p WHERE p.sex = 'F'")
    assert named["n_sd"][0].as_py() > 0
    wrong_ones = ("DROP TABLE people", "SELECT 1 FROM others", "no sql (", "SELECT x FROM people")
    for wrong in wrong_ones:
        with pytest.raises(QueryError) as refused:
            made.query(wrong)
        assert refused.value.code == "question_not_supported"


def test_bars_hold_the_true_counts(private: sf.Private) -> None:
    made = private.synthesize(epsilon=5, workload=[["sex", "smoker"], ["age"]], **FEW)
    exact = PEOPLE.group_by(["sex", "smoker"]).aggregate([([], "count_all")]).to_pylist()
    known = {(one["sex"], one["smoker"]): one["count_all"] for one in exact}
    asked = "SELECT sex, smoker, COUNT(*) AS n FROM people GROUP BY sex, smoker"
    for row in made.query(asked).to_pylist():
        assert abs(row["n"] - known[row["sex"], row["smoker"]]) < 8 * row["n_sd"] + 3


def test_a_saved_model_draws_and_tells_the_noisy_tables(
    private: sf.Private, tmp_path: Path
) -> None:
    made = private.synthesize(epsilon=3, delta=1e-6, method="mst")
    made.save(tmp_path / "out.csv", model=tmp_path / "m.arrow", report=tmp_path / "page.html")
    model = SynthesisModel.load(tmp_path / "m.arrow")
    some = model.draw(40, given={"sex": "F", "age": 70})
    assert (some.num_rows, set(some["sex"].to_pylist())) == (40, {"F"})
    assert set(some["age"].to_pylist()) == {70}
    model.write(tmp_path / "many.parquet", 300_000)
    assert parquet.read_metadata(tmp_path / "many.parquet").num_rows == 300_000
    model.write(tmp_path / "few.csv", 5)
    assert (tmp_path / "few.csv").read_text().startswith("id,age,sex,smoker,town\n")
    noisy = model.marginal(["sex"])
    assert pc.sum(noisy["count"]).as_py() == pytest.approx(N, abs=200)
    assert noisy["count_sd"][0].as_py() > 0
    with closing(sf.read(tmp_path / "out.csv", schema=SCHEMA)) as again:
        assert again.schema.columns == SCHEMA.columns
    assert "<h1>Synthetic rows of people</h1>" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("fails_at", range(4))
def test_rows_page_and_model_appear_together_or_not_at_all(
    private: sf.Private, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    made = private.synthesize(epsilon=1, method="independent", rows=20, **FEW)
    (tmp_path / "m").mkdir()
    places: dict[str, Any] = {"model": tmp_path / "m" / "m.arrow", "report": tmp_path / "page.html"}
    appear, steps = _Staged.move_into_place, iter(range(9))

    def interrupted(one: _Staged, *, overwrite: bool) -> None:
        if next(steps) == fails_at:
            raise KeyboardInterrupt
        appear(one, overwrite=overwrite)

    monkeypatch.setattr(_Staged, "move_into_place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.save(tmp_path / "out.csv", **places)
    assert [one.name for one in tmp_path.rglob("*")] == ["m"]


def test_a_model_has_a_place_of_its_own(private: sf.Private, tmp_path: Path) -> None:
    made = private.synthesize(epsilon=1, method="independent", rows=20, **FEW)
    for model, report in [("out.csv", None), ("out.csv.json", None), ("page", "page")]:
        page = None if report is None else tmp_path / report
        with pytest.raises(OutputError) as refused:
            made.save(tmp_path / "out.csv", model=tmp_path / model, report=page)
        assert refused.value.code == "outputs_same"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("fixed", "code"),
    [({"sexx": "F"}, "column_unknown"), ({"sex": "X"}, "value_outside_domain"),
     ({"age": 100}, "value_outside_domain"), ({"age": None}, "value_outside_domain")],
)  # fmt: skip
def test_what_cannot_be_given_is_refused(
    private: sf.Private, fixed: dict[str, object], code: str
) -> None:
    model = private.synthesize(epsilon=1, method="independent", **FEW).model
    with pytest.raises(ParameterError) as refused:
        model.draw(3, given=fixed)
    assert refused.value.code == code


def test_constraints_hold_and_what_they_exclude_cannot_be_given() -> None:
    never = ImpossibleCombination((("sex", ("F",)), ("smoker", (True,))))
    declared = replace(SCHEMA, constraints=(never, DeclaredRows(700)))
    with closing(sf.read(PEOPLE, schema=declared)) as people:
        made = sf.protect(people, epsilon=9).synthesize(epsilon=1, **FEW)
    assert made.table.num_rows == 700
    women = made.table.filter(pc.equal(made.table["sex"], "F"))
    assert women.num_rows > 0
    assert not any(women["smoker"].to_pylist())
    with pytest.raises(ParameterError) as refused:
        made.model.draw(5, given={"sex": "F", "smoker": True})
    assert refused.value.code == "value_outside_domain"


def test_plans_tell_when_columns_alone_are_as_good(private: sf.Private) -> None:
    before = private.remaining
    plan = private.plan_synthesis(epsilon=0.02, **FEW)
    told = {one["rows"]: one for one in plan.to_json()["forecast"]}
    assert [told[rows]["suited"] for rows in (1_000, 1_000_000)] == ["independent", "aim"]
    for one in told.values():
        assert one["methods"]["independent"]["two_way"] is None
        alone = one["methods"]["independent"]["one_way"]
        assert all(alone <= other["one_way"] for other in one["methods"].values())
    assert "'independent' would be as good" in plan.text()
    assert private.remaining == before


def test_forecasts_meet_what_comes(private: sf.Private) -> None:
    plan = private.plan_synthesis(epsilon=1, workload=[["sex", "smoker"], ["age", "sex"]], **FEW)
    [told] = [one for one in plan.methods(N) if one.method == "workload"]
    made = private.synthesize(epsilon=1, workload=[["sex", "smoker"], ["age", "sex"]], **FEW)
    assert made.error is not None
    # A release knows more: tables that share a column tell about each other.
    assert made.error["two_way"] == pytest.approx(told.two_way, rel=0.3)
    assert made.error["one_way"] == pytest.approx(told.one_way, rel=0.3)


def test_the_command_writes_rows_model_and_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(PEOPLE, "people.parquet")
    SCHEMA.save("people.toml")
    create(Path("clinic"))
    registration = Registration(
        name="people", source="people.parquet", schema=Path("people.toml"), epsilon=3
    )
    registration.add_to(Path("clinic"))
    Path("sets.txt").write_text("age,sex\nsex,smoker\n")
    words = ["synthesize", "people", "--epsilon", "1", "--vault", "clinic", "--json"]
    words += ["--columns", "age,sex,smoker", "--workload", "sets.txt", "--rows", "100"]
    capsys.readouterr()
    assert run([*words, "--plan"]) == 0
    assert {"forecast", "cost"} <= json.loads(capsys.readouterr().out).keys()
    assert run([*words, "-o", "out.csv", "--model", "m.arrow", "--report", "page.html"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["columns"]) == (100, ["age", "sex", "smoker"])
    assert told["measured"] == [["age", "sex"], ["sex", "smoker"]]
    assert told["cost"] == {"epsilon": 1.0, "charged": True}
    assert {one.name for one in map(Path, told["written"])} >= {"out.csv", "m.arrow", "page.html"}
    assert SynthesisModel.load("m.arrow").draw(5).num_rows == 5
    with sf.open("clinic") as vault:
        stored = vault.synthesize("people", epsilon=1, rows=100, workload="sets.txt", **FEW)
    assert not stored.charged


def test_the_unit_of_the_vault_counts_also_for_what_is_discovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = {"id": [0] * 600 + list(range(1, 601)), "town": ["Alone"] * 600 + ["Rome"] * 600}
    parquet.write_table(pa.table(rows), "visits.parquet")
    columns = (sf.Column("id", sf.Kind.INTEGER, nullable=False), sf.Column("town", sf.Kind.TEXT))
    sf.Schema("visits", columns).save("visits.toml")  # says that each row is a person
    create(Path("clinic"))
    declared: dict[str, Any] = {"source": "visits.parquet", "schema": Path("visits.toml")}
    declared |= {"unit": "id", "max_rows": 1, "max_groups": 1, "epsilon": 9, "delta": 1e-5}
    Registration(name="visits", **declared).add_to(Path("clinic"))
    with sf.open("clinic") as vault:
        made = vault.synthesize("visits", epsilon=5, delta=1e-6, method="independent")
    assert made.model.encoding.discovered_values == {"town": ("Rome",)}


def test_a_table_of_no_rows_and_of_noise(private: sf.Private) -> None:
    model = private.synthesize(epsilon=1, method="independent", **FEW).model
    assert model.draw(0).schema.names == ["age", "sex", "smoker"]
    assert model.draw(0).num_rows == 0
    with pytest.raises(ParameterError):
        model.draw(-1)


def test_a_person_with_many_rows_is_bounded() -> None:
    unit = sf.Entity("id", max_rows=2)
    table = PEOPLE.set_column(0, "id", pa.array(np.arange(N) // 40))
    with closing(sf.read(table, schema=SCHEMA)) as people:
        private = sf.protect(people, unit=unit, epsilon=9)
        made = private.synthesize(epsilon=9, method="independent", columns=["id", "sex", "smoker"])
    assert made.table.num_rows == pytest.approx(2 * N / 40, abs=40)


@pytest.mark.parametrize(("encoding", "separator"), [("windows-1252", ";"), (None, "\t")])
def test_files_are_written_as_the_schema_declares(
    tmp_path: Path, encoding: str | None, separator: str
) -> None:
    towns = sf.Column("città", sf.Kind.TEXT, domain=sf.Values(("Forlì", "Bra; Alba")))
    layout = FileLayout(encoding=encoding, separator=separator)
    schema = sf.Schema("people", (towns, sf.Column("known", sf.Kind.BOOLEAN)), layout=layout)
    rows: dict[str, list[Any]] = {"città": ["Forlì", None] * 20, "known": [True, False] * 20}
    with closing(sf.read(rows, schema)) as people:
        made = sf.protect(people, unit=sf.Rows(), epsilon=9).synthesize(epsilon=3)
    made.save(tmp_path / "rows.csv")
    made.model.write(tmp_path / "more.csv", 50)
    for name, many in (("rows.csv", made.table.num_rows), ("more.csv", 50)):
        with closing(sf.read(tmp_path / name, schema)) as table:
            assert table.inspect().rows == many
    saved = sf.Release.load(tmp_path / "rows.csv")
    assert saved.table.equals(made.table)


def test_what_is_paid_for_is_written_though_its_encoding_lacks_a_letter(tmp_path: Path) -> None:
    """In Python no file is named before the charge; its side-car says that it is UTF-8."""
    towns = sf.Column("town", sf.Kind.TEXT, domain=sf.Values(("Łódź", "Kraków")), nullable=False)
    schema = sf.Schema("homes", (towns,), layout=FileLayout("windows-1252", ";"))
    private = sf.protect(pa.table({"town": ["Łódź"] * 500}), schema, epsilon=9)
    made = private.synthesize(epsilon=9)
    made.save(tmp_path / "out.csv")
    assert "Łódź" in (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert sf.Release.load(tmp_path / "out.csv").table.equals(made.table)
    judged = sf.evaluate(tmp_path / "out.csv", sf.read(made.table, schema=schema))
    assert judged.json()["tvd"]["1"] == 0


def test_a_column_of_which_nothing_was_discovered_is_told() -> None:
    schema = sf.Schema("notes", tuple(sf.Column(one, sf.Kind.TEXT) for one in ("ward", "note")))
    rows = pa.table({"ward": ["eye"] * 2000, "note": [f"note {one}" for one in range(2000)]})
    private = sf.protect(rows, schema, epsilon=9, delta=1e-5)
    made = private.synthesize(epsilon=2, delta=1e-6, method="independent")
    [said] = [one for one in made.in_short if "discovered" in one]
    assert said.startswith("Of note no value was frequent enough")
    assert set(made.table["note"].to_pylist()) <= {"other", None}


@pytest.mark.parametrize("empty", ["", "\n\n", None])
def test_a_workload_that_names_nothing_is_refused(
    private: sf.Private, tmp_path: Path, empty: str | None
) -> None:
    named: Any = []
    if empty is not None:
        named = tmp_path / "sets.txt"
        named.write_text(empty)
    with pytest.raises(ParameterError) as refused:
        private.synthesize(epsilon=1, workload=named, **FEW)
    assert refused.value.code == "parameter_missing"


def test_what_would_be_left_is_told_before_it_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A question with a delta takes more of what epsilon is left than its own epsilon."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("c\ntrue\nfalse\n")
    Path("t.toml").write_text('table = "t"\n[columns.c]\nkind = "boolean"\nnullable = false\n')
    create(Path("vault"))
    Registration(name="t", source="t.csv", schema=Path("t.toml"), epsilon=9, delta="1e-3").add_to(
        Path("vault")
    )
    for words in (
        ["query", "SELECT COUNT(*) AS n FROM t", "--explain"],
        ["publish", "histogram", "t", "--columns", "c", "--explain"],
        ["synthesize", "t", "--plan"],
    ):
        price = ["--epsilon", "1", "--delta", "1e-5", "--vault", "vault"]
        assert run([*words, *price, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["remaining_after"]
        assert run([*words, *price]) == 0
        *_, last = capsys.readouterr().out.splitlines()
        assert last.startswith(f"Once charged: epsilon {format(told['epsilon'], 'g')[:4]}")
    assert run([*words, "--epsilon", "10", "--vault", "vault"]) == 0
    assert "it is too much: there is epsilon 9 of 9 left" in capsys.readouterr().out
    with sf.open("vault") as vault:
        made = vault.synthesize("t", epsilon=1, delta="1e-5")
        assert made.remaining["epsilon"] == told["epsilon"]
