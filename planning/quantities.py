"""The kinds of number that scenarios are made of, and the two roundings.

Every model here is strict: a string is never a number; NaN and infinity are refused (configs.schema).
"""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from configs.schema import Frozen


def _integral(value: Any) -> Any:
    """YAML's 1e4 is a float; where a whole number is wanted it is that number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
InnerFraction = Annotated[float, Field(gt=0, lt=1)]
Ceiling = Annotated[float, Field(gt=0, le=1)]
"""The share of a replica's time that may be planned for."""
Whole = Annotated[int, BeforeValidator(_integral), Field(ge=0)]
Count = Annotated[int, BeforeValidator(_integral), Field(ge=1)]
Name = Annotated[str, Field(min_length=1)]
Day = Annotated[tuple[NonNegative, ...], Field(min_length=24, max_length=24)]
"""24 values, one an hour."""


class Scenario(Frozen):
    """What a topic is asked: one mapping of a YAML file."""


class Outputs(Frozen):
    """What a topic answers; each field carries its `Row`."""


def round_up(x: float) -> int:
    """The least whole number >= x, forgiving the last digits that binary fractions lose. Raises OverflowError."""
    return math.ceil(_finite(x) - 1e-9)


def round_down(x: float) -> int:
    """The largest whole number <= x, forgiving likewise. Raises OverflowError."""
    return math.floor(_finite(x) + 1e-9)


def _finite(x: float) -> float:
    if not math.isfinite(x):
        raise OverflowError(f"{x} is not finite")
    return x
