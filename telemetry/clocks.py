"""The clocks of a request: where the time went between a client's request and its first token.

Each is a duration on one machine's monotonic clock, in ms; None where it was not taken (a reply that never began).
"""

from dataclasses import asdict, dataclass, fields

BOUNDARIES_MS = [0.5, 1, 2, 5, 10, 20, 35, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000, 5000, 10_000, 30_000]


@dataclass(slots=True)
class Clocks:
    """`engine_*` as vLLM reports them: arrival in the engine to first token, and its parts; the rest is the gateway's.

    gateway_queue_ms: waiting for admission. route_ms: choosing the replica. server_ttft_ms: request read to first
    chunk with content written.
    """

    engine_ttft_ms: float | None = None
    engine_queue_ms: float | None = None
    engine_prefill_ms: float | None = None
    gateway_queue_ms: float | None = None
    route_ms: float | None = None
    server_ttft_ms: float | None = None

    def update(self, other: "Clocks") -> None:
        """Take what the other one knows."""
        for name in NAMES:
            if (value := getattr(other, name)) is not None:
                setattr(self, name, value)

    def as_json(self) -> dict[str, float | None]:
        """To a hundredth of a millisecond."""
        return {name: value if value is None else round(value, 2) for name, value in asdict(self).items()}


NAMES = tuple(field.name for field in fields(Clocks))


class ClockHistograms:
    """Prometheus histograms of all clocks, `firstclause_<clock>`, by model and tenant class."""

    def __init__(self) -> None:
        from ray.util.metrics import Histogram

        self._histograms = {
            name: Histogram(f"firstclause_{name}", f"A request's {name}.", BOUNDARIES_MS, ("model", "tenant_class"))
            for name in NAMES
            if name != "route_ms"  # the router's own
        }

    def observe(self, clocks: Clocks, model: str, tenant_class: str) -> None:
        """Add what was taken."""
        tags = {"model": model, "tenant_class": tenant_class}
        for name, histogram in self._histograms.items():
            if (value := getattr(clocks, name)) is not None:
                histogram.observe(value, tags)
