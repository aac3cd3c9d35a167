"""Privacy parameters as exact rationals, and the fixed-point units in which budgets are kept.

A parameter keeps the value its writer meant: a float stands for its decimal of 15 digits, so 0.1 is
one tenth and 0.1 + 0.2 is three tenths. Every decimal of so many digits survives being a float, and
the dust that sums of floats gather, which nobody meant, lies behind them. Texts, decimals and
fractions are exact. A budget is counted in whole units, and a cost is rounded up to the next one.

Decision `budgets`.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational

from sfumato import arguments
from sfumato.errors import ParameterError, option

EPSILON_UNIT = Fraction(1, 10**9)
RHO_UNIT = Fraction(1, 10**18)
DELTA_UNIT = Fraction(1, 10**18)

EPSILON_MAXIMUM = Fraction(10)
RHO_MAXIMUM = EPSILON_MAXIMUM**2 / 2

Number = int | float | Decimal | Fraction | str
"""What a caller may write for an exact number."""

_FLOAT_DIGITS = 15
# Longer texts and exponents would only serve to exhaust memory.
_LONGEST_TEXT = 400
_LARGEST_EXPONENT = 1000
_LARGEST_BITS = 8000
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_RATIO = re.compile(r"[+-]?\d+/\d+", re.ASCII)


def _refuse(name: str, problem: str, message: str) -> ParameterError:
    code = "parameter_not_number" if problem == "not_number" else "parameter_out_of_range"
    return ParameterError(code, message, parameter=name)


def exact(value: object, name: str) -> Fraction:
    """Read an exact number; `name` is what errors call the parameter."""
    if isinstance(value, bool):
        raise _not_number(value, name)
    if isinstance(value, Rational):
        number = Fraction(int(value.numerator), int(value.denominator))
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > _LARGEST_BITS:
            raise _refuse(name, "not_finite", f"{name} must be a number of ordinary size.")
        return number
    if isinstance(value, float):
        return _decimal(Decimal(f"{value:.{_FLOAT_DIGITS}g}"), name)
    if isinstance(value, Decimal):
        return _decimal(value, name)
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT:
        text = value.strip()
        if _RATIO.fullmatch(text) and text.split("/")[1].strip("0"):
            return Fraction(text)
        if _DECIMAL.fullmatch(text) or text.lower().lstrip("+-") in {"inf", "infinity"}:
            return _decimal(Decimal(text), name)
    raise _not_number(value, name)


def _decimal(value: Decimal, name: str) -> Fraction:
    if value.is_nan():
        raise _not_number(value, name)
    if value.is_infinite() or (value and abs(value.adjusted()) > _LARGEST_EXPONENT):
        raise _refuse(
            name,
            "not_finite",
            f"{name} must be a finite number of ordinary size, not {_quote(value)}.",
        )
    if not value:
        # The exponent of a zero may be of any size.
        return Fraction(0)
    return Fraction(value)


def _not_number(value: object, name: str) -> ParameterError:
    return _refuse(
        name,
        "not_number",
        f"{name} must be a number such as 0.1, '0.1' or '1/10', not {_quote(value)}.",
    )


def _quote(value: object) -> str:
    if isinstance(value, int) or not isinstance(value, float | Fraction | Decimal):
        return arguments.shown(value)
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else text[:37] + "..."


def not_negative(value: object, name: str) -> Fraction:
    """Read an exact number of at least 0."""
    number = exact(value, name)
    if number < 0:
        raise _refuse(
            name, "negative", f"{name} must not be negative, but {_quote(value)} was given."
        )
    return number


def share(value: object, name: str) -> Fraction:
    """Read an exact number of at least 0 that may be written as a percentage: 2% is 0.02."""
    return not_negative(_without_percent(value, name), name)


def _without_percent(value: object, name: str) -> object:
    text = value.strip() if isinstance(value, str) else ""
    if not text.endswith("%"):
        return value
    if not _DECIMAL.fullmatch(text[:-1].strip()):
        raise _not_number(value, name)
    return exact(text[:-1], name) / 100


def decimal_of(number: Fraction) -> str:
    """An exact number as people write it: 0.5, not 1/2; a ratio only where no decimal ends."""
    rest = number.denominator
    twos = (rest & -rest).bit_length() - 1
    rest >>= twos
    fives = 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return str(number)
    places = max(twos, fives)
    whole = f"{abs(int(number * 10**places)):0{places + 1}}"
    sign, point = "-" * (number < 0), "." * (places > 0)
    return f"{sign}{whole[: len(whole) - places]}{point}{whole[len(whole) - places :]}"


def integer_at_least(value: object, name: str, *, least: int) -> int:
    """Read a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a whole number of at least {least}, not {value!r}.",
        )
    return value


def positive(value: object, name: str) -> Fraction:
    """Read an exact number above 0."""
    number = exact(value, name)
    if number <= 0:
        raise _refuse(
            name, "not_positive", f"{name} must be above 0, but {_quote(value)} was given."
        )
    return number


def weight(value: object, name: str) -> Fraction:
    """Read how much something matters beside others, which all get a part that noise can hide."""
    number, most = positive(value, name), _LARGEST_WEIGHT
    if not 1 / most <= number <= most:
        raise _refuse(
            name,
            "out_of_range",
            f"{name} must be from {plain(1 / most)} to {plain(most)}, but {_quote(value)} was "
            "given. Only how weights compare matters.",
        )
    return number


