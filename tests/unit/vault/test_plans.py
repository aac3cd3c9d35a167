"""A plan is run only where it was made; stored answers need no data; options are nobody else's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import build
from sfumato.errors import ParameterError
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration


def protected(rows: int = 3) -> sf.Private:
    columns = (
        sf.Column("p", sf.Kind.INTEGER, domain=sf.Bounds(0, 999), nullable=False),
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 99)),
    )
    schema = sf.Schema("t", columns, sf.Entity("p", max_rows=rows))
    return sf.protect(sf.read(pa.table({"p": [1], "age": [1]}), schema=schema), epsilon=10)


def test_a_plan_of_another_table_is_not_run() -> None:
    """Its unit and its bounds are not those that this table declares."""
    narrow, wide = protected(1), protected(20)
    plan = narrow.plan("histogram", columns="age", epsilon=1)
    with pytest.raises(ParameterError) as refused:
        wide.publish_planned(plan)
    assert refused.value.code == "plan_foreign"
    assert wide.remaining["epsilon"] == 10
    assert narrow.publish_planned(plan).charged


@pytest.fixture
def vault(files: Path) -> Path:
    create(Path("clinic"))
    Registration(
        name="visits", source="visits.csv", schema=Path("visits.toml"), epsilon="8"
    ).add_to(Path("clinic"))
    return files


def test_a_stored_answer_needs_no_data(vault: Path) -> None:
    asked = "SELECT COUNT(*) FROM visits"
    with sf.open("clinic") as opened:
        first = opened.query(asked, epsilon=1)
        (vault / "visits.csv").rename(vault / "gone.csv")
        assert opened.query(asked, epsilon=1).receipt == first.receipt
        assert opened.explain("SELECT COUNT(*) FROM visits", epsilon=1).to_json()
        with pytest.raises(sf.SfumatoError) as refused:
            opened.query(asked, epsilon=0.5)
    assert refused.value.code == "source_missing"


@pytest.mark.parametrize("name", ["facts", "offer", "family", "self", "kind_"])
def test_a_wrong_option_is_refused_whatever_its_name(vault: Path, name: str) -> None:
    command = ("publish", "histogram", "visits", "--columns", "cost", "--vault", "clinic")
    done = CliRunner().invoke(build(command[0]), [*command, "--explain", "--option", f"{name}=1"])
    assert isinstance(done.exception, ParameterError), done.exception
    assert done.exception.code == "option_unknown"
    assert vault.is_dir()


@pytest.mark.parametrize("option", ["epsilon=1", "columns=cost", "kind=tree", "out=x.csv"])
def test_an_option_is_never_what_the_command_says_itself(vault: Path, option: str) -> None:
    command = ("publish", "histogram", "visits", "--columns", "cost", "--vault", "clinic")
    done = CliRunner().invoke(build(command[0]), [*command, "--explain", "--option", option])
    assert isinstance(done.exception, ParameterError), done.exception
    assert done.exception.code == "options_conflict"
    assert vault.is_dir()


def test_noise_on_the_queries_can_be_written(vault: Path) -> None:
    Path("ranges.csv").write_text("cost_low,cost_high\n0,17\n")
    command = ("publish", "auto", "visits", "--columns", "cost", "--epsilon", "0.01")
    told = ("--workload", "ranges.csv", "--vault", "clinic", "-o", "answers.csv")
    done = CliRunner().invoke(build(command[0]), [*command, *told])
    assert done.exit_code == 0, done.exception
    written = sf.Release.load(vault / "answers.csv")
    assert "answers" in written.tables
