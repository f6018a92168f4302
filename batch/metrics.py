"""What batch got done, in /metrics: rows and the tokens that were paid for."""

from batch.journal import Finished


class JobMetrics:
    """Counts on from what was finished before this attempt."""

    def __init__(self, finished: Finished) -> None:
        from ray.util.metrics import Counter

        self._rows = Counter("firstclause_batch_rows_total", "Rows finished.", ("kind",))
        self._tokens = Counter("firstclause_batch_tokens_total", "Tokens harvested.", ("kind",))
        self._finished = finished
        self._seen = _figures(finished)

    def observe(self) -> None:
        """Add what was finished since."""
        found = _figures(self._finished)
        for key, value in found.items():
            if (more := value - self._seen[key]) > 0:
                counter, kind = (self._rows, self._tokens)[key[0] == "tokens"], key[1]
                counter.inc(more, {"kind": kind})
        self._seen = found


def _figures(finished: Finished) -> dict[tuple[str, str], int]:
    return {
        ("rows", "completed"): finished.completed,
        ("rows", "failed"): finished.failed,
        ("tokens", "input"): finished.prompt_tokens - finished.cached_tokens,
        ("tokens", "cached"): finished.cached_tokens,
        ("tokens", "output"): finished.output_tokens,
    }
