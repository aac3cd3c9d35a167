"""Warner's randomized response to a yes-or-no question: the oldest local mechanism."""

from __future__ import annotations

from sfumato.errors import ParameterError
from sfumato.methods.local.k_ary_response import KAry


class Warner(KAry):
    """Say the truth with chance p = e^epsilon / (1 + e^epsilon), its opposite otherwise.

    *Guarantee*: epsilon-LDP, epsilon = log(p / (1 - p)); a fair coin's p = 3/4 is log(3).
    *Sensitivity*: None to establish: a person says yes or no.
    *Error*: n Var = e^epsilon / (e^epsilon - 1)^2, whatever the true share; p (1 - p) / (2p - 1)^2.
    *Edges*: Two values only. That people are a sample of others adds f (1 - f) / n, which is no
    matter of privacy and not in it.
    *Reference*: Warner 1965.
    """

    name = "warner"

    def _prepare(self) -> None:
        if self.size != 2:
            raise ParameterError(
                "domain_not_two",
                f"warner asks a question of two answers, but domain has {self.size:,} values. "
                "Use 'k-ary' for more.",
            )
        super()._prepare()
