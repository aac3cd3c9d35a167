"""Collect from people who do not trust us: each report is randomized before it leaves its device.

    oracle = sf.local.oracle("olh", domain=1024, epsilon=1)
    reports = oracle.randomize(values)              # on each client
    sketch = oracle.sketch(reports) + other_sketch  # at the collector
    oracle.estimate(sketch)                         # value, share, sd

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sfumato.exact_numbers import Number
    from sfumato.methods.local.binary_marginals import MarginalOracle
    from sfumato.methods.local.central_comparison import Contrast
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.heavy_hitter_search import HeavyHitters
    from sfumato.methods.local.locations import PlanarLaplace
    from sfumato.methods.local.means import Duchi, MeanOracle
    from sfumato.methods.local.mechanism import LocalMechanism, Oracle
    from sfumato.methods.local.postprocess import Adjusted
    from sfumato.methods.local.range_trees import RangeOracle
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.methods.local.shuffle_amplification import Shuffled

__all__ = [
    "adjust",
    "contrast",
    "from_json",
    "heavy_hitters",
    "log",
    "marginals",
    "mean",
    "most_likely",
    "names",
    "oracle",
    "planar_laplace",
    "ranges",
    "shuffle",
]


def oracle(name: str, domain: object, *, epsilon: Number | LocalEpsilon, **options: Any) -> Oracle:
    """A mechanism by its name: `sf.local.oracle("olh", domain=1024, epsilon=1)`.

    `domain` is the list of values that a person can have, or their number: then values are 0, 1,
    2, ... `epsilon` is a number, or `sf.local.log(3)` where the odds are to be exactly 3 to 1.
    """
    from sfumato.methods.local.catalogue import make

    return make(name, domain, epsilon, options)


def from_json(record: object) -> LocalMechanism:
    """The oracle, or other mechanism, that its `to_json` described."""
    from sfumato.methods.local.catalogue import from_json as read

    return read(record)


def log(odds: Number) -> LocalEpsilon:
    """The epsilon whose odds e^epsilon are exactly this: log(3) is that of two honest coins."""
    from sfumato.methods.local.exact_epsilon import log as read

    return read(odds)


def names() -> tuple[str, ...]:
    """The names of all oracles."""
    from sfumato.methods.local.catalogue import ORACLES

    return tuple(ORACLES)


def mean(
    name: str = "hybrid", *, bounds: object, epsilon: Number | LocalEpsilon, **options: Any
) -> MeanOracle | Duchi:
    """The mean of an amount of each person: `sf.local.mean(bounds=(0, 100), epsilon=1)`.

    'hybrid' has the least error at worst, 'piecewise' less for amounts near the middle; 'duchi'
    takes several amounts of each person at once, by `columns`, their number or names.
    """
    from sfumato.arguments import one_of
    from sfumato.methods.local.catalogue import MEANS, make_task

    one_of(name, "The name of a mechanism for means", MEANS)
    return make_task(name, {"bounds": bounds, "epsilon": epsilon, **options})  # type: ignore[return-value]


def ranges(
    name: str = "hierarchical", *, domain: object, epsilon: Number | LocalEpsilon, **options: Any
) -> RangeOracle:
    """Shares of ranges of ordered values: 'hierarchical' (with `fanout`, `oracle`) or 'haar'."""
    from sfumato.arguments import one_of
    from sfumato.methods.local.catalogue import RANGES, make_task

    one_of(name, "The name of a mechanism for ranges", RANGES)
    return make_task(name, {"domain": domain, "epsilon": epsilon, **options})  # type: ignore[return-value]


def marginals(
    columns: Sequence[str], *, epsilon: Number | LocalEpsilon, width: int = 2
) -> MarginalOracle:
    """Tables of `width` of these yes-or-no columns, from one bit of each person."""
    from sfumato.methods.local.binary_marginals import MarginalOracle as Kind

    return Kind(columns, epsilon=epsilon, width=width)


def heavy_hitters(
    *, bits: int, epsilon: Number | LocalEpsilon, text: bool = False, **options: Any
) -> HeavyHitters:
    """Frequent numbers of so many bits, or texts: no list of possible values is needed."""
    from sfumato.methods.local.catalogue import make_task

    asked = {"bits": bits, "epsilon": epsilon, "text": text, **options}
    return make_task("heavy-hitters", asked)  # type: ignore[return-value]


def planar_laplace(
    origin: Sequence[Number],
    *,
    step: Number,
    cells: Sequence[int],
    epsilon: Number | LocalEpsilon,
) -> PlanarLaplace:
    """Places on a public grid of cells of side `step`; epsilon is for each unit of distance."""
    from sfumato.methods.local.locations import PlanarLaplace as Kind

    return Kind(origin, step=step, cells=cells, epsilon=epsilon)


def shuffle(*, epsilon: Number | LocalEpsilon, people: int, delta: Number) -> Shuffled:
    """What reports of epsilon each promise together, once nobody can tell whose is whose."""
    from sfumato.methods.local.shuffle_amplification import shuffle as reckon

    return reckon(epsilon=epsilon, people=people, delta=delta)


def adjust(estimate: pa.Table, how: str) -> Adjusted:
    """Make estimated shares look like shares: 'nonnegative', 'scaled' or 'simplex'.

    It is never done unasked: it moves rare values up. `effect` of the result says what it does.
    """
    from sfumato.methods.local.postprocess import adjust as move

    return move(estimate, how)


def most_likely(oracle: Oracle, sketch: ReportSketch) -> pa.Table:
    """The shares under which the reports were most likely (EM): at least 0, and they sum to 1."""
    from sfumato.methods.local.postprocess import most_likely as climb

    return climb(oracle, sketch)


def contrast(
    epsilons: Sequence[Number | LocalEpsilon] | None = None, people: Sequence[int] | None = None
) -> Contrast:
    """Laplace noise against randomized response, from real runs on made-up people."""
    from sfumato.methods.local.central_comparison import EPSILONS, PEOPLE
    from sfumato.methods.local.central_comparison import contrast as run

    return run(EPSILONS if epsilons is None else epsilons, PEOPLE if people is None else people)
