"""A run's folder: every sample as Parquet, the summary as JSON, the report as HTML; written once, read by `compare`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from configs.errors import MISSING, InputError
from configs.schema import parse
from loadtests.callers import CallSample
from loadtests.load import LlmLoad, VoiceLoad
from loadtests.metrics import Metrics, counts, late_frame_share, llm_metrics, voice_metrics
from loadtests.run import Run
from loadtests.sample import LlmSample, columns
from loadtests.voice_analysis import Hear, TurnSample, turn_samples
from telemetry.statistics import Estimate

TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    list[float]: pa.list_(pa.float64()),
    list[int]: pa.list_(pa.int64()),
    list[str]: pa.list_(pa.string()),
    list[dict[str, Any]]: pa.list_(
        pa.struct([("clip", pa.string()), ("at_s", pa.float64()), ("barge_in", pa.bool_())])
    ),
}

SampleT = TypeVar("SampleT", LlmSample, TurnSample)


@dataclass(frozen=True)
class Results:
    """A run, its samples typed, its metrics worked out."""

    run: Run
    turns: list[TurnSample]
    metrics: Metrics

    @property
    def llm_samples(self) -> list[LlmSample]:
        return [_typed(LlmSample, row) for row in self.run.samples]

    @property
    def void(self) -> list[str]:
        """Why nothing that this run says may be trusted: one line a reason."""
        load, reasons = self.run.load, []
        if self.run.ended:
            reasons.append(f"the run ended early: {self.run.ended}")
        late = self.metrics["late_ms"].values
        late_share = float((late > load.late_ms).mean()) if len(late) else 0.0
        if late_share > load.late_share_max:
            reasons.append(f"{late_share:.1%} of starts were over {load.late_ms:g} ms late: the generator was too slow")
        if isinstance(load, VoiceLoad) and (frames := late_frame_share(self.run.samples)) > load.late_share_max:
            reasons.append(f"{frames:.1%} of audio frames were over 20 ms late: the callers were too slow")
        return reasons

    @property
    def not_sent(self) -> int:
        """Requests of conversations that broke off before them, or that the run's end came before."""
        load = self.run.load
        return self.run.planned * (load.turns if isinstance(load, LlmLoad) else 1) - len(self.run.samples)

    def document(self) -> dict[str, Any]:
        """The summary as JSON: metric -> statistic -> value and interval."""
        run = self.run
        return {
            "user": run.load.user,
            "url": run.load.url,
            "planned": run.planned,
            "not_sent": self.not_sent,
            "duration_s": run.duration_s,
            "ended": run.ended,
            "void": self.void,
            "outcomes": counts(sample["outcome"] for sample in run.samples),
            **({"turns": counts(turn.outcome for turn in self.turns)} if run.load.user == "voice" else {}),
            "metrics": {
                name: {
                    "unit": metric.unit,
                    "samples": metric.samples,
                    **{key: _estimate(value) for key, value in metric.statistics().items()},
                }
                for name, metric in self.metrics.items()
                if len(metric.values)
            },
            "machine": run.machine,
            "load": run.load.model_dump(mode="json", exclude_none=True),
            "folder": str(run.folder),
        }


def gather(
    run: Run, hear: Hear | None = None, progress: Callable[[int, int], None] = lambda done, calls: None
) -> Results:
    """Analyse a finished run and write its samples as Parquet. Raises InputError where the disk takes no more: the
    journals stay."""
    turns = list(turn_samples(run.folder / "calls", hear, progress)) if run.load.user == "voice" else []
    for turn in turns:
        if _was_interrupted(turn, run):
            turn.outcome = "interrupted"
    results = _results(run, turns)
    try:
        _write(
            run.folder / "samples.parquet", CallSample if turns or run.load.user == "voice" else LlmSample, run.samples
        )
        if run.load.user == "voice":
            _write(run.folder / "turns.parquet", TurnSample, [turn.document() for turn in turns])
        (run.folder / "summary.json").write_text(json.dumps(results.document(), indent=1), encoding="utf-8")
    except OSError as error:
        raise InputError(
            "loadtest", "--out", str(run.folder), f"{error.strerror or error}; the samples are in samples-*.jsonl there"
        ) from error
    for journal in run.folder.glob("samples-*.jsonl"):
        journal.unlink()
    return results


def read_results(folder: Path) -> Results:
    """What `gather` left in a folder. Raises InputError."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        samples = pq.read_table(folder / "samples.parquet").to_pylist()
        rows = pq.read_table(folder / "turns.parquet").to_pylist() if summary["user"] == "voice" else []
        load: LlmLoad | VoiceLoad
        if summary["user"] == "llm":
            load = parse(LlmLoad, summary["load"], str(folder))
        else:
            load = parse(VoiceLoad, summary["load"], str(folder))
        run = Run(
            folder, load, summary["planned"], summary["duration_s"], samples, summary["ended"], summary["machine"]
        )
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(folder), "", MISSING, f"holds no finished run ({error})") from error
    return _results(run, [_typed(TurnSample, row) for row in rows])


def metric_kinds(load: LlmLoad | VoiceLoad) -> Metrics:
    """The metrics that a run of this load will have, empty: for gates to be checked against before it."""
    return llm_metrics([], load, 1.0) if isinstance(load, LlmLoad) else voice_metrics([], [], load)


def _results(run: Run, turns: list[TurnSample]) -> Results:
    if isinstance(run.load, LlmLoad):
        samples = [_typed(LlmSample, row) for row in run.samples]
        return Results(run, turns, llm_metrics(samples, run.load, run.duration_s))
    counted = [turn for turn in turns if turn.outcome != "interrupted"]
    return Results(run, turns, voice_metrics(run.samples, counted, run.load))


def _was_interrupted(turn: TurnSample, run: Run) -> bool:
    """An answer still missing when the run was stopped is neither good nor bad."""
    call = next((row for row in run.samples if row["index"] == turn.call), None)
    last = call is not None and turn.turn == len(call["said"]) - 1
    return call is not None and call["outcome"] == "interrupted" and last and turn.outcome == "unanswered"


def _typed(kind: type[SampleT], row: dict[str, Any]) -> SampleT:
    names = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in row.items() if name in names})


def _write(path: Path, kind: type[Any], rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([("worker", pa.int64()), *((name, TYPES[hint]) for name, hint in columns(kind).items())])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def _estimate(estimate: Estimate) -> dict[str, float | None]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
