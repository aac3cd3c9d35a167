"""Which oracle suits: the least variance, short reports among those near it, work in bounds.

At one epsilon k-ary response is best for few values (k < 3 e^epsilon + 2). For more, subset
selection, OUE and OLH have nearly the same variance and differ in the length of their reports and
in a collector's work; Hadamard response has the shortest reports and the least work, at more
variance. All of that is computed from public numbers and compared, and the choice says why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.methods.local.domains import choices
from sfumato.methods.local.exact_epsilon import level
from sfumato.methods.local.hadamard import HadamardResponse
from sfumato.methods.local.k_ary_response import KAry, Warner
from sfumato.methods.local.mechanism import people_of
from sfumato.methods.local.olh import OLH
from sfumato.methods.local.subset import SubsetSelection
from sfumato.methods.local.unary import OUE

if TYPE_CHECKING:
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.mechanism import Oracle

NEAR = 1.05
"""Of oracles whose variance is within this of the least, the shortest report is taken."""

_MOST_STEPS = 10**11  # of a collector: minutes
_LONGEST = 1 << 13  # bytes of a report, unless told otherwise
_USUAL_PEOPLE = 10_000


def choose(
    domain: object,
    *,
    epsilon: Number | LocalEpsilon,
    n: int | None = None,
    most_bytes: int | None = None,
) -> Oracle:
    """The oracle for a domain, an epsilon, so many people and reports of so many bytes.

    Without `n` ten thousand people are thought of; without `most_bytes` 8,192 a report.
    """
    people = people_of(_USUAL_PEOPLE if n is None else n)
    room = _LONGEST if most_bytes is None else arguments.whole(most_bytes, "most_bytes")
    values, claimed = choices(domain), level(epsilon)
    if values.size == 2:
        best: Oracle = Warner(values, epsilon=claimed)
        best.why = "two values: nothing is better than Warner's response"
        return best
    oracles = [
        KAry(values, epsilon=claimed),
        HadamardResponse(values, epsilon=claimed),
        HadamardResponse(values, epsilon=claimed, blocks=_blocks(values.size, float(claimed))),
    ]
    if values.size <= 8 * room:
        oracles += [SubsetSelection(values, epsilon=claimed), OUE(values, epsilon=claimed)]
    # Where k-ary response is better anyway, hashing to e^epsilon numbers only takes room.
    if (
        min(people, values.size) * values.size <= _MOST_STEPS
        and math.exp(float(claimed)) < values.size
    ):
        oracles.append(OLH(values, epsilon=claimed))
    fitting = [oracle for oracle in oracles if oracle.layout.dtype.itemsize <= room]
    if not fitting:
        shortest = min(oracle.layout.dtype.itemsize for oracle in oracles)
        raise ParameterError(
            "parameter_out_of_range",
            f"No report over {values.size:,} values fits {room} bytes; the shortest takes "
            f"{shortest}. Allow as many, or declare fewer values.",
        )
    least = min(oracle.variance(people) for oracle in fitting)
    near = [oracle for oracle in fitting if oracle.variance(people) <= NEAR * least]
    best = min(near, key=lambda oracle: (oracle.layout.dtype.itemsize, oracle.variance(people)))
    best.why = _reason(best, fitting, people)
    return best


def _blocks(size: int, epsilon: float) -> int:
    """The blocks of Acharya, Sun and Zhang: about half of e^epsilon, a power of 2."""
    bit_count = math.ceil(math.log2(min(math.exp(epsilon), 2 * size))) - 1
    return min(1 << max(bit_count, 0), 1 << (size.bit_length() - 1))


def _reason(best: Oracle, fitting: list[Oracle], people: int) -> str:
    alternatives = {
        oracle.name: f"{oracle.name} {math.sqrt(oracle.variance(people)):.3g} in {_bytes(oracle)}"
        for oracle in sorted(fitting, key=lambda oracle: -oracle.variance(people))
        if oracle.name != best.name
    }
    spread = math.sqrt(best.variance(people))
    return (
        f"sd of a rare value's share from {people:,} reports {spread:.3g} in {_bytes(best)}; "
        f"others: {', '.join(alternatives.values())}"
    )


def _bytes(oracle: Oracle) -> str:
    size = oracle.layout.dtype.itemsize
    return f"{size} byte{'s' * (size != 1)}"
