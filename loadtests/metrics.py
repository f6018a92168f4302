"""Samples -> named metrics: values, flags or single figures, each with its unit and its clusters.

The names here are what gates may judge, reports show and comparisons compare.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loadtests.load import LlmLoad, LlmSlo, VoiceLoad
from loadtests.peers.load import PeerLoad
from loadtests.sample import CLOCKS, LlmSample
from loadtests.voice_analysis import TurnSample
from telemetry.budget import LINES
from telemetry.statistics import Estimate, mean, percentile, share

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Metric:
    """`values`, shape (n,), and the call or conversation that each belongs to. A flag's values are 0 and 1; a figure
    has one value, made `of` so many samples, and no interval."""

    kind: Literal["values", "flag", "figure"]
    unit: str
    values: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.int64]
    of: int = 0

    @property
    def samples(self) -> int:
        """How many the metric rests on."""
        return self.of if self.kind == "figure" else len(self.values)

    def statistics(self) -> dict[str, Estimate]:
        """Every statistic that this metric has; none where it has no samples."""
        if not len(self.values):
            return {}
        if self.kind == "figure":
            return {"value": Estimate(float(self.values[0]), None, None, self.of, self.of)}
        if self.kind == "flag":
            return {"share": share(self.values > 0, self.clusters)}
        found = {name: percentile(self.values, q, self.clusters) for name, q in PERCENTILES.items()}
        found["mean"] = mean(self.values, self.clusters)
        for name, value in (("min", self.values.min()), ("max", self.values.max())):
            found[name] = Estimate(float(value), None, None, len(self.values), found["mean"].clusters)
        return found


Metrics = dict[str, Metric]
STATISTICS = {"values": (*PERCENTILES, "mean", "min", "max"), "flag": ("share",), "figure": ("value",)}


def llm_metrics(samples: Sequence[LlmSample], load: LlmLoad, duration_s: float) -> Metrics:
    """Latencies are of good answers alone; failures are counted apart, and requests that the run's end interrupted
    nowhere. Rates are per second of the schedule."""
    counted = [sample for sample in samples if sample.outcome != "interrupted"]
    good = [sample for sample in counted if sample.good]
    metrics: Metrics = {
        "due_ttft_ms": _values(good, lambda s: _ms(s.due_s, s.first_token_s)),
        "ttft_ms": _values(good, lambda s: _ms(s.sent_s, s.first_token_s)),
        "connect_ms": _values(good, lambda s: _ms(s.sent_s, s.connected_s)),
        "inter_token_ms": _values(good, LlmSample.inter_token_ms),
        "inter_chunk_ms": _pooled(good, lambda s: list(np.diff(s.chunk_s) * 1000)),
        "e2e_ms": _values(good, lambda s: _ms(s.due_s, s.ended_s)),
        "prompt_tokens": _values(good, lambda s: s.prompt_tokens, "tokens"),
        "output_tokens": _values(good, lambda s: s.output_tokens, "tokens"),
        "late_ms": _values(samples, lambda s: _ms(s.due_s, s.sent_s)),
        "client_over_engine": _values(good, _client_over_engine, "×"),
        "failure": _flags(counted, lambda s: not s.good),
        "within_slo": _flags(counted, lambda s: s.good and meets(s, load.slo)),
        "requests_per_s": _figure(len(counted) / duration_s, "1/s", len(counted)),
        "goodput_per_s": _figure(sum(s.good and meets(s, load.slo) for s in counted) / duration_s, "1/s", len(counted)),
        "output_tokens_per_s": _figure(sum(s.output_tokens for s in good) / duration_s, "tokens/s", len(counted)),
    }
    for clock in CLOCKS:
        metrics[clock] = _values(good, lambda s, clock=clock: getattr(s, clock))  # type: ignore[misc]
    return metrics


def meets(sample: LlmSample, slo: LlmSlo) -> bool:
    """Whether a good answer holds every limit that is set; one with a single token has no inter-token time to fail."""
    pairs = (
        (_ms(sample.due_s, sample.first_token_s), slo.due_ttft_ms),
        (sample.inter_token_ms(), slo.inter_token_ms),
        (_ms(sample.due_s, sample.ended_s), slo.e2e_ms),
    )
    return all(limit is None or value is None or value <= limit for value, limit in pairs)


def voice_metrics(calls: Sequence[dict[str, Any]], turns: Sequence[TurnSample], load: VoiceLoad | PeerLoad) -> Metrics:
    """A turn that nobody answered counts with the time that the caller waited for it; one that was answered with an
    apology has no latency, and failed."""
    heard = [turn for turn in turns if turn.outcome != "silent clip"]
    judged = [turn for turn in heard if turn.outcome != "apology"]
    answered = [turn for turn in heard if turn.outcome == "ok"]
    counted = [call for call in calls if call["outcome"] != "interrupted"]
    wait_ms = load.reply_timeout_s * 1000
    metrics: Metrics = {
        "response_ms": _values(judged, lambda t: wait_ms if t.response_ms is None else t.response_ms),
        "stop_ms": _values(turns, lambda t: t.stop_ms),
        "late_ms": _values(calls, lambda c: _ms(c["due_s"], c["dialled_s"]), key="index"),
        "unanswered": _flags(heard, lambda t: t.outcome == "unanswered"),
        "apologised": _flags(heard, lambda t: t.outcome == "apology"),
        "cut_off": _flags(heard, lambda t: t.cut_off),
        "doubled": _flags(heard, lambda t: t.answers > 1),
        "holed": _flags(answered, lambda t: bool(t.holes_ms)),
        "within_slo": _flags(heard, lambda t: _voice_good(t, load)),
        "failure": _flags(counted, lambda c: c["outcome"] != "ok", key="index"),
        "late_frame_share": _figure(late_frame_share(calls), "", sum(call["sent_frames"] for call in calls)),
    }
    for line in LINES:
        metrics[f"{line}_ms"] = _values(answered, lambda t, line=line: getattr(t, f"{line}_ms"))  # type: ignore[misc]
    wer = wer_reply(turns)
    metrics["wer_reply"] = _figure(wer, "", len(_replies(turns)))
    return metrics


def late_frame_share(calls: Iterable[dict[str, Any]]) -> float:
    sent = sum(call["sent_frames"] for call in calls)
    return sum(call["late_frames"] for call in calls) / sent if sent else 0.0


def wer_reply(turns: Iterable[TurnSample]) -> float | None:
    """Word errors of what was heard against the replies' text, pooled; interrupted answers aside. None without any."""
    pairs = _replies(turns)
    if not pairs:
        return None
    import jiwer

    return float(jiwer.wer([reply for reply, _ in pairs], [heard for _, heard in pairs]))


