"""The 300 ms, allocated line by line."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from configs.schema import Frozen, load

RESPONSE_MS = 300.0


class Line(Frozen):
    """One line of the budget."""

    allocation_ms: Annotated[float, Field(ge=0, le=RESPONSE_MS)]
    reason: Annotated[str, Field(min_length=1)]


class Budget(Frozen):
    """The lines of an answer; their allocations add up to 300 ms."""

    network: Line
    endpoint: Line
    asr: Line
    llm_first_token: Line
    clause: Line
    tts: Line

    @model_validator(mode="after")
    def _adds_up(self) -> "Budget":
        total = sum(self.allocation_ms().values())
        if abs(total - RESPONSE_MS) > 1e-6:
            raise ValueError(f"the allocations add up to {total:g} ms, not {RESPONSE_MS:g}")
        return self

    def allocation_ms(self) -> dict[str, float]:
        """Line -> ms, in the order in which they are spent."""
        return {name: getattr(self, name).allocation_ms for name in type(self).model_fields}


def load_budget(path: Path = Path(__file__).parent / "budgets.yaml") -> Budget:
    """The budget in a file. Raises InputError."""
    return load(Budget, path)
