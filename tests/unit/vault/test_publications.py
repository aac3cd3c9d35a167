"""Publications through the gate: charged once, stored, refused where they must be."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.schema.hierarchy import Tree
from sfumato.errors import (
    BudgetError,
    OutputError,
    ParameterError,
    PolicyError,
    QueryError,
    SchemaError,
    SourceError,
)
from sfumato.release.open_table import read_workload
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column(
            "patient", sf.Kind.INTEGER, sf.Role.IDENTIFIER, sf.Bounds(0, 999), nullable=False
        ),
        sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 9)),
        sf.Column("name", sf.Kind.TEXT, sf.Role.IDENTIFIER),
    ),
)
PEOPLE = pa.table(
    {
        "patient": [number // 3 for number in range(3000)],
        "age": [None if number % 50 == 0 else number % 10 for number in range(3000)],
        "name": ["somebody"] * 3000,
    }
)

GROUPS = {"flu": ["lungs"], "asthma": ["lungs"], "cancer": ["tumours"], "leukemia": ["tumours"]}


@pytest.fixture
def private() -> Iterator[sf.Private]:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        yield sf.protect(people, unit=sf.Rows(), epsilon=2)


def test_more_than_the_usual_maximum_is_spent_where_the_owner_allows_it() -> None:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        with pytest.raises(ParameterError, match=r"max_epsilon in vault\.toml or of sf\.protect"):
            sf.protect(people, unit=sf.Rows(), epsilon=40)
        usual = sf.protect(people, unit=sf.Rows(), epsilon=9)
        with pytest.raises(ParameterError, match="max_epsilon") as refused:
            usual.publish("histogram", columns=["age"], epsilon=20)
        assert refused.value.code == "parameter_out_of_range"
        raised = sf.protect(people, unit=sf.Rows(), epsilon=40, max_epsilon=40)
        assert raised.publish("histogram", columns=["age"], epsilon=20).table.num_rows == 11
        assert raised.query("SELECT COUNT(*) FROM people", epsilon=20).table.num_rows == 1
        with pytest.raises(ParameterError, match="max_epsilon must be"):
            sf.protect(people, epsilon=1, max_epsilon=0)


def test_a_publication_is_charged_once_and_then_free(private: sf.Private) -> None:
    first = private.publish("histogram", columns=["age"], epsilon="0.5")
    assert first.charged
    assert first.cost == {"epsilon": 0.5}
    assert first.table.num_rows == 11
    again = private.publish("histogram", columns="age", epsilon=0.5)
    assert not again.charged
    assert again.table.equals(first.table)
    assert private.remaining["epsilon"] == pytest.approx(1.5)


def test_ranges_are_read_from_the_release(private: sf.Private) -> None:
    release = private.publish("histogram", columns=["age"], epsilon=1)
    queries = np.array([[[0, 4]], [[5, 9]], [[7, 3]]])
    counts = release.table["count"].to_numpy()
    assert release.ranges(queries).tolist() == [counts[:5].sum(), counts[5:10].sum(), 0]
    one = release.ranges_stddev(np.array([[[0, 0]]]))[0]
    assert release.ranges_stddev(queries) == pytest.approx([one * 5**0.5, one * 5**0.5, 0])


def test_a_plan_spends_nothing_and_knows_the_error(private: sf.Private) -> None:
    planned = private.plan("histogram", columns=["age"], epsilon=1)
    assert private.remaining["epsilon"] == 2
    release = private.publish("histogram", columns=["age"], epsilon=1)
    assert release.error == planned.error
    queries = np.array([[[0, 4]]])
    assert planned.ranges_stddev(queries) == release.ranges_stddev(queries)


def test_by_default_a_tenth_of_the_budget_is_spent(private: sf.Private) -> None:
    release = private.publish("histogram", columns=["age"])
    assert release.cost == {"epsilon": pytest.approx(0.2)}


def test_a_person_counts_as_declared() -> None:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        unit = sf.Entity("patient", max_rows=2)
        private = sf.protect(people, unit=unit, epsilon=2)
        release = private.publish("histogram", columns=["age"], epsilon=1)
        # Two of each person's three rows are used; twice the noise hides them.
        total = release.table["count"].to_numpy().sum()
        assert abs(total - 2000) < 200
        whole = private.plan("histogram", columns=["age"], epsilon=1).error["cell"]["sd"]
        row = sf.protect(people, unit=sf.Rows(), epsilon=2)
        half = row.plan("histogram", columns=["age"], epsilon="1/2").error["cell"]["sd"]
        assert whole == pytest.approx(half)


def test_what_cannot_be_published_costs_nothing(private: sf.Private) -> None:
    with pytest.raises(SchemaError, match="no finite declared domain"):
        private.publish("histogram", columns=["name"], epsilon=1)
    with pytest.raises(SchemaError, match="ages"):
        private.publish("histogram", columns=["ages"], epsilon=1)
    for columns in ([], ["age", "age"]):
        with pytest.raises(ParameterError, match="each only once"):
            private.publish("histogram", columns=columns, epsilon=1)
    with pytest.raises(BudgetError):
        private.publish("histogram", columns=["age"], epsilon=3)
    assert private.remaining["epsilon"] == 2


def test_a_kind_without_ranges_says_so(private: sf.Private) -> None:
    release = private.publish("marginals", columns=["age"], way=1, epsilon=1)
    queries = np.array([[[0, 4]]])
    with pytest.raises(ParameterError, match="tree") as refused:
        release.ranges(queries)
    assert refused.value.code == "ranges_not_answerable"
    learnt = private.publish("mwem", columns=["age"], epsilon="0.5")
    assert learnt.ranges(queries).shape == (1,)
    with pytest.raises(ParameterError, match="depends on the data") as refused:
        learnt.ranges_stddev(queries)
    assert refused.value.code == "ranges_not_answerable"


def test_a_map_is_written_for_map_programs(private: sf.Private, tmp_path: Path) -> None:
    target = tmp_path / "map.geojson"
    tree = private.publish("privtree", columns=["age", "patient"], epsilon="0.5")
    assert tree.save(target) == [target, tmp_path / "map.geojson.json"]
    drawn = json.loads(target.read_text())
    leaves = int(np.count_nonzero(tree.table["leaf"]))
    assert len(drawn["features"]) == leaves
    assert json.loads((tmp_path / "map.geojson.json").read_text())["receipt"] == tree.receipt
    with pytest.raises(OutputError):
        tree.save(target)
    assert tree.ranges_stddev(np.array([[[0, 4], [0, 500]]]))[0] > 0
    assert tree.nearest((3, 100), 5)["distance"][0].as_py() == 0
    middle = private.publish("quantiles", columns=["age"], epsilon="0.5")
    with pytest.raises(ParameterError, match="no boxes"):
        middle.save(tmp_path / "none.geojson")
    assert not (tmp_path / "none.geojson").exists()


def test_another_domain_is_another_publication() -> None:
    # The same columns at the same price, but bounds were declared anew in between.
    wider = replace(SCHEMA.column("age"), domain=sf.Bounds(0, 19))
    other = replace(SCHEMA, columns=(SCHEMA.columns[0], wider, SCHEMA.columns[2]))
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as one, closing(sf.read(PEOPLE, other)) as two:
        narrow, wide = (
            sf.protect(people, epsilon=1).plan("histogram", columns=["age"], epsilon=1)
            for people in (one, two)
        )
    assert narrow.parameters != wide.parameters


def test_groups_of_the_schema_shape_a_wavelet() -> None:
    diseases = sf.Column(
        "disease",
        sf.Kind.TEXT,
        sf.Role.SENSITIVE,
        sf.Values(("flu", "asthma", "cancer", "leukemia")),
        Tree(
            ("flu", "asthma", "cancer", "leukemia"),
            (("lungs", "*"), ("lungs", "*"), ("tumours", "*"), ("tumours", "*")),
        ),
        nullable=False,
    )
    plain = replace(diseases, hierarchy=None)
    table = pa.table({"disease": ["flu", "cancer", "flu", "asthma"] * 100})
    errors = []
    for column in (diseases, plain):
        with closing(sf.read(table, sf.Schema("ill", (column,)))) as ill:
            private = sf.protect(ill, epsilon=2)
            made = private.publish("wavelet", columns=["disease"], epsilon=2)
            lungs = np.array([[["flu", "asthma"]]])
            errors.append(made.ranges_stddev(lungs)[0])
            assert abs(made.ranges(lungs)[0] - 300) < 12 * errors[-1]
            known = made.publication.request.groups
            assert known == ({"disease": GROUPS} if column is diseases else {})
    # Here the groups are halves, so both measure the same.
    assert errors[0] == pytest.approx(errors[1])


def test_a_fine_plane_is_published_as_boxes() -> None:
    fine = tuple(
        sf.Column(name, sf.Kind.REAL, domain=sf.Bounds(Decimal(0), Decimal(100), Decimal("0.001")))
        for name in ("lon", "lat")
    )
    places = pa.table({"lon": [12.345] * 500, "lat": [50.0] * 500})
    with closing(sf.read(places, sf.Schema("places", fine))) as opened:
        private = sf.protect(opened, epsilon=2)
        boxes = private.publish("quadtree", columns=["lon", "lat"], epsilon=1, height=5)
        assert len(boxes.tables["boxes"]) == sum(4**level for level in range(6))
        here = boxes.ranges([[[0, 25], [25, 75]]])[0]
        assert abs(here - 500) < 100
        with pytest.raises(ParameterError, match="budget of so fine a plane"):
            private.plan("quadtree", columns=["lon", "lat"], budget="uniform")
        with pytest.raises(ParameterError, match="public total"):
            private.plan("quadtree", columns=["lon", "lat"], total=500)


def test_a_workload_lies_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "ranges.csv").write_text("age_low,age_high\n0,4\n5,9\n")
    wanted = [SCHEMA.column("age")]
    assert read_workload(tmp_path / "ranges.csv", wanted).tolist() == [[[0, 4]], [[5, 9]]]
    (tmp_path / "wrong.csv").write_text("age_low\n0\n")
    with pytest.raises(SourceError, match="age_high"):
        read_workload(tmp_path / "wrong.csv", wanted)
    with pytest.raises(SourceError):
        read_workload(tmp_path / "absent.csv", wanted)


@pytest.mark.usefixtures("files")
def test_a_vault_hands_out_its_data_sets_to_those_who_may() -> None:
    create(Path("clinic"))
    registration = Registration(
        name="visits", source="visits.csv", schema=Path("visits.toml"), epsilon=4
    )
    registration.add_to(Path("clinic"))
    with sf.open("clinic") as vault:
        visits = vault.private("visits")
        release = visits.publish("histogram", columns=["city"], epsilon=1)
        assert release.table["city"].to_pylist() == ["north", "south"]
        assert visits.remaining["epsilon"] == pytest.approx(3)
        with pytest.raises(QueryError, match="no private data set") as unknown:
            vault.private("nothing")
        assert unknown.value.code == "dataset_unknown"
        with pytest.raises(PolicyError):
            vault.private("visits", principal="stranger").publish("histogram", columns=["city"])
