"""Every case, run: what is known, what the load tests report, what other tools report, in one table."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from configs.errors import InputError
from configs.schema import parse
from loadtests.load import LlmLoad, VoiceLoad
from loadtests.results import Results, gather
from loadtests.run import perform as perform_run
from loadtests.truth.cases import LLM_CASES, SLO_TTFT_MS, VOICE_CASES, LlmCase, VoiceCase
from loadtests.truth.peers import PEERS, Peer, Task

WITHIN_SHARE, WITHIN_MS = 0.05, 5.0
CLIP_RATE = 16_000


@dataclass(frozen=True)
class Row:
    """One figure of one case. None: the tool has no such figure."""

    case: str
    metric: str
    known: float
    product: float | None
    others: dict[str, float | None]

    def document(self) -> dict[str, Any]:
        return asdict(self)

    def right(self, value: float | None) -> bool:
        """Within 5 % or 5 ms, the larger; counts exactly."""
        if value is None:
            return False
        if "_ms " in self.metric:
            return abs(value - self.known) <= max(WITHIN_MS, WITHIN_SHARE * self.known)
        if " p" in self.metric:
            return abs(value - self.known) <= WITHIN_SHARE * self.known
        return value == self.known


def perform(
    names: Sequence[str], peers: Sequence[str], out: Path | None, say: Callable[[str], None] = lambda line: None
) -> list[Row]:
    """Run the cases (none named: all), the load tests first, then each peer. Raises InputError for an unknown name."""
    known = [case.name for case in (*LLM_CASES, *VOICE_CASES)]
    for name in names:
        if name not in known:
            raise InputError("truth", "--case", name, f"no such case; one of {', '.join(known)}")
    chosen = list(PEERS) if "all" in peers else list(peers)
    for name in chosen:
        if name not in PEERS:
            raise InputError("truth", "--peer", name, f"no such tool; one of {', '.join(PEERS)}, or all")
    rows = []
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="truth-")))
        tools: dict[str, Peer] = {}
        for name in chosen:
            say(f"preparing {name}")
            tools[name] = stack.enter_context(PEERS[name]())
        for case in (*LLM_CASES, *VOICE_CASES):
            if names and case.name not in names:
                continue
            say(f"case: {case.name}")
            if isinstance(case, LlmCase):
                rows += _llm_rows(case, folder, tools, say)
            else:
                rows += _voice_rows(case, folder)
    return rows


def check(rows: Sequence[Row]) -> list[str]:
    """What the load tests report wrongly, a line each."""
    return [
        f"{row.case}: {row.metric} is {row.known:g}, not {row.product}" for row in rows if not row.right(row.product)
    ]


def markdown(rows: Sequence[Row]) -> str:
    """The table; a figure that is wrong is marked."""
    tools = list(dict.fromkeys(name for row in rows for name in row.others))
    lines = [
        f"| case | metric | known | firstclause | {''.join(f'{name} | ' for name in tools)}".rstrip(),
        "|---|---|---|---|" + "---|" * len(tools),
    ]
    for row in rows:
        cells = [_cell(row, row.product), *(_cell(row, row.others.get(name)) for name in tools)]
        lines.append(f"| {row.case} | {row.metric} | {row.known:.5g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Row, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" + ("" if row.right(value) else " ✗")


@contextmanager
def scripted(module: str, script: Any) -> Iterator[str]:
    """A scripted server as a process; yields its URL."""
    command = [sys.executable, "-m", module, "--script", script.model_dump_json()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            if not port:
                raise RuntimeError(f"{module} did not start")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def _llm_rows(case: LlmCase, folder: Path, tools: dict[str, Peer], say: Callable[[str], None]) -> list[Row]:
    load = parse(
        LlmLoad,
        {
            "arrivals": {
                "kind": "constant",
                "rate_per_s": case.rate_per_s,
                "duration_s": case.requests / case.rate_per_s,
            },
            "prompts": {"tokens": {"mean": 8}},
            "output_tokens": {"mean": case.script.chunks * case.script.tokens_per_chunk},
            "slo": {"due_ttft_ms": SLO_TTFT_MS},
        },
        case.name,
    )
    with scripted("loadtests.truth.llm_server", case.script) as url:
        results = gather(perform_run(load.model_copy(update={"url": url}), folder / case.name.replace(" ", "-")))
    found = {metric: llm_figure(results, metric) for metric in case.known}
    others: dict[str, dict[str, float | None]] = {}
    for name, tool in tools.items():
        say(f"  {name}")
        with scripted("loadtests.truth.llm_server", case.script) as url:
            tokens = case.script.chunks * case.script.tokens_per_chunk
            others[name] = tool.measure(Task(url, case.rate_per_s, case.requests, tokens, SLO_TTFT_MS))
    return [
        Row(case.name, metric, known, found[metric], {name: figures.get(metric) for name, figures in others.items()})
        for metric, known in case.known.items()
    ]


def llm_figure(results: Results, metric: str) -> float | None:
    """A figure of the table from a run's results."""
    samples = results.llm_samples
    if metric == "failures":
        return float(sum(not sample.good for sample in samples))
    if metric == "ok":
        return float(sum(sample.good for sample in samples))
    if metric == "output_tokens":
        return float(sum(sample.output_tokens for sample in samples if sample.good))
    name, statistic = metric.split(" ")
    if name == "outcome":
        return float(sum(sample.outcome == statistic for sample in samples))
    estimate = results.metrics[name].statistics().get(statistic)
    return None if estimate is None else estimate.value


