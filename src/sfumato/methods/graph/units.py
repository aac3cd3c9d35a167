"""What a method of graphs asks of the privacy unit and the price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError, option
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.methods.publish.form_kinds import FormRequest


def require_epsilon(epsilon: Fraction, least: Fraction) -> None:
    """Refuse less than a mechanism can tell anything by: distances it looks at are as 1 / epsilon.

    What it would tell is noise beyond every count, and after thousands of steps.
    """
    if epsilon < least:
        raise ParameterError(
            "parameter_out_of_range",
            f"A count of a graph needs an epsilon of at least {float(least):g}, but was given "
            f"{float(epsilon):g}: it would be noise alone. Give it more with {option('epsilon')}.",
        )


def edge_privacy(request: FormRequest, kind: str) -> Fraction:
    """The pure epsilon of a method that hides single edges; refused for every other unit."""
    unit = request.unit
    # Asked whether it is by person, a unit of two refuses and names what there is for it.
    if unit.by_person or unit.relation is not Neighbours.ADD_REMOVE:
        raise ParameterError(
            "unit_unsupported",
            f"A publication of kind {quoted(kind)} hides single edges, but the unit of "
            f'{quoted(request.dataset)} is another. Declare unit = "row".',
        )
    return spendings(request.price)[0].pure_epsilon()