def _replies(turns: Iterable[TurnSample]) -> list[tuple[str, str]]:
    """What was to be heard, and what was."""
    pairs = [
        (_plain(turn.reply), _plain(turn.heard or ""))
        for turn in turns
        if turn.heard is not None and not turn.interrupted
    ]
    return [pair for pair in pairs if pair[0]]


def _plain(text: str) -> str:
    kept = "".join(c if c.isalnum() or c in " '" else " " for c in text.lower().replace("-", " "))
    return " ".join(kept.split())


def counts(outcomes: Iterable[str]) -> dict[str, int]:
    return dict(Counter(outcomes).most_common())


def _voice_good(turn: TurnSample, load: VoiceLoad | PeerLoad) -> bool:
    return (
        turn.outcome == "ok"
        and turn.response_ms is not None
        and turn.response_ms <= load.slo.response_ms
        and not turn.cut_off
        and turn.answers <= 1
    )


def _client_over_engine(sample: LlmSample) -> float | None:
    client = _ms(sample.due_s, sample.first_token_s)
    return client / sample.engine_ttft_ms if client is not None and sample.engine_ttft_ms else None


def _ms(begin_s: float, end_s: float | None) -> float | None:
    return None if end_s is None else (end_s - begin_s) * 1000


def _cluster(sample: Any, key: str) -> int:
    if isinstance(sample, dict):
        return int(sample[key])
    return int(sample.conversation if isinstance(sample, LlmSample) else sample.call)


def _values(samples: Iterable[Any], of: Callable[[Any], float | None], unit: str = "ms", key: str = "") -> Metric:
    pairs = [(value, _cluster(sample, key)) for sample in samples if (value := of(sample)) is not None]
    return Metric(
        "values",
        unit,
        np.array([value for value, _ in pairs], dtype=float),
        np.array([c for _, c in pairs], dtype=np.int64),
    )


def _pooled(samples: Iterable[Any], of: Callable[[Any], list[float]]) -> Metric:
    pairs = [(value, _cluster(sample, "")) for sample in samples for value in of(sample)]
    return Metric(
        "values", "ms", np.array([v for v, _ in pairs], dtype=float), np.array([c for _, c in pairs], dtype=np.int64)
    )


def _flags(samples: Iterable[Any], of: Callable[[Any], bool], key: str = "") -> Metric:
    found = _values(samples, lambda sample: float(of(sample)), "", key)
    return Metric("flag", "", found.values, found.clusters)


def _figure(value: float | None, unit: str, of: int) -> Metric:
    values = np.array([] if value is None else [value], dtype=float)
    return Metric("figure", unit, values, np.zeros(len(values), dtype=np.int64), of)
