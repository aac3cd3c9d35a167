"""Fourier coefficients: waves of one ordered column, parities of several columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.methods.publish.fourier.parities import prepare_parities
from sfumato.methods.publish.fourier.series import prepare_series

if TYPE_CHECKING:
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.method import Method
    from sfumato.methods.publish.request import Request


def prepare(
    request: Request, *, coefficients: object = None, way: object = None, of: object = None
) -> Method[Counter]:
    """Make the method for one column (`coefficients`: how many) or several (`way` or `of`)."""
    single = len(request.axes) == 1
    inapplicable = {"way": way, "of": of} if single else {"coefficients": coefficients}
    for name, value in inapplicable.items():
        if value is not None:
            raise ParameterError(
                "option_not_applicable",
                f"The option {name} of a Fourier publication is for "
                f"{'several columns' if single else 'one column'}, not for {len(request.axes)}. "
                "Leave it out.",
            )
    if single:
        return prepare_series(request, coefficients=coefficients)
    return prepare_parities(request, way=way, of=of)
