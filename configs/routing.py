"""How requests find their replica: what an operator sets. The rest follows from the profile (gateway.profile)."""

from typing import Annotated

from pydantic import Field

from configs.schema import Frozen
from configs.tenants import TenantClass

Ms = Annotated[float, Field(gt=0)]
MAX_WAIT_MS: dict[TenantClass, float] = {"voice": 5_000.0, "interactive": 30_000.0}


class RoutingConfig(Frozen):
    """Affinity with a spill threshold in milliseconds.

    max_wait_ms: a request of this class that would wait longer in front of its engine is refused at once, for whoever
    asked would have left by then; a class that is not named waits. hysteresis: share of a prefix's prefill that a new
    copy of it has to gain beyond what it costs. max_entries bounds the memory, about 200 bytes each.
    """

    max_wait_ms: dict[TenantClass, Ms] = MAX_WAIT_MS
    hysteresis: Annotated[float, Field(ge=0)] = 0.5
    max_entries: Annotated[int, Field(ge=1)] = 500_000
