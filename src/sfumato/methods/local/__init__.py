"""Local privacy: every person randomizes the answer on their own device before sending it.

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
    from sfumato.methods.local.heavy_hitter_search import HeavyHitters
    from sfumato.methods.local.local_epsilon import LocalEpsilon
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
    """Make a frequency oracle: a mechanism that estimates the share of each declared value.

    Parameters
    ----------
    name : str
        One of `sf.local.names()`, or "auto" to choose by variance, report length and work.
    domain : list or int
        The values that a person can have. A number stands for the values 0, 1, 2, ...
    epsilon : number or LocalEpsilon
        The epsilon of one report, up to 20. `sf.local.log(3)` sets the odds to exactly 3 to 1.
    **options
        Settings of the oracle of this name, such as `blocks` of "hadamard" or `forever` of
        "longitudinal".

    Returns
    -------
    Oracle
        It randomizes on devices, and sums and estimates at the collector.

    Raises
    ------
    ParameterError
        If the name, the domain, epsilon or an option is not valid.

    Examples
    --------
    >>> import sfumato as sf
    >>> oracle = sf.local.oracle("k-ary", ["bus", "car", "foot"], epsilon=1)
    >>> reports = oracle.randomize(["bus", "foot", "bus"])
    >>> oracle.estimate(oracle.sketch(reports)).column_names
    ['value', 'share', 'sd']
    """
    from sfumato.methods.local.catalogue import make

    return make(name, domain, epsilon, options)


def from_json(record: object) -> LocalMechanism:
    """Make the mechanism that its `to_json` described.

    Parameters
    ----------
    record : dict
        What `to_json` of a mechanism returned.

    Returns
    -------
    LocalMechanism
        An equal mechanism: it reads the reports of the first.

    Raises
    ------
    SourceError
        If the record does not describe a mechanism of this version.

    Examples
    --------
    >>> import sfumato as sf
    >>> oracle = sf.local.oracle("olh", 1024, epsilon=1)
    >>> sf.local.from_json(oracle.to_json()) == oracle
    True
    """
    from sfumato.methods.local.catalogue import from_json as read

    return read(record)


def log(odds: Number) -> LocalEpsilon:
    """Return the epsilon whose odds e^epsilon are exactly this number.

    Parameters
    ----------
    odds : number
        Above 1. `log(3)` is the epsilon of answering with two fair coins.

    Returns
    -------
    LocalEpsilon
        An epsilon for `oracle` and the other functions here.

    Raises
    ------
    ParameterError
        If the odds are not above 1.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.local.oracle("warner", ["yes", "no"], epsilon=sf.local.log(3)).p
    Fraction(3, 4)
    """
    from sfumato.methods.local.local_epsilon import log as read

    return read(odds)


def names() -> tuple[str, ...]:
    """Return the names of all frequency oracles.

    Returns
    -------
    tuple of str
        Names for `oracle`.

    Examples
    --------
    >>> import sfumato as sf
    >>> "olh" in sf.local.names()
    True
    """
    from sfumato.methods.local.catalogue import ORACLES

    return tuple(ORACLES)


def mean(
    name: str = "hybrid", *, bounds: object, epsilon: Number | LocalEpsilon, **options: Any
) -> MeanOracle | Duchi:
    """Make a mechanism that estimates the mean of an amount.

    Parameters
    ----------
    name : str
        "hybrid" has the least error at worst, "piecewise" has less for amounts near the middle,
        "duchi" takes several amounts of each person at once.
    bounds : pair of numbers
        The declared bounds; amounts beyond them count as the nearer bound.
    epsilon : number or LocalEpsilon
        The epsilon of one report.
    **options
        `cells` of "hybrid" and "piecewise"; `columns` of "duchi", their number or names.

    Returns
    -------
    MeanOracle or Duchi
        Its `estimate` gives the mean and its standard deviation, in the unit of the amounts.

    Raises
    ------
    ParameterError
        If the name, the bounds, epsilon or an option is not valid.

    Examples
    --------
    >>> import sfumato as sf
    >>> hours = sf.local.mean(bounds=(0, 80), epsilon=2)
    >>> hours.estimate(hours.sketch(hours.randomize([38, 40, 12]))).column_names
    ['mean', 'sd']
    """
    from sfumato.arguments import one_of
    from sfumato.methods.local.catalogue import MEANS, make_task

    one_of(name, "The name of a mechanism for means", MEANS)
    return make_task(name, {"bounds": bounds, "epsilon": epsilon, **options})  # type: ignore[return-value]


def ranges(
    name: str = "hierarchical", *, domain: object, epsilon: Number | LocalEpsilon, **options: Any
) -> RangeOracle:
    """Make a mechanism that estimates the share of people in ranges of ordered values.

    Parameters
    ----------
    name : str
        "hierarchical" asks about blocks of a tree, "haar" about one bit of a Haar wavelet.
    domain : list or int
        The values in their order, at most 2^20.
    epsilon : number or LocalEpsilon
        The epsilon of one report.
    **options
        `fanout` and `oracle` of "hierarchical".

    Returns
    -------
    RangeOracle
        Its `ranges` estimates any ranges, its `estimate` each value.

    Raises
    ------
    ParameterError
        If the name, the domain, epsilon or an option is not valid.

    Examples
    --------
    >>> import sfumato as sf
    >>> ages = sf.local.ranges("haar", domain=100, epsilon=1)
    >>> sketch = ages.sketch(ages.randomize(list(range(100)) * 20))
    >>> ages.ranges(sketch, [(18, 64), (65, 99)]).num_rows
    2
    """
    from sfumato.arguments import one_of
    from sfumato.methods.local.catalogue import RANGES, make_task

    one_of(name, "The name of a mechanism for ranges", RANGES)
    return make_task(name, {"domain": domain, "epsilon": epsilon, **options})  # type: ignore[return-value]


def marginals(
    columns: Sequence[str], *, epsilon: Number | LocalEpsilon, width: int = 2
) -> MarginalOracle:
    """Make a mechanism that estimates marginals of yes-or-no columns from one bit of each person.

    Parameters
    ----------
    columns : list of str
        The names of the columns, at most 62.
    epsilon : number or LocalEpsilon
        The epsilon of one report, for all columns of the person together.
    width : int
        The largest number of columns of a marginal.

    Returns
    -------
    MarginalOracle
        Its `marginal` estimates the counts of chosen columns, its `estimate` all of them.

    Raises
    ------
    ParameterError
        If the columns, epsilon or the width are not valid.

    Examples
    --------
    >>> import sfumato as sf
    >>> habits = sf.local.marginals(["smokes", "drinks"], epsilon=2)
    >>> sketch = habits.sketch(habits.randomize([[1, 0], [0, 0], [1, 1], [0, 1]] * 50))
    >>> habits.marginal(sketch, ["smokes", "drinks"]).num_rows
    4
    """
    from sfumato.methods.local.binary_marginals import MarginalOracle as Kind

    return Kind(columns, epsilon=epsilon, width=width)


def heavy_hitters(
    *, bits: int, epsilon: Number | LocalEpsilon, text: bool = False, **options: Any
) -> HeavyHitters:
    """Make a mechanism that finds frequent values of a domain that is too large to list.

    Parameters
    ----------
    bits : int
        The bits of a value, at most 240; longer texts are cut.
    epsilon : number or LocalEpsilon
        The epsilon of one report.
    text : bool
        Whether values are texts; then `bits` is a multiple of 8.
    **options
        `start` and `step`: the bits of the shortest prefix, and of each extension.

    Returns
    -------
    HeavyHitters
        Its `find` returns the values that seem most frequent.

    Raises
    ------
    ParameterError
        If a setting is out of its range.

    Examples
    --------
    >>> import sfumato as sf
    >>> words = sf.local.heavy_hitters(bits=16, epsilon=4, text=True)
    >>> words.find(words.randomize(["ab"] * 5000), most=1)["value"].to_pylist()
    ['ab']
    """
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
    """Make a mechanism that reports locations as cells of a public grid (geo-indistinguishability).

    Parameters
    ----------
    origin : pair of numbers
        The south-west corner of the grid, in the unit of the locations.
    step : number
        The side of a cell, in the same unit.
    cells : pair of int
        The number of cells eastwards and northwards.
    epsilon : number or LocalEpsilon
        The epsilon of each unit of distance.

    Returns
    -------
    PlanarLaplace
        Its `reported` counts reports by cell; its `radius` says how far they are from the truth.

    Raises
    ------
    ParameterError
        If the grid has too many cells, or epsilon times step is outside 0.001 to 20.

    Examples
    --------
    >>> import sfumato as sf
    >>> map_of_town = sf.local.planar_laplace((0, 0), step=10, cells=(500, 500), epsilon="0.01")
    >>> len(map_of_town.randomize([[120.5, 300.0]]))
    1
    """
    from sfumato.methods.local.locations import PlanarLaplace as Kind

    return Kind(origin, step=step, cells=cells, epsilon=epsilon)


def shuffle(*, epsilon: Number | LocalEpsilon, people: int, delta: Number) -> Shuffled:
    """Compute the central guarantee of reports that are shuffled before they are collected.

    Parameters
    ----------
    epsilon : number or LocalEpsilon
        The epsilon of each report.
    people : int
        The number of reports that are shuffled together.
    delta : number
        The delta of the central guarantee.

    Returns
    -------
    Shuffled
        Its `epsilon` is the central epsilon, an upper bound.

    Raises
    ------
    ParameterError
        If `people` is below 1, or delta below 1e-300.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.local.shuffle(epsilon=1, people=10_000, delta="1e-6").epsilon < 0.1
    True
    """
    from sfumato.methods.local.shuffle_amplification import shuffle as amplify

    return amplify(epsilon=epsilon, people=people, delta=delta)


def adjust(estimate: pa.Table, how: str) -> Adjusted:
    """Make estimated shares non-negative, or non-negative with sum 1.

    Estimates are never adjusted unasked, because adjusting moves rare values up.

    Parameters
    ----------
    estimate : pyarrow.Table
        What `estimate` of an oracle returned.
    how : str
        "nonnegative", "scaled" (clipped at 0, then divided by the sum) or "simplex" (the nearest
        shares that are at least 0 and sum to 1).

    Returns
    -------
    Adjusted
        `table` has both shares of each value; `effect` simulates what adjusting does to the error.

    Raises
    ------
    ParameterError
        If the table is no estimate, or `how` is unknown.

    Examples
    --------
    >>> import sfumato as sf
    >>> oracle = sf.local.oracle("k-ary", 40, epsilon=1)
    >>> estimate = oracle.estimate(oracle.sketch(oracle.randomize([7] * 1000)))
    >>> min(sf.local.adjust(estimate, "simplex").table["share"].to_pylist()) >= 0
    True
    """
    from sfumato.methods.local.postprocess import adjust as adjust_shares

    return adjust_shares(estimate, how)


def most_likely(oracle: Oracle, sketch: ReportSketch) -> pa.Table:
    """Estimate shares by maximum likelihood (EM): they are at least 0 and sum to 1.

    Parameters
    ----------
    oracle : Oracle
        An oracle whose sketch counts each report: k-ary, warner or grid.
    sketch : ReportSketch
        The sums of the reports.

    Returns
    -------
    pyarrow.Table
        Columns value and share. The shares are biased and have no standard deviation.

    Raises
    ------
    ParameterError
        If the oracle's sketch does not count each report.
    SourceError
        If there is no report.

    Examples
    --------
    >>> import sfumato as sf
    >>> oracle = sf.local.oracle("k-ary", 3, epsilon=1)
    >>> shares = sf.local.most_likely(oracle, oracle.sketch(oracle.randomize([0, 1, 1, 2])))
    >>> round(sum(shares["share"].to_pylist()), 6)
    1.0
    """
    from sfumato.methods.local.postprocess import most_likely as maximize

    return maximize(oracle, sketch)


def contrast(
    epsilons: Sequence[Number | LocalEpsilon] | None = None, people: Sequence[int] | None = None
) -> Contrast:
    """Compare Laplace noise of a trusted collector with randomized response, by simulation.

    Parameters
    ----------
    epsilons : list, optional
        The epsilons to run, at least two of them up to 1.
    people : list of int, optional
        The numbers of people, at least two, from 2 to 10,000,000.

    Returns
    -------
    Contrast
        The error of a count by both methods, a picture and a report.

    Raises
    ------
    ParameterError
        If there are too few epsilons or numbers of people to fit how errors grow.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.local.contrast(["0.5", "1"], [100, 1000]).table.num_rows
    8
    """
    from sfumato.methods.local.central_comparison import EPSILONS, PEOPLE
    from sfumato.methods.local.central_comparison import contrast as run

    return run(EPSILONS if epsilons is None else epsilons, PEOPLE if people is None else people)
