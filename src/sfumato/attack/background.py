"""Background knowledge: an attacker who can exclude a few values of a victim is certain sooner.

*Attacker*: knows a person's class, and j values (`exclude`) that the person does not have: the
worst ones, which are the commonest other values of the class.
*Success*: the share of people of whose value the attacker is then certain: it has at least the
share `sure` of the remaining class, by default all of it.
*Baseline*: the same after the values are dealt out to the classes at random.
*Victims*: those people. A class with at least j + 2 values is safe from j exclusions.
*Reference*: Martin, Kifer, Machanavajjhala, Gehrke and Halpern, Worst-case background knowledge,
2007, for negations about the victim; Machanavajjhala et al. 2006.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.attack.beliefs import believed
from sfumato.attack.homogeneity import surely
from sfumato.data.schema.names import count

if TYPE_CHECKING:
    from sfumato.attack.case import Case
    from sfumato.attack.finding import Finding


def run(case: Case) -> Finding:
    """Find classes in which one value is left after `exclude` others are ruled out."""
    sure, exclude = case.options.sure, case.options.exclude
    return believed(
        case,
        "background",
        lambda _column, _values: lambda values: surely(values, exclude, sure),
        attacker=f"knows which class a person is in and can exclude {count(exclude, 'value')}",
        meaning=f"People whose {case.options.sensitive or 'sensitive value'} is certain after "
        f"{count(exclude, 'value')} {'is' if exclude == 1 else 'are'} excluded",
        reference="Martin et al. 2007",
    )
