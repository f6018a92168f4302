"""The load tests' long checks: the truth table beside other tools, a known knee, and fifty calls in real time."""

import resource
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import soundfile

from configs.schema import parse
from loadtests.load import LlmLoad, VoiceLoad
from loadtests.metrics import late_frame_share
from loadtests.run import perform as perform_run
from loadtests.sweep import Knee
from loadtests.sweep_runs import perform_sweep
from loadtests.truth.peers import PEERS
from loadtests.truth.script import LlmScript
from loadtests.truth.table import CLIP_RATE, check, markdown, perform, scripted, tones
from loadtests.truth.voice_script import VoiceScript
from tests.verify.section import Part

CALLS = 50
LATE_SHARE = 0.01
SLOTS, KNEE_PER_S, KNEE_WITHIN = 4, 10.0, 0.05
Say = Callable[[str], None]


def verify(say: Say) -> Part:
    rows = perform((), tuple(PEERS), None, say)
    short = check(rows)
    say(f"{CALLS} calls at once")
    late, frames, cpu_s, wall_s = fifty_calls()
    if late >= LATE_SHARE:
        short.append(f"{late:.2%} of {CALLS} calls' frames were over 20 ms late, not under {LATE_SHARE:.0%}")
    say("a known knee")
    knee = known_knee(say)
    low, high = knee.holds_per_s or 0.0, knee.fails_per_s or float("inf")
    if not low * (1 - KNEE_WITHIN) <= KNEE_PER_S <= high * (1 + KNEE_WITHIN):
        short.append(f"the sweep found {low:.4g} to {high:.4g} requests a second, not {KNEE_PER_S:g}")
    text = f"""### What is reported, against what is known

`firstclause loadtest truth --peer all`. Floor: within 5 % or 5 ms of the known figure, the larger; counts exact. ✗: not
within; –: the tool has no such figure. What another tool calls TTFT stands beside ours from the due moment; it counts
tokens and failures in its own way.

{markdown(rows)}

### The knee

A server that answers {SLOTS} requests at a time, {SLOTS / KNEE_PER_S:g} s each, holds {KNEE_PER_S:g} a second. The
sweep found, in {len(knee.trials)} trials: {low:.4g} a second holds, {high:.4g} does not.

### Real time

{CALLS} calls in one process against a loopback echo that sends each frame back after 200 ms, {wall_s:.0f} s:
{late:.3%} of {frames:,} frames were sent over 20 ms late (floor: under {LATE_SHARE:.0%}); {cpu_s / wall_s:.0%} of one
core.
"""
    return Part(text, short)


def known_knee(say: Say) -> Knee:
    """`loadtest sweep llm` against a server whose capacity is known."""
    script = LlmScript(base_ms=200, chunks=11, chunk_ms=20, slots=SLOTS)
    data = {
        "arrivals": {"kind": "constant", "rate_per_s": 4, "duration_s": 12},
        "prompts": {"tokens": {"mean": 5}},
        "slo": {"due_ttft_ms": 500},
    }
    with tempfile.TemporaryDirectory() as folder, scripted("loadtests.truth.llm_server", script) as url:
        load = parse(LlmLoad, data | {"url": url}, "knee")
        return perform_sweep(load, Path(folder), None, None, 100, 0.1, 1, say, lambda _: nullcontext(lambda line: None))


def fifty_calls() -> tuple[float, int, float, float]:
    """The share of late frames, the frames, the callers' processor seconds, and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        clips = Path(folder) / "clips"
        clips.mkdir()
        soundfile.write(clips / "clip.wav", tones(((600, 90), (500, 200))), CLIP_RATE)
        load = parse(
            VoiceLoad,
            {
                "arrivals": {"kind": "constant", "rate_per_s": 10, "duration_s": CALLS / 10},
                "clips": str(clips),
                "turns": 6,
                "reply_timeout_s": 3,
                "hear": False,
            },
            "fifty calls",
        )
        before = _children_cpu_s()
        with scripted("loadtests.truth.voice_server", VoiceScript(echo_ms=200)) as url:
            run = perform_run(load.model_copy(update={"url": url}), Path(folder) / "out")
            cpu_s = _children_cpu_s() - before
        wall_s = max(call["ended_s"] for call in run.samples)
    assert [call["outcome"] for call in run.samples] == ["ok"] * CALLS
    return late_frame_share(run.samples), sum(call["sent_frames"] for call in run.samples), cpu_s, wall_s


def _children_cpu_s() -> float:
    """Of this process's children that have ended, and theirs."""

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
