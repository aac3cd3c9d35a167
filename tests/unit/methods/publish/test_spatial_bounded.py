"""However much is paid, and however fine columns are, a tree has a bounded number of boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.publish import spatial_tree
from sfumato.methods.publish.catalogue import KINDS_OF_ROWS
from sfumato.methods.publish.publication import prepare
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.methods.publish.request import Request

HUGE = 10_000


def rows_of(points: int) -> sf.Table:
    columns = tuple(
        sf.Column(name, sf.Kind.INTEGER, domain=sf.Bounds(0, points - 1)) for name in "ab"
    )
    values = pa.array([5, 6, points // 3, None], pa.int64())
    return sf.read(pa.table({"a": values, "b": values}), schema=sf.Schema("t", columns))


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        *((kind, columns) for kind in ("kdtree", "hybrid", "privtree") for columns in ("a", "a,b")),
        ("quadtree", "a,b"),
    ],
)
def test_boxes_of_nobody_are_not_cut_where_there_is_hardly_noise(kind: str, columns: str) -> None:
    private = sf.protect(rows_of(1 << 40), epsilon=HUGE, max_epsilon=HUGE)
    released = private.publish(kind, columns=columns, epsilon=400)
    # Three rows, each followed by at most 48 levels of at most four boxes.
    assert released.table.num_rows < 3 * 48 * 4


@pytest.mark.parametrize("kind", KINDS_OF_ROWS)
@pytest.mark.filterwarnings("error")
def test_every_kind_answers_whatever_is_paid(kind: str) -> None:
    columns = ["a", "b"] if kind in ("quadtree", "adaptive-grid") else ["a"]
    private = sf.protect(rows_of(16), epsilon=HUGE, max_epsilon=HUGE)
    watched: dict[str, Any] = {"workload": [[(0, 3)]], "threshold": 9} if kind == "above" else {}
    released = private.publish(kind, columns=columns, epsilon=5000, **watched)
    assert all(table.num_rows for table in released.tables.values())


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("kdtree", {}),
        ("kdtree", {"hybrid": 0}),
        ("hybrid", {}),
        ("privtree", {}),
        ("quadtree", {}),
    ],
)
def test_a_full_tree_grows_no_further(
    kind: str,
    options: dict[str, object],
    request_for: Callable[..., Request],
    counted: Callable[..., Frequencies],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spatial_tree, "MAX_BOXES", 100)
    request = request_for([1 << 20, 1 << 20], epsilon=9)
    rows = np.random.default_rng(1).integers(0, 1 << 20, size=(20_000, 2))
    publication = prepare(kind, request, options)
    tables = publication.method.release(counted(request, rows), SystemEntropy())
    boxes = tables["boxes"]
    leaves = int(np.count_nonzero(np.asarray(boxes.column("leaf"))))
    assert 20 < leaves <= 100
    assert boxes.column("count")[0].as_py() == pytest.approx(20_000, rel=0.05)
