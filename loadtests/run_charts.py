"""The pictures of a run: distributions, latency over time, client over engine, the voice budget's lines."""

from collections.abc import Sequence

import numpy as np

from configs.budgets import load_budget
from loadtests.charts import Chart, Row
from loadtests.load import LlmLoad
from loadtests.metrics import Metric
from loadtests.results import Results
from telemetry.budget import LINES

SHARES = tuple(range(0, 101))
BINS, PER_BIN = 40, 5


def charts(results: Results) -> list[Chart]:
    """Those that this run has samples for."""
    drawn = _llm(results) if isinstance(results.run.load, LlmLoad) else _voice(results)
    return [chart for chart in drawn if chart.rows]


def _llm(results: Results) -> list[Chart]:
    load, samples = results.run.load, results.llm_samples
    assert isinstance(load, LlmLoad)
    marks = (("SLO", load.slo.due_ttft_ms),) if load.slo.due_ttft_ms else ()
    good = [sample for sample in samples if sample.good]
    firsts = [(s.due_s, (s.first_token_s - s.due_s) * 1000) for s in good if s.first_token_s is not None]
    clocked = [
        (s.engine_ttft_ms, (s.first_token_s - s.due_s) * 1000)
        for s in good
        if s.engine_ttft_ms and s.first_token_s is not None
    ]
    latencies = {
        "from due to first token": "due_ttft_ms",
        "from sent to first token": "ttft_ms",
        "from due to the end": "e2e_ms",
    }
    under_way = _in_flight([(s.sent_s, s.ended_s) for s in samples], results.run.duration_s)
    over_time = ("due (s)", "median", "p95")
    engine = ("engine's time to first token (ms)", "client's, from due")
    return [
        _quantiles(results, "Time to first token and to the end", latencies),
        _quantiles(results, "Between tokens", {"a token": "inter_token_ms", "a chunk": "inter_chunk_ms"}),
        Chart("First token over the run", over_time, _over_time(firsts), "ms from due", "points", marks=marks),
        Chart("Requests under way", ("time (s)", "in flight"), under_way, "requests"),
        Chart("Client over engine", engine, sorted(clocked)[:500], "ms", "points"),
        _outcomes(results, [(s.due_s, s.outcome) for s in samples]),
    ]


def _voice(results: Results) -> list[Chart]:
    turns = results.turns
    answered = [(turn.due_s + turn.at_s, turn.response_ms) for turn in turns if turn.response_ms is not None]
    allocation = load_budget().allocation_ms()
    lines: list[Row] = []
    measured = {line: results.metrics[f"{line}_ms"].values for line in LINES}
    if len(measured["endpoint"]):
        for name, q in (("p50", 0.5), ("p95", 0.95)):
            lines.append((name, *(float(np.quantile(measured[line], q)) for line in LINES)))
        lines.append(("allocated", *(allocation[line] for line in LINES)))
    limit = (("300 ms", 300.0),)
    under_way = _in_flight([(c["dialled_s"], c["ended_s"]) for c in results.run.samples], results.run.duration_s)
    over_time = ("time (s)", "median", "p95")
    return [
        _quantiles(results, "From the caller's last sound to the agent's first", {"response": "response_ms"}),
        Chart("The budget, line by line", ("", *LINES), lines, "ms", "bars", marks=limit),
        Chart("Response over the run", over_time, _over_time(answered), "ms", "points", marks=limit),
        Chart("Calls under way", ("time (s)", "calls"), under_way, "calls"),
        _outcomes(results, [(turn.due_s + turn.at_s, turn.outcome) for turn in turns]),
    ]


def _quantiles(results: Results, title: str, names: dict[str, str]) -> Chart:
    """Each metric's value at every per cent: the distribution, turned."""
    metrics: dict[str, Metric] = {label: results.metrics[name] for label, name in names.items()}
    metrics = {label: metric for label, metric in metrics.items() if len(metric.values)}
    rows = [
        (float(per_cent), *(float(np.quantile(metric.values, per_cent / 100)) for metric in metrics.values()))
        for per_cent in SHARES
    ]
    return Chart(title, ("per cent of samples at or under", *metrics), rows if metrics else [], "ms")


def _over_time(points: Sequence[tuple[float, float]]) -> list[Row]:
    """Median and p95 a bin, at the bin's middle."""
    return [
        (middle, float(np.quantile(values, 0.5)), float(np.quantile(values, 0.95))) for middle, values in _bins(points)
    ]


def _bins(points: Sequence[tuple[float, float]]) -> list[tuple[float, list[float]]]:
    if not points:
        return []
    begin, end = min(x for x, _ in points), max(x for x, _ in points)
    bins = min(BINS, max(1, len(points) // PER_BIN))
    width = max((end - begin) / bins, 1e-9)
    held: dict[int, list[float]] = {}
    for x, value in points:
        held.setdefault(min(int((x - begin) / width), bins - 1), []).append(value)
    return [(begin + (number + 0.5) * width, held[number]) for number in sorted(held)]


def _in_flight(spans: Sequence[tuple[float, float]], duration_s: float) -> list[Row]:
    """How many of the spans are open, at evenly spaced moments."""
    if not spans:
        return []
    begins, ends = np.sort([begin for begin, _ in spans]), np.sort([end for _, end in spans])
    moments = np.linspace(0, max(duration_s, float(ends[-1])), 121)
    open_ = np.searchsorted(begins, moments, "right") - np.searchsorted(ends, moments, "right")
    return [(float(at), float(count)) for at, count in zip(moments, open_, strict=True)]


def _outcomes(results: Results, outcomes: Sequence[tuple[float, str]]) -> Chart:
    """How many of each outcome a tenth of the run."""
    kinds = sorted({outcome for _, outcome in outcomes})
    width = max([results.run.duration_s, *(at for at, _ in outcomes)]) / 10
    rows: list[Row] = []
    for tenth in range(10 if outcomes else 0):
        inside = [outcome for at, outcome in outcomes if min(int(at / width), 9) == tenth]
        rows.append(
            (f"{tenth * width:.0f}-{(tenth + 1) * width:.0f} s", *(float(inside.count(kind)) for kind in kinds))
        )
    return Chart("Outcomes over the run", ("time", *kinds), rows, "samples", "bars")
