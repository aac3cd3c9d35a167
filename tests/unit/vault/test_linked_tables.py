"""A parent and a child table by every door: one charge, keys that hold, children like parents."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato as sf
from sfumato.cli.main import run
from sfumato.data.schema.constraints import OrderedColumns, UniqueKey
from sfumato.data.schema.layout import FileLayout
from sfumato.errors import SfumatoError
from sfumato.methods.synth.linked_request import LinkedRequest
from sfumato.vault.families import FAMILIES
from sfumato.vault.syntheses import LinkedTwins

if TYPE_CHECKING:
    from collections.abc import Iterator

N, MOST = 6000, 4
KEY = sf.Column("patient", sf.Kind.INTEGER, sf.Role.IDENTIFIER, nullable=False)
SEX = sf.Column("sex", sf.Kind.TEXT, domain=sf.Values(("F", "M")), nullable=False)
PATIENTS = sf.Schema(
    "patients",
    (KEY, SEX, sf.Column("smoker", sf.Kind.BOOLEAN), sf.Column("town", sf.Kind.TEXT)),
    sf.Entity("patient", 1),
)
VISITS = sf.Schema(
    "visits",
    (
        sf.Column("visit", sf.Kind.TEXT, sf.Role.IDENTIFIER, length=6, nullable=False),
        KEY,
        sf.Column("ward", sf.Kind.TEXT, domain=sf.Values(("eye", "lung")), nullable=False),
        sf.Column("came", sf.Kind.INTEGER, domain=sf.Bounds(1, 12), nullable=False),
        sf.Column("left", sf.Kind.INTEGER, domain=sf.Bounds(1, 12), nullable=False),
    ),
    sf.Entity("patient", MOST),
    constraints=(OrderedColumns(("came", "left")), UniqueKey(("patient", "came"))),
)
LINK: dict[str, Any] = {"child": "visits", "key": "patient"}
PAID: dict[str, Any] = {"epsilon": 6, "delta": 1e-6, "method": "mst"}


def tables(*, orphans: int = 0) -> tuple[pa.Table, pa.Table]:
    """Smokers have three visits, mostly to the lung ward; others have one or none."""
    who = np.arange(N)
    smoker = who % 3 == 0
    parents = pa.table(
        {
            "patient": who + 500,
            "sex": np.where(who % 2 == 0, "F", "M"),
            "smoker": smoker,
            "town": np.where(who % 5 == 0, "Ulm", "Bonn"),
        }
    )
    owner = np.repeat(who, np.where(smoker, 3, who % 2))
    place = np.arange(len(owner))
    came = 1 + place % 9
    children = pa.table(
        {
            "visit": [f"{one:06}" for one in place],
            "patient": owner + 500,
            "ward": np.where(smoker[owner] & (place % 10 > 0), "lung", "eye"),
            "came": came,
            "left": came + place % 4,
        }
    )
    strays = children.slice(0, orphans).set_column(
        1, "patient", pa.array(np.arange(9**9, 9**9 + orphans))
    )
    return parents, pa.concat_tables([children, strays])


def opened(
    folder: Path, parents: pa.Table, children: pa.Table, visits: sf.Schema = VISITS
) -> sf.Vault:
    vault = sf.init(folder / "clinic")
    for name, table, schema in (("patients", parents, PATIENTS), ("visits", children, visits)):
        parquet.write_table(table, folder / f"{name}.parquet")
        schema.save(folder / f"{name}.toml")
    budget: dict[str, Any] = {"epsilon": 10, "delta": 1e-4}
    vault.add("patients", folder / "patients.parquet", folder / "patients.toml", **budget)
    vault.add("visits", folder / "visits.parquet", folder / "visits.toml", population="patients")
    return vault


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Vault]:
    with opened(tmp_path_factory.mktemp("linked"), *tables(orphans=300)) as made:
        yield made


@pytest.fixture(scope="module")
def twins(vault: sf.Vault) -> LinkedTwins:
    made = vault.synthesize("patients", **LINK, **PAID)
    assert isinstance(made, LinkedTwins)
    return made


def numbers(made: dict[str, pa.Table] | Any) -> np.ndarray:
    """How many children each parent has."""
    keys = np.asarray(made["patients"]["patient"])
    own = np.asarray(made["visits"]["patient"])
    assert len(set(keys)) == len(keys)
    assert set(own) <= set(keys)
    places = {key: place for place, key in enumerate(keys)}
    return np.bincount([places[one] for one in own], minlength=len(keys))


def test_two_tables_with_keys_that_hold(twins: LinkedTwins) -> None:
    assert list(twins.tables) == ["patients", "visits"]
    parents, children = twins.tables.values()
    assert parents.column_names == [one.name for one in PATIENTS.columns]
    assert children.column_names == [one.name for one in VISITS.columns]
    assert parents.num_rows == pytest.approx(N, abs=150)
    counts = numbers(twins.tables)
    smoker = np.array([bool(one) for one in parents["smoker"].to_pylist()])
    assert counts.max() <= MOST
    assert counts[smoker].mean() == pytest.approx(3, abs=0.2)
    assert counts[~smoker].mean() == pytest.approx(0.5, abs=0.2)
    assert (counts == 0).sum() > N / 4  # parents without children


def test_children_are_like_their_parents(twins: LinkedTwins) -> None:
    parents, children = twins.tables.values()
    smokes = dict(zip(parents["patient"].to_pylist(), parents["smoker"].to_pylist(), strict=True))
    lung = [one["ward"] == "lung" for one in children.to_pylist()]
    smoker = np.array([bool(smokes[one]) for one in children["patient"].to_pylist()])
    assert np.mean(np.array(lung)[smoker]) == pytest.approx(0.9, abs=0.1)
    assert np.mean(np.array(lung)[~smoker]) < 0.15


def test_constraints_of_the_child_hold(twins: LinkedTwins) -> None:
    rows = twins.tables["visits"].to_pylist()
    assert all(one["came"] <= one["left"] for one in rows)
    assert len({(one["patient"], one["came"]) for one in rows}) == len(rows)
    assert len({one["visit"] for one in rows}) == len(rows)


def test_one_charge_pays_for_both_tables(vault: sf.Vault, twins: LinkedTwins) -> None:
    assert twins.cost == {"epsilon": 6, "delta": pytest.approx(1e-6)}
    before = vault.accounts()
    again = vault.private("patients").synthesize(**LINK, **PAID)
    assert not again.charged
    assert again.tables["visits"].equals(twins.tables["visits"])
    assert vault.accounts() == before
    alone = vault.synthesize("patients", epsilon=1, method="independent", delta=1e-7)
    assert alone.charged  # without a child it is another request
    assert "1 row of 'patients' and at most 4 rows of 'visits'" in twins.guarantee.statement
    assert "and 1 more tables" in repr(twins)


def test_both_files_read_back_with_their_schemas(twins: LinkedTwins, tmp_path: Path) -> None:
    written = twins.save(tmp_path / "out.csv", report=tmp_path / "page.html",
                         model=tmp_path / "m.arrow")  # fmt: skip
    assert {one.name for one in written} == {
        "patients.csv", "visits.csv", "release.json", "m.arrow"
    }  # fmt: skip
    for schema in (PATIENTS, VISITS):
        with closing(sf.read(tmp_path / "out" / f"{schema.table}.csv", schema=schema)) as back:
            assert back.schema.columns == schema.columns
    page = (tmp_path / "page.html").read_text()
    assert "<h1>Synthetic rows of patients" in page
    for name in ("visits", "ward", "patients.smoker"):  # the number of visits among them
        assert f"{name}: share of rows, measured and drawn" in page
    again = sf.Release.load(tmp_path / "out")
    assert again.tables["visits"].num_rows == twins.tables["visits"].num_rows
    model = sf.SynthesisModel.load_linked(tmp_path / "m.arrow")
    drawn = model.draw(50)
    assert drawn["patients"].num_rows == 50
    numbers(drawn)
    with pytest.raises(SfumatoError) as refused:
        sf.SynthesisModel.load_linked(tmp_path / "page.html")
    assert refused.value.code == "file_malformed"


def test_models_of_one_and_of_two_tables_are_told_apart(twins: LinkedTwins, tmp_path: Path) -> None:
    twins.linked.save(tmp_path / "two.arrow")
    twins.model.save(tmp_path / "one.arrow")
    assert sf.SynthesisModel.load_linked(tmp_path / "two.arrow").draw(5)["patients"].num_rows == 5
    for load, name, way in (
        (sf.SynthesisModel.load, "two", r"SynthesisModel\.load_linked\."),
        (sf.SynthesisModel.load_linked, "one", r"SynthesisModel\.load\."),
    ):
        with pytest.raises(SfumatoError, match=way) as refused:
            load(tmp_path / f"{name}.arrow")
        assert refused.value.code == "file_malformed"


def test_more_parents_than_memory_holds_are_refused(twins: LinkedTwins) -> None:
    with pytest.raises(SfumatoError) as refused:
        twins.linked.draw(10**13)
    assert refused.value.code == "parameter_out_of_range"


def test_a_target_matters_more_in_the_model_that_has_it(vault: sf.Vault) -> None:
    def asked(method: str, target: str) -> LinkedRequest:
        made = vault.private("patients").prepare(
            FAMILIES["synthesize"], **LINK, epsilon=1, delta=1e-7, method=method, target=target
        )
        assert isinstance(made, LinkedRequest)
        return made

    for method in ("aim", "mst"):
        weighed = [asked(method, one) for one in ("sex", "ward", "patients.sex")]
        assert [(one.parent.target, one.child.target) for one in weighed] == [
            ("sex", None), (None, "ward"), (None, "patients.sex")
        ]  # fmt: skip
        assert len({json.dumps(one.parameters) for one in weighed}) == 3
    with pytest.raises(SfumatoError) as refused:
        asked("aim", "sexx")
    assert refused.value.code == "column_unknown"


def test_pictures_show_both_tables(twins: LinkedTwins) -> None:
    _, (model, rows) = twins.drawn_from.values()
    assert rows.num_rows == twins.tables["visits"].num_rows
    assert {axis.column for axis in model.encoding.axes} <= set(rows.column_names)
    both = zip(rows["patient"].to_pylist(), rows["patients.smoker"].to_pylist(), strict=True)
    parents = twins.tables["patients"]
    smokes = dict(zip(parents["patient"].to_pylist(), parents["smoker"].to_pylist(), strict=True))
    assert all(smokes[who] == smoker for who, smoker in both)
    assert len(twins.plot()) == 4 + 7


def test_counts_of_either_table_have_bars(twins: LinkedTwins) -> None:
    for name, column in (("patients", "sex"), ("visits", "ward")):
        counts = twins.query(f"SELECT {column}, COUNT(*) AS n FROM {name} GROUP BY {column}")
        assert counts.column_names == [column, "n", "n_sd"]
        assert all(one > 0 for one in counts["n_sd"].to_pylist())
    told = twins.to_json([Path("x")])
    assert told["child"]["name"] == "visits"
    assert told["child"]["columns"] == [one.name for one in VISITS.columns]
    assert {"one_way", "two_way", "visits"} <= told["error"].keys()
    with pytest.raises(SfumatoError):
        twins.query("SELECT COUNT(*) FROM nowhere")


def test_columns_and_sets_are_named_of_either_table(vault: sf.Vault) -> None:
    sets = [["sex", "visits"], ["ward", "patients.smoker"]]
    made = vault.synthesize(
        "patients", **LINK, epsilon=2, columns=["sex", "smoker", "ward"], workload=sets
    )
    told = made.to_json([Path("x")])
    assert told["method"] == "workload"
    assert told["columns"] == ["patient", "sex", "smoker"]
    assert told["child"]["columns"] == ["patient", "ward"]
    assert ["sex", "visits"] in told["measured"]
    assert ["ward", "patients.smoker"] in told["child"]["measured"]
    with pytest.raises(SfumatoError) as refused:
        vault.synthesize("patients", **LINK, epsilon=1, workload=[["ward", "sexx"]])
    assert refused.value.code == "column_unknown"


def test_plans_tell_of_both_tables(vault: sf.Vault) -> None:
    before = vault.accounts()
    plan = vault.private("patients").plan_synthesis(**LINK, epsilon=1, delta=1e-7)
    told = plan.to_json()
    assert [one["columns"] for one in (told, told["child"])] == [
        ["sex", "smoker", "town", "visits"],
        ["ward", "came", "left", "patients.sex", "patients.smoker", "patients.town",
         "patients.visits"],
    ]  # fmt: skip
    assert "\nvisits:\n" in plan.text()
    assert vault.accounts() == before


def test_an_empty_child_table_gives_hardly_any_children(tmp_path: Path) -> None:
    parents, children = tables()
    with opened(tmp_path, parents, children.slice(0, 0)) as vault:
        made = vault.synthesize("patients", **LINK, **PAID)
    assert made.tables["visits"].column_names == [one.name for one in VISITS.columns]
    assert numbers(made.tables).sum() < N / 10


def test_keys_are_no_more_than_there_can_be(tmp_path: Path) -> None:
    parents, children = tables()
    few = sf.Column("patient", sf.Kind.INTEGER, domain=sf.Bounds(500, 599), nullable=False)
    swapped = [replace(one, columns=tuple(few if column is KEY else column
                                          for column in one.columns))
               for one in (PATIENTS, VISITS)]  # fmt: skip
    with opened(tmp_path, parents, children, swapped[1]) as vault:
        with pytest.raises(SfumatoError) as refused:
            vault.synthesize("patients", **LINK, **PAID)
        assert refused.value.code == "linked_table_invalid"
    swapped[0].save(tmp_path / "patients.toml", overwrite=True)
    with sf.open(tmp_path / "clinic") as vault:
        made = vault.synthesize("patients", **LINK, **PAID)
        with pytest.raises(SfumatoError) as refused:
            vault.synthesize("patients", **LINK, **PAID, rows=101)
        assert refused.value.code == "parameter_out_of_range"
    assert sorted(made.table["patient"].to_pylist()) == list(range(500, 600))
    numbers(made.tables)


def test_the_command_writes_a_folder(
    vault: sf.Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["synthesize", "patients", "--child", "visits", "--key", "patient", "--rows", "40"]
    words += ["--epsilon", "1", "--delta", "1e-7", "--vault", str(vault.config.folder), "--json"]
    words += ["--method", "mst", "--target", "ward"]
    capsys.readouterr()
    (tmp_path / "taken").touch()
    assert run([*words, "-o", str(tmp_path / "taken")]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "output_unwritable"
    assert run([*words, "-o", str(tmp_path / "out")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["child"]["name"]) == (40, "visits")
    assert {Path(one).name for one in told["written"]} == {
        "patients.parquet", "visits.parquet", "release.json"
    }  # fmt: skip
    assert run([*words, "--plan"]) == 0
    assert {"forecast", "child"} <= json.loads(capsys.readouterr().out).keys()


def in_polish(folder: Path, *, parent: str, child: str) -> sf.Vault:
    """People and their towns, whose names only some encodings have, in files as declared."""
    towns = sf.Values(("Łódź", "Kraków"))
    schemas = (
        sf.Schema(
            "people", (KEY, SEX), sf.Entity("patient", 1), layout=FileLayout(parent, separator=";")
        ),
        sf.Schema(
            "homes",
            (KEY, sf.Column("town", sf.Kind.TEXT, domain=towns, nullable=False)),
            sf.Entity("patient", 2),
            layout=FileLayout(child),
        ),
    )
    numbers = range(60)
    rows = ["patient;sex\n" + "".join(f"{one};F\n" for one in numbers),
            "patient,town\n" + "".join(f"{one % 40},Kraków\n" for one in numbers)]  # fmt: skip
    vault = sf.init(folder / "clinic")
    for schema, text in zip(schemas, rows, strict=True):
        source, declared = (folder / f"{schema.table}.{ending}" for ending in ("csv", "toml"))
        source.write_text(text, encoding=schema.layout.encoding)
        schema.save(declared)
        budget = {"epsilon": 3} if schema is schemas[0] else {"population": "people"}
        vault.add(schema.table, source, declared, **budget)
    return vault


def test_each_table_is_written_by_its_own_schema(tmp_path: Path) -> None:
    with in_polish(tmp_path, parent="windows-1252", child="utf-8") as vault:
        made = vault.synthesize("people", child="homes", key="patient", epsilon=2)
        made.save(tmp_path / "out.csv")
    sf.Release.load(tmp_path / "out").save(tmp_path / "again.csv")
    for folder in ("out", "again"):
        heads = [(tmp_path / folder / f"{name}.csv").read_bytes().splitlines()[0]
                 for name in ("people", "homes")]  # fmt: skip
        assert heads == [b"patient;sex", b"patient,town"]
        homes = (tmp_path / folder / "homes.csv").read_text(encoding="utf-8")
        assert "Kraków" in homes


def test_letters_that_an_encoding_lacks_are_refused_before_the_charge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_polish(tmp_path, parent="utf-8", child="windows-1252") as vault:
        before = vault.accounts()
        words = ["synthesize", "people", "--child", "homes", "--key", "patient", "--epsilon", "2"]
        words += ["--vault", str(vault.config.folder), "--json", "-o"]
        capsys.readouterr()
        assert run([*words, str(tmp_path / "out.csv")]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "output_text_unfit"
        assert vault.accounts() == before
        assert run([*words, str(tmp_path / "out")]) == 0
