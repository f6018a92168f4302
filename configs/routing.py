"""How requests find their replica: what an operator sets. The rest follows from the profile."""

from typing import Annotated

from pydantic import Field

from configs.schema import Frozen


class RoutingConfig(Frozen):
    """Affinity with a spill threshold in milliseconds.

    profile: the file that `firstclause profile` wrote of this model on these machines. Without one, or with another
    model's, cautious rates take its place, and the log says so. max_wait_ms: an interactive request that would wait
    longer in front of its engine is refused at once (None: it waits). hysteresis: share of a prefix's prefill that a
    new copy of it has to gain beyond what it costs. max_entries bounds the memory, about 200 bytes each.
    """

    profile: str | None = None
    max_wait_ms: Annotated[float, Field(gt=0)] | None = None
    hysteresis: Annotated[float, Field(ge=0)] = 1.0
    max_entries: Annotated[int, Field(ge=1)] = 500_000