def _voice_rows(case: VoiceCase, folder: Path) -> list[Row]:
    run_folder = folder / f"voice-{case.name.replace(' ', '-')}"
    clips = folder / f"{run_folder.name}-clips"
    clips.mkdir(parents=True)
    soundfile.write(clips / "clip.wav", tones(case.clip_ms), CLIP_RATE)
    load = parse(
        VoiceLoad,
        {
            "arrivals": {"kind": "constant", "rate_per_s": 2, "duration_s": case.calls / 2},
            "clips": str(clips),
            "turns": case.turns,
            "reply_timeout_s": 3,
            "barge_in_share": float(case.barge_in),
            "hear": False,
        },
        case.name,
    )
    with scripted("loadtests.truth.voice_server", case.script) as url:
        results = gather(perform_run(load.model_copy(update={"url": url}), run_folder))
    return [Row(case.name, metric, known, voice_figure(results, metric), {}) for metric, known in case.known.items()]


def voice_figure(results: Results, metric: str) -> float | None:
    """A figure of the table from a run's turns."""
    holes = [hole for turn in results.turns for hole in turn.holes_ms]
    if metric == "holes":
        return float(len(holes))
    if metric == "hole_ms p50":
        return float(np.median(holes)) if holes else None
    name, _, statistic = metric.partition(" ")
    found = results.metrics[name]
    if not statistic:
        return float(found.values.sum())
    estimate = found.statistics().get(statistic)
    return None if estimate is None else estimate.value


def tones(pieces_ms: Sequence[tuple[float, float]]) -> "np.ndarray[Any, np.dtype[np.int16]]":
    """50 ms of silence, then (sound, silence) pieces: 300 Hz at -11 dBFS, loud from its first sample on."""
    parts = [np.zeros(int(CLIP_RATE * 0.05), dtype=np.int16)]
    for sound_ms, silence_ms in pieces_ms:
        at = np.arange(int(CLIP_RATE * sound_ms / 1000)) / CLIP_RATE
        parts.append((9_000 * np.cos(2 * np.pi * 300 * at)).astype(np.int16))
        parts.append(np.zeros(int(CLIP_RATE * silence_ms / 1000), dtype=np.int16))
    return np.concatenate(parts)
