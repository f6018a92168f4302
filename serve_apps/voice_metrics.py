"""The voice application's counters (voice/tally.py) as Ray's metrics: firstclause_voice_NAME on /metrics."""

from ray.util.metrics import Counter

from voice.tally import COUNTERS


class RayTally:
    """A Tally of one replica; Ray tells its worker, and Prometheus adds the replicas up."""

    def __init__(self) -> None:
        self._counters = {name: Counter(f"firstclause_voice_{name}", about) for name, about in COUNTERS.items()}

    def __call__(self, name: str, number: float) -> None:
        # Ray's counters refuse to add nothing.
        if number:
            self._counters[name].inc(number)
