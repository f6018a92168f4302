"""A sweep's trials as runs, and its report: latency against load, and the knee."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from configs.errors import MISSING, InputError
from loadtests.arrivals import Spaced
from loadtests.charts import Chart
from loadtests.gates import Check, Gate, Verdict, judge
from loadtests.load import LlmLoad, VoiceLoad
from loadtests.report import page, table
from loadtests.results import gather
from loadtests.run import Progress, perform
from loadtests.speech import Speak
from loadtests.sweep import Knee, Trial, find_knee

Bar = Callable[[LlmLoad | VoiceLoad], AbstractContextManager[Progress]]
GROWS = "the queue only grows"


def default_gate() -> Gate:
    """Goodput: 95 % of what was due within the load's SLO."""
    return Gate(minimum_samples=10, checks=(Check(metric="within_slo", at_least=0.95),))


def perform_sweep(
    load: LlmLoad | VoiceLoad,
    folder: Path,
    gate: Gate | None,
    start_per_s: float | None,
    highest_per_s: float,
    tolerance: float,
    workers: int,
    say: Callable[[str], None],
    bar: Bar,
    speak: Speak | None = None,
) -> Knee:
    """Runs under `folder`, one folder a trial. Raises InputError for a load without a single rate."""
    arrivals = load.arrivals
    if not isinstance(arrivals, Spaced) or arrivals.rate_per_s is None:
        raise InputError("load", "arrivals", MISSING, "a sweep needs rate_per_s and duration_s")
    latency = ("due_ttft_ms", "e2e_ms") if isinstance(load, LlmLoad) else ("response_ms",)

    def trial(rate_per_s: float) -> Trial:
        at_rate = load.model_copy(update={"arrivals": arrivals.model_copy(update={"rate_per_s": rate_per_s})})
        say(f"trying {rate_per_s:.4g} a second")
        with bar(at_rate) as progress:
            out = folder / f"{rate_per_s:.6g}-per-s"
            results = gather(perform(at_rate, out, workers, stop_when_growing=True, progress=progress, speak=speak))
        grows = results.run.ended == GROWS
        judged = judge(gate or default_gate(), results.metrics, [] if grows else results.void)
        holds = False if grows else {Verdict.PASS: True, Verdict.FAIL: False}.get(judged.verdict)
        document: dict[str, Any] = {"ended": results.run.ended, "samples": len(results.run.samples)}
        document["lines"] = [str(line) for line in judged.lines] + judged.reasons
        document["within_slo"] = _statistic(results.metrics["within_slo"], "share")
        for name in latency:
            for statistic in ("p50", "p95"):
                document[f"{name}_{statistic}"] = _statistic(results.metrics[name], statistic)
        say(f"  {'holds' if holds else 'inconclusive' if holds is None else 'fails'}: {'; '.join(document['lines'])}")
        return Trial(rate_per_s, holds, document)

    return find_knee(trial, start_per_s or arrivals.rate_per_s, highest_per_s, tolerance)


def sweep_report(knee: Knee) -> str:
    """Latency and goodput against load with the knee, every trial in a table."""
    trials = sorted(knee.trials, key=lambda trial: trial.rate_per_s)
    names = [name for name in trials[0].document if name.endswith(("_p50", "_p95"))]
    latency = [(t.rate_per_s, *(t.document[name] for name in names)) for t in trials]
    goodput = [(t.rate_per_s, t.document["within_slo"]) for t in trials]
    load = "arrivals a second"
    rows = [
        [
            f"{t.rate_per_s:.4g}",
            {True: "holds", False: "fails", None: "inconclusive"}[t.holds],
            "; ".join(t.document["lines"]),
        ]
        for t in trials
    ]
    held = "nothing held" if knee.holds_per_s is None else f"it holds at {knee.holds_per_s:.4g} a second"
    mark = () if knee.holds_per_s is None else (("the knee", knee.holds_per_s),)
    failed = "" if knee.fails_per_s is None else f" and fails at {knee.fails_per_s:.4g}"
    return page(
        "Load sweep",
        [
            f"<h1>Load sweep</h1><p>The knee: {held}{failed}. {knee.stopped}</p>",
            Chart("Latency against load", (load, *names), latency, "ms", log_y=True, uprights=mark).html(),
            Chart("Within the SLO against load", (load, "share"), goodput, "share", uprights=mark).html(),
            "<h2>Trials</h2>",
            table([load, "verdict", "why"], rows),
        ],
    )


def _statistic(metric: Any, name: str) -> float | None:
    found = metric.statistics().get(name)
    return None if found is None else found.value
