"""What a planning topic is: a question, a scenario, a pure function of it, a closing sentence and a picture."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from configs.errors import MISSING, InputError
from planning.quantities import Outputs, Scenario

S = TypeVar("S", bound=Scenario)
O = TypeVar("O", bound=Outputs)  # noqa: E741


@dataclass(frozen=True)
class Row:
    """How an output is shown: annotates a field of an Outputs model."""

    formula: str
    unit: str = ""


@dataclass(frozen=True)
class Step:
    """One line of the table."""

    quantity: str
    formula: str
    value: Any
    unit: str


@dataclass(frozen=True)
class Picture:
    """A plot as data. x: numbers, or names for bars; each series has one y (None: no answer there) for each x."""

    x_label: str
    y_label: str
    x: list[float] | list[str]
    series: dict[str, list[float | None]] = field(default_factory=dict)
    bars: bool = False


@dataclass(frozen=True)
class Topic(Generic[S, O]):
    """One topic; `plan` raises InputError for a scenario that has no answer."""

    question: str
    scenario: type[S]
    plan: Callable[[S], O]
    finding: Callable[[S, O], str]
    picture: Callable[[S, O], Picture]

    def answer(self, scenario: S, source: str) -> O:
        """plan(scenario). Raises InputError where it has no answer, also where floats over- or underflow."""
        try:
            return self.plan(scenario)
        except (ArithmeticError, ValidationError) as error:
            problem = f"numbers this large or small leave no finite answer ({' '.join(str(error).split())})"
            raise InputError(source, "", MISSING, problem) from error


def steps(outputs: Outputs) -> list[Step]:
    """The outputs as lines that a person can follow, in the order in which they are worked out."""
    rows = []
    for name, info in type(outputs).model_fields.items():
        row = next(item for item in info.metadata if isinstance(item, Row))
        rows.append(Step(name, row.formula, getattr(outputs, name), row.unit))
    return rows


def sweep(
    plan: Callable[[S], O], scenario: S, key: str, values: Iterable[float], pick: Callable[[O], float | None]
) -> list[float | None]:
    """pick(plan(scenario with key = value)) for each value; None where the plan refuses it."""
    answers: list[float | None] = []
    for value in values:
        try:
            answers.append(pick(plan(scenario.model_copy(update={key: value}))))
        except InputError:
            answers.append(None)
    return answers


def between(low: float, high: float, points: int = 41) -> list[float]:
    """Evenly spaced values, both ends included."""
    return [low + (high - low) * i / (points - 1) for i in range(points)]
