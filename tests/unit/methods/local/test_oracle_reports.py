"""Reports and sketches: what is written is read, what is added is the sum of both."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.data.engines.sources import open_source
from sfumato.errors import ParameterError, SfumatoError, SourceError
from sfumato.methods.local.report_files import _check_columns
from sfumato.methods.local.reports import Reports, ReportSketch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL: dict[str, dict[str, Any]] = {
    "warner": {},
    "rappor": {"bits": 12, "cohorts": 2},
    "hadamard": {"blocks": 2},
    "apple-cms": {"rows": 3, "columns": 10},
    "longitudinal": {"forever": 2},
    "apple-hcms": {"rows": 3, "columns": 8},
}
NAMES = sf.local.names()


def made(name: str, domain: Any = None, epsilon: Any = 1) -> Any:
    domain = domain or (2 if name == "warner" else 9)
    return sf.local.oracle(name, domain, epsilon=epsilon, **SMALL.get(name, {}))


@pytest.mark.parametrize("name", NAMES)
def test_one_sketch_by_every_way(name: str, tmp_path: Path) -> None:
    oracle = made(name)
    reports = oracle.randomize(np.arange(300) % oracle.size)
    whole = oracle.sketch(reports)
    assert (whole.n, whole.rejected) == (300, 0)
    raw, csv, parquet = (tmp_path / f"some.{kind}" for kind in ("reports", "csv", "parquet"))
    raw.write_bytes(reports.to_bytes())
    pyarrow.csv.write_csv(reports.to_arrow(), csv)
    pq.write_table(reports.to_arrow(), parquet)
    parts = [Reports(oracle.made_by, oracle.layout, one) for one in np.split(reports.rows, 3)]
    ways = [raw, str(csv), parquet, reports.to_arrow(), reports.to_arrow().to_reader(7)]
    ways += [parts[0] + parts[1] + parts[2], reports.to_arrow().to_pandas()]
    assert all(oracle.sketch(way) == whole for way in ways)
    assert oracle.merge(map(oracle.sketch, parts)) == whole
    assert oracle.sketch([raw, parquet]).n == 600
    assert ReportSketch.from_bytes(whole.to_bytes()) == whole
    assert oracle.read(reports.to_bytes()).rows.tobytes() == reports.rows.tobytes()
    assert oracle.empty() + whole == whole


@pytest.mark.parametrize("name", NAMES)
def test_an_oracle_is_made_again_from_what_it_tells(name: str) -> None:
    oracle = made(name, epsilon="log(3)")
    again = sf.local.from_json(json.loads(json.dumps(oracle.to_json())))
    assert again == oracle
    assert hash(again) == hash(oracle)
    assert again.to_json() == oracle.to_json()
    assert len(repr(oracle)) <= 100
    assert "epsilon" in (oracle._repr_html_() or "")


def test_values_may_be_named() -> None:
    oracle = made("oue", domain=["tea", "coffee", "neither"], epsilon=8)
    answers = ["tea"] * 60 + ["coffee"] * 30 + ["neither"] * 10
    for given in (answers, np.array(answers), pa.array(answers), pa.chunked_array([answers])):
        table = oracle.estimate(oracle.sketch(oracle.randomize(given)))
        assert table["value"].to_pylist() == ["tea", "coffee", "neither"]
        assert table["share"].to_pylist() == pytest.approx([0.6, 0.3, 0.1], abs=0.4)
    assert len(oracle.randomize("tea")) == 1
    assert len(made("k-ary").randomize(3)) == 1
    assert len(made("k-ary").randomize([])) == 0
    truths = made("warner", domain=[True, False], epsilon=12)
    assert truths.estimate(truths.sketch(truths.randomize([True] * 9)))["share"][0].as_py() > 0.5


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([9], "value_outside_domain"),
        ([-1], "value_outside_domain"),
        (np.array([2**63], dtype=np.uint64), "value_outside_domain"),
        ([0.5], "parameter_type_wrong"),
        (["a"], "parameter_type_wrong"),
        ([[1, 2]], "parameter_type_wrong"),
        (pa.array([1, None]), "parameter_type_wrong"),
        (None, "parameter_type_wrong"),
    ],
)
def test_values_that_are_not_declared_are_refused_and_not_quoted(values: Any, code: str) -> None:
    with pytest.raises(ParameterError) as raised:
        made("k-ary").randomize(values)
    assert raised.value.code == code


def test_names_that_are_not_declared_are_refused() -> None:
    oracle = made("k-ary", domain=["a", "b"])
    for values in (["c"], ["a", None]):
        with pytest.raises(ParameterError) as raised:
            oracle.randomize(values)
        assert raised.value.code == "value_outside_domain"
        assert "'c'" not in raised.value.message
    for other in ([object()], [b"a\xff"], [["a"]]):
        with pytest.raises(ParameterError):
            oracle.randomize(other)
    with pytest.raises(ParameterError):
        made("warner", domain=[True, False]).randomize([2])


@pytest.mark.parametrize(
    ("domain", "code"),
    [
        (1, "parameter_out_of_range"),
        (2**40, "parameter_out_of_range"),
        ([], "parameter_type_wrong"),
        (["a"], "parameter_out_of_range"),
        (["a", "a"], "round_invalid"),
        (["a", 1], "parameter_type_wrong"),
        ([1.5, 2.5], "parameter_type_wrong"),
        ("ab", "parameter_type_wrong"),
        (True, "parameter_type_wrong"),
    ],
)
def test_no_domain(domain: Any, code: str) -> None:
    with pytest.raises(ParameterError) as raised:
        sf.local.oracle("k-ary", domain, epsilon=1)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("name", "domain", "options", "code"),
    [
        ("nothing", 4, {}, "choice_unknown"),
        (7, 4, {}, "choice_unknown"),
        ("oue", 4, {"rows": 3}, "option_unknown"),
        ("longitudinal", 4, {}, "parameter_missing"),
        ("warner", 3, {}, "round_invalid"),
        ("hadamard", 4, {"blocks": 3}, "parameter_out_of_range"),
        ("hadamard", 4, {"blocks": 8}, "parameter_out_of_range"),
        ("grid", 10, {"columns": 3}, "parameter_out_of_range"),
        ("grid", 10, {"columns": 0}, "parameter_out_of_range"),
        ("grid", 4096, {}, "parameter_out_of_range"),
        ("grid", 9, {"scale": 5}, "parameter_out_of_range"),
        ("rappor", 9, {"bits": 2, "cohorts": 2}, "parameter_out_of_range"),
        ("rappor", 9, {"p": "3/4", "q": "1/2"}, "parameter_out_of_range"),
        ("rappor", 9, {"hashes": 0}, "parameter_out_of_range"),
        ("rappor", 2**20, {"cohorts": 2**13}, "parameter_out_of_range"),
        ("apple-cms", 9, {"rows": 0}, "parameter_out_of_range"),
        ("apple-cms", 9, {"rows": 2**20, "columns": 2**20}, "parameter_out_of_range"),
        ("apple-hcms", 9, {"columns": 10}, "parameter_out_of_range"),
        ("olh", 9, {"epsilon": 12}, "parameter_out_of_range"),
        ("auto", 9, {"most_bytes": 0}, "parameter_out_of_range"),
        ("auto", 9, {"n": 0}, "parameter_out_of_range"),
    ],
)
def test_no_oracle(name: Any, domain: Any, options: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as raised:
        sf.local.oracle(name, domain, **{"epsilon": 1, **options})
    assert raised.value.code == code


def test_what_others_made_is_not_mixed() -> None:
    first, second = made("k-ary"), made("k-ary", epsilon=2)
    one, two = first.randomize([1]), second.randomize([1])
    mixes: list[Any] = [
        lambda: one + two,
        lambda: first.sketch(one) + second.sketch(two),
        lambda: first.sketch(two),
        lambda: first.estimate(second.sketch(two)),
        lambda: first.read(two.to_bytes()),
    ]
    for mix in mixes:
        with pytest.raises(SourceError) as raised:
            mix()
        assert raised.value.code == "round_differs"
        assert "epsilon" in raised.value.message


def test_what_cannot_be_a_report_is_counted() -> None:
    oracle = made("k-ary")
    rows = oracle.layout.empty(4)
    rows["report"] = [3, 9, 255, 0]
    assert (oracle.sum_rows(rows).n, oracle.sum_rows(rows).rejected) == (2, 2)
    twice = oracle.sum_rows(rows) + oracle.sum_rows(rows, rejected=3)
    assert (twice.n, twice.rejected) == (4, 7)
    assert ReportSketch.from_bytes(twice.to_bytes()) == twice
    bits = made("oue").layout.empty(2)
    bits["bits"][1, 1] = 0b10  # only the lowest bit of the second byte is one of nine
    assert made("oue").sum_rows(bits).rejected == 1
    subset = made("subset")
    crowd = subset.randomize([0, 1]).rows.copy()
    crowd["bits"][0] = 0
    assert subset.sum_rows(crowd).rejected == 1


def test_a_table_says_which_column_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError) as raised:
        made("olh").sketch(pa.table({"factor": [1], "report": [0]}))
    assert raised.value.code == "column_unknown"
    shifted = pa.table({"factor": [1], "shift": ["x"], "report": [0]})
    with closing(open_source(shifted)) as engine, pytest.raises(SourceError) as refused:
        _check_columns(made("olh"), engine)  # a server's columns are what they are
    assert refused.value.code == "file_malformed"
    assert "'shift'" in refused.value.message
    with duckdb.connect(str(tmp_path / "some.db")) as database:
        database.execute("CREATE TABLE sent AS SELECT 1 AS factor, 2 AS shift, 0 AS report")
    assert made("olh").sketch(f"duckdb:///{tmp_path}/some.db#sent").n == 1


def test_files_that_are_no_reports(tmp_path: Path) -> None:
    oracle = made("hadamard")
    reports = oracle.randomize(np.zeros(10, dtype=np.int64))
    olh = made("olh")
    for content, code in {
        b"": "file_malformed",
        b"anything\n": "file_malformed",
        b"sfumato reports 1 {\n": "file_malformed",
        b"sfumato reports 1 []\n": "file_malformed",
        b"sfumato reports 1 " + b"[" * 100_000 + b"\n": "file_malformed",
        reports.to_bytes(): "round_differs",
        olh.randomize([1]).to_bytes()[:-1]: "file_malformed",
    }.items():
        path = tmp_path / "x.reports"
        path.write_bytes(content)
        with pytest.raises(SourceError) as raised:
            olh.sketch(path)
        assert raised.value.code == code
        with pytest.raises(SourceError) as raised:
            olh.read(content)
        assert raised.value.code == code
    with pytest.raises(SourceError):
        olh.sketch(tmp_path / "absent.reports")


@pytest.mark.parametrize("data", [5, None, "text", [1]])
def test_what_are_no_bytes_is_told(data: Any) -> None:
    for reading in (made("olh").read, ReportSketch.from_bytes):
        with pytest.raises(ParameterError) as raised:
            reading(data)
        assert raised.value.code == "parameter_type_wrong"


def test_bytes_that_are_no_sketch() -> None:
    oracle = made("apple-hcms")
    whole = oracle.sketch(oracle.randomize([1, 2])).to_bytes()
    head = whole[: whole.index(b"\n") + 1]
    for data in (b"", b"x", whole[:-8], whole[:-1], head, head + bytes(8), whole + bytes(8)):
        with pytest.raises(SourceError) as raised:
            ReportSketch.from_bytes(data)
        assert raised.value.code == "file_malformed"


def test_sums_of_another_shape_are_no_sketch_of_this_oracle() -> None:
    oracle = made("oue")
    whole = oracle.sketch(oracle.randomize([1, 2]))
    short = ReportSketch(whole.made_by, 2, 0, whole.tally[:1])
    with pytest.raises(SourceError) as raised:
        whole + short
    assert raised.value.code == "file_malformed"
    with pytest.raises(SourceError) as raised:
        oracle.estimate(short)
    assert raised.value.code == "file_malformed"
    wide = np.array([1, 0, 2**32, 2**32], dtype="<i8").tobytes()
    head = whole.to_bytes().partition(b"\n")[0].replace(b'"dimensions": 1', b'"dimensions": 2')
    with pytest.raises(SourceError):
        ReportSketch.from_bytes(head + b"\n" + wide)


MECHANISMS: dict[str, Callable[[], Any]] = {
    **{name: partial(made, name) for name in NAMES},
    "mean": lambda: sf.local.mean(bounds=(0, 1), epsilon=1),
    "duchi": lambda: sf.local.mean("duchi", bounds=(0, 1), epsilon=1, columns=2),
    "ranges": lambda: sf.local.ranges(domain=9, epsilon=1),
    "haar": lambda: sf.local.ranges("haar", domain=9, epsilon=1),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_sketch_that_no_reports_can_have_is_not_estimated(name: str) -> None:
    oracle = MECHANISMS[name]()
    values = np.tile([[0, 1]], (400, 1)) if name == "duchi" else np.arange(400) % 2
    whole = oracle.sketch(oracle.randomize(values))
    oracle.estimate(whole)
    first = tuple([0] * whole.tally.ndim)
    for wrong in (-401, 401, 2**62, -(2**62)):
        tally = whole.tally.copy()
        tally[first] = wrong
        forged = ReportSketch(whole.made_by, whole.n, 0, tally)
        with pytest.raises(SourceError) as raised:
            oracle.estimate(ReportSketch.from_bytes(forged.to_bytes()))
        assert raised.value.code == "file_malformed"
    fewer = ReportSketch(whole.made_by, 3, 0, whole.tally)
    with pytest.raises(SourceError):
        oracle.estimate(fewer)


def test_sums_that_wrap_are_noticed() -> None:
    oracle = made("k_ary", 4)
    whole = oracle.sketch(oracle.randomize([0, 1, 2, 3]))
    wrapped = np.array([2**62, 2**62, 2**62, 2**62], dtype=np.int64)  # 2^64: 0 in 64 bits
    for n in (0, 4):
        with pytest.raises(SourceError):
            oracle.estimate(ReportSketch(whole.made_by, n, 0, wrapped))
    doubled = ReportSketch(whole.made_by, 2**61, 0, whole.tally)
    with pytest.raises(SourceError) as raised:
        doubled + doubled
    assert raised.value.code == "file_malformed"
    with pytest.raises(SourceError):
        ReportSketch.from_bytes(ReportSketch(whole.made_by, 2**62, 0, whole.tally).to_bytes())


def test_a_bit_of_a_sketch_that_flips_is_noticed() -> None:
    oracle = made("oue")
    whole = oracle.sketch(oracle.randomize([1, 2] * 50)).to_bytes()
    for place in range(0, len(whole), 7):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1
        with pytest.raises(SourceError):
            ReportSketch.from_bytes(bytes(spoiled))


def test_nothing_is_estimated_from_nothing() -> None:
    oracle = made("oue")
    with pytest.raises(SourceError) as raised:
        oracle.estimate(oracle.empty())
    assert raised.value.code == "estimate_not_possible"
    with pytest.raises(SfumatoError):
        oracle.estimate("sketch")


def test_no_oracle_of_another_version() -> None:
    told = made("oue").to_json()
    for wrong in (told | {"version": 2}, {}, None, [told], {**told, "mechanism": "x"}):
        with pytest.raises(SfumatoError):
            sf.local.from_json(wrong)


def test_a_channel_that_is_too_large_is_refused() -> None:
    with pytest.raises(ParameterError) as raised:
        sf.local.oracle("oue", 64, epsilon=1).channel()
    assert raised.value.code == "problem_too_large"


def test_variances_need_people() -> None:
    for n in (0, -1, 1.5, None):
        with pytest.raises(ParameterError):
            made("oue").variance(n)


@pytest.mark.parametrize(
    ("domain", "epsilon", "options", "name"),
    [
        (2, 1, {}, "warner"),
        (4, 1, {}, "k-ary"),
        (100, 4, {}, "k-ary"),
        (1024, 1, {}, "olh"),
        (1024, 4, {}, "olh"),
        (1024, 1, {"most_bytes": 2}, "hadamard"),
        (10**6, 1, {"n": 10**7}, "hadamard"),
    ],
)
def test_auto_takes_the_best_that_fits_and_says_why(
    domain: int, epsilon: float, options: dict[str, Any], name: str
) -> None:
    oracle = sf.local.oracle("auto", domain, epsilon=epsilon, **options)
    assert oracle.name == name
    assert oracle.why
    assert oracle.layout.dtype.itemsize <= options.get("most_bytes", 8192)


@pytest.mark.parametrize("epsilon", ["0.000001", "20"])
@pytest.mark.parametrize("name", [one for one in NAMES if one != "longitudinal"])
def test_the_smallest_and_the_largest_epsilon(name: str, epsilon: str) -> None:
    if name == "olh" and epsilon == "20":
        return  # refused: below
    oracle = made(name, epsilon=epsilon)
    table = oracle.estimate(oracle.sketch(oracle.randomize(np.zeros(50, dtype=np.int64))))
    assert np.isfinite(np.asarray(table["share"])).all()
    assert np.isfinite(np.asarray(table["sd"])).all()
    assert oracle.realised <= float(epsilon)
    if epsilon == "20" and name not in {"rappor", "apple-cms", "apple-hcms", "grid", "hadamard"}:
        assert table["share"][0].as_py() > 0.3


def test_auto_takes_blocks_where_epsilon_is_large() -> None:
    found: Any = sf.local.oracle("auto", 1024, epsilon=4, most_bytes=2)
    assert found.blocks == 32
    assert found.variance(1) < 0.2 < sf.local.oracle("hadamard", 1024, epsilon=4).variance(1)


def test_what_is_told_after_the_data_is_as_far_off_as_before() -> None:
    oracle = made("oue")
    values = np.repeat([0, 1], [700, 300])
    table = oracle.estimate(oracle.sketch(oracle.randomize(values)))
    shares, sds = (np.asarray(table[name]) for name in ("share", "sd"))
    expected = [oracle.variance(1000, float(np.clip(one, 0, 1))) ** 0.5 for one in shares]
    assert sds == pytest.approx(expected)