_LARGEST_WEIGHT = Fraction(10**6)


def probability(value: object, name: str) -> Fraction:
    """Read an exact share from 0 up to, but not including, 1."""
    number = exact(_without_percent(value, name), name)
    if not 0 <= number < 1:
        raise _refuse(
            name,
            "out_of_range",
            f"{name} must be at least 0 and below 1, but {_quote(value)} was given.",
        )
    return number


def positive_delta(value: object) -> Fraction:
    """Read a delta where there must be one: above 0 and below 1."""
    number = probability(value, "delta")
    if number == 0:
        raise ParameterError(
            "parameter_out_of_range",
            "delta must be above 0 here: Gaussian noise, thresholds and approximate guarantees "
            f"need one. Give {option('delta', 1e-7)}, say, or use a pure mechanism.",
            parameter="delta",
        )
    return number


def store(record: object, **values: object) -> None:
    """Set checked fields of a frozen record while it is being made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def store_positive(record: object, *names: str) -> None:
    """Read fields of a frozen record as exact numbers above 0."""
    for name in names:
        store(record, **{name: positive(getattr(record, name), name)})


def epsilon(value: object, *, maximum: Fraction = EPSILON_MAXIMUM) -> Fraction:
    """Read an epsilon that a caller asks for: positive, countable, and within policy."""
    return _request(value, "epsilon", EPSILON_UNIT, maximum)


def rho_of(maximum: Fraction) -> Fraction:
    """The largest rho where this is the largest epsilon: both cost the same divergence at most."""
    return maximum**2 / 2


def rho(value: object, *, maximum: Fraction = RHO_MAXIMUM) -> Fraction:
    """Read a rho that a caller asks for: positive, countable, and within policy."""
    return _request(value, "rho", RHO_UNIT, maximum)


def _request(value: object, name: str, unit: Fraction, maximum: Fraction) -> Fraction:
    number = positive(value, name)
    if number < unit:
        raise _refuse(
            name,
            "below_unit",
            f"{name} {_quote(value)} is below {float(unit):.0e}, the smallest amount that a "
            "budget counts. Ask for at least that.",
        )
    if number > maximum:
        raise _refuse(
            name,
            "above_policy",
            f"{name} {_quote(value)} is above the policy maximum of {float(maximum):g}. "
            "Ask for less, or let the owner of the data raise the maximum: max_epsilon in "
            "vault.toml or of sf.protect.",
        )
    return number


def delta(value: object, *, size: int | None = None) -> Fraction:
    """Read a delta that a caller asks for; `size` is the declared, public number of people."""
    number = probability(value, "delta")
    if 0 < number < DELTA_UNIT:
        raise ParameterError(
            "parameter_out_of_range",
            f"delta {_quote(value)} is below {float(DELTA_UNIT):.0e}, the smallest amount that "
            "a budget counts. Ask for at least that, or for 0.",
            parameter="delta",
        )
    if size is not None and number * size > 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"delta {_quote(value)} is above 1/{size}, which would allow the rows of one person "
            f"to be published outright. Ask for far less than 1/{size}.",
            parameter="delta",
        )
    return number


def bounds(lower: object, upper: object, *, constant: bool = False) -> tuple[Fraction, Fraction]:
    """Read the ends of a declared range; equal ends only where a constant is meant."""
    low, high = exact(lower, "bound"), exact(upper, "bound")
    if low > high:
        raise ParameterError(
            "bounds_invalid",
            f"Bounds [{_quote(lower)}, {_quote(upper)}] are reversed: give the lower one first.",
        )
    if low == high and not constant:
        raise ParameterError(
            "bounds_invalid",
            f"Bounds [{_quote(lower)}, {_quote(upper)}] leave no range: give two different ends.",
        )
    if max(-low, high) > _LARGEST_BOUND:
        raise ParameterError(
            "bounds_invalid",
            f"Bounds [{_quote(lower)}, {_quote(upper)}] reach beyond 1e18: give narrower ones.",
        )
    return low, high


_LARGEST_BOUND = 10**18


def ceil_units(value: Fraction, unit: Fraction) -> int:
    """Count the units that cover an amount: what a cost takes."""
    return -floor_units(-value, unit)


def plain(number: Fraction, *, digits: int = 17, up: bool = False) -> str:
    """Write an amount as people do, 0.3 or 1e-6, in so many digits; cut off, or rounded `up`."""
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    text = context.divide(Decimal(number.numerator), Decimal(number.denominator)).normalize()
    if not text or _SMALLEST_PLAIN <= abs(text) < _LARGEST_PLAIN:
        return f"{text:f}"
    mantissa, _, exponent = f"{text:e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


_SMALLEST_PLAIN, _LARGEST_PLAIN = Decimal("0.001"), Decimal(10) ** 9


def float_below(number: Fraction) -> float:
    """The float that is read as this number, or as one just below: never more than there is."""
    return float(plain(number, digits=_FLOAT_DIGITS))


def floor_units(value: Fraction, unit: Fraction) -> int:
    """Count the units that fit into an amount: what a limit allows."""
    return (value / unit).__floor__()
