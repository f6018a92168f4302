"""The cases: a scripted server, a schedule, and what must be reported. Requests are due evenly, the first at 0.

Known figures come from the script and the schedule alone, request by request, in the simplest way that can be
checked by hand; nothing of the load tests' own analysis is used.
"""

from dataclasses import dataclass

import numpy as np

from loadtests.truth.script import LlmScript
from loadtests.truth.voice_script import VoiceScript

SLO_TTFT_MS = 300.0


@dataclass(frozen=True)
class LlmCase:
    """`known`: metric and statistic -> the figure."""

    name: str
    about: str
    script: LlmScript
    rate_per_s: float
    requests: int
    known: dict[str, float]


@dataclass(frozen=True)
class VoiceCase:
    """Calls of `turns` clips; a clip is (sound, silence) pieces in ms."""

    name: str
    about: str
    script: VoiceScript
    calls: int
    turns: int
    clip_ms: tuple[tuple[float, float], ...]
    known: dict[str, float]
    barge_in: bool = False


def _stall(rate_per_s: float, requests: int, script: LlmScript) -> dict[str, float]:
    """Each request's first and last chunk, moved to the stall's end where they fall into it."""
    assert script.stall_s
    begin_s, end_s = script.stall_s
    firsts, ends = [], []
    for number in range(requests):
        due_s = number / rate_per_s
        first_s = due_s + script.base_ms / 1000
        last_s = first_s + (script.chunks - 1) * script.chunk_ms / 1000
        firsts.append(((end_s if begin_s <= first_s < end_s else first_s) - due_s) * 1000)
        ends.append(((end_s if begin_s <= last_s < end_s else last_s) - due_s) * 1000)
    return {
        "due_ttft_ms p90": float(np.quantile(firsts, 0.9)),
        "e2e_ms p90": float(np.quantile(ends, 0.9)),
        "failures": 0,
    }


def _every_fifth(fault: str, ttft_ms: float = 100) -> dict[str, float]:
    return {f"outcome {fault}": 10, "failures": 10, "ok": 40, "due_ttft_ms p50": ttft_ms}


STALL = LlmScript(base_ms=50, chunks=2, chunk_ms=20, stall_s=(3, 9))

LLM_CASES = (
    LlmCase(
        "steady", "100 ms to the first of 16 tokens, 20 ms apart",
        LlmScript(base_ms=100, chunks=16, chunk_ms=20, clocks=True), 10, 50,
        {"due_ttft_ms p50": 100, "inter_token_ms p50": 20, "e2e_ms p50": 400, "output_tokens": 800, "failures": 0,
         "engine_ttft_ms p50": 100, "client_over_engine p50": 1.0},
    ),
    LlmCase("stall", "nothing is sent from 3 s to 9 s; 10 a second for 12 s", STALL, 10, 120, _stall(10, 120, STALL)),
    LlmCase(
        "several tokens a chunk", "four tokens every 80 ms",
        LlmScript(base_ms=100, chunks=8, chunk_ms=80, tokens_per_chunk=4), 10, 50,
        {"inter_token_ms p50": 20, "inter_chunk_ms p50": 80, "output_tokens": 1600, "due_ttft_ms p50": 100},
    ),
    LlmCase(
        "dropped", "each fifth stream is reset after two chunks", LlmScript(base_ms=100, drop_every=5), 10, 50,
        _every_fifth("dropped"),
    ),
    LlmCase(
        "error in a 200", "each fifth stream turns into an error event", LlmScript(base_ms=100, error_every=5), 10, 50,
        _every_fifth("error_event"),
    ),
    LlmCase(
        "wrong answer with 200", "each fifth answer is some other JSON", LlmScript(base_ms=100, wrong_every=5), 10, 50,
        _every_fifth("malformed"),
    ),
    LlmCase(
        "no [DONE]", "each fifth stream just ends", LlmScript(base_ms=100, unfinished_every=5), 10, 50,
        _every_fifth("unfinished"),
    ),
    LlmCase(
        "empty", "each fifth answer has no content", LlmScript(base_ms=100, empty_every=5), 10, 50,
        _every_fifth("empty"),
    ),
    LlmCase(
        "refused", "each fifth connection is reset unanswered", LlmScript(base_ms=100, refuse_every=5), 10, 50,
        _every_fifth("refused"),
    ),
    LlmCase(
        "overloaded", "each fifth answer is 503", LlmScript(base_ms=100, status_every=5), 10, 50,
        _every_fifth("status"),
    ),
    LlmCase(
        "slow to accept", "a connection waits 300 ms before it is read", LlmScript(accept_ms=300), 10, 50,
        {"due_ttft_ms p50": 350, "failures": 0},
    ),
    LlmCase(
        "many at once", "3 s to the first token, 50 a second: 150 under way",
        LlmScript(base_ms=3000, chunks=2), 50, 200,
        {"due_ttft_ms p50": 3000, "due_ttft_ms p90": 3000, "ok": 200},
    ),
    LlmCase(
        "odd pieces", "events cut at every seventh byte, CRLF, comments",
        LlmScript(base_ms=100, odd_pieces=True), 10, 50,
        {"due_ttft_ms p50": 100, "inter_token_ms p50": 20, "output_tokens": 400, "failures": 0},
    ),
    LlmCase(
        "a slow quarter", "each fourth first token 400 ms later; the SLO is 300 ms",
        LlmScript(base_ms=100, slow_every=4, slow_ms=400, chunks=2), 10, 60,
        {"within_slo share": 0.75, "due_ttft_ms p50": 100},
    ),
)  # fmt: skip

SPOKEN = ((600, 90), (500, 200))

VOICE_CASES = (
    VoiceCase(
        "response", "answers after 250, 400 and 900 ms", VoiceScript(response_ms=(250, 400, 900)), 3, 3, SPOKEN,
        {"response_ms p50": 400, "response_ms min": 250, "response_ms max": 900, "unanswered": 0, "cut_off": 0},
    ),
    VoiceCase(
        "holes", "450 ms of silence inside each answer, and 200 that are no hole",
        VoiceScript(answer_ms=((500, 450), (400, 200), (400, 0))), 2, 3, SPOKEN,
        {"hole_ms p50": 450, "holes": 6, "response_ms p50": 400},
    ),
    VoiceCase(
        "holes unsent", "nothing at all is sent for 700 ms",
        VoiceScript(answer_ms=((500, 700), (400, 0)), silent_holes=False), 2, 3, SPOKEN,
        {"hole_ms p50": 700, "holes": 6},
    ),
    VoiceCase(
        "missing and doubled", "each third turn unanswered, each fourth answered twice",
        VoiceScript(unanswered_every=3, double_every=4), 2, 4, SPOKEN,
        {"unanswered": 2, "doubled": 2, "cut_off": 0, "response_ms p50": 400},
    ),
    VoiceCase(
        "cut off", "the agent talks into each second turn's pause",
        VoiceScript(cut_off_every=2, quiet_ms=700, response_ms=(900,)), 2, 2, ((600, 600), (500, 200)),
        {"cut_off": 2, "response_ms p50": 900, "unanswered": 0},
    ),
    VoiceCase(
        "barge-in", "the caller talks over a long answer, which ends 200 ms later",
        VoiceScript(answer_ms=((4000, 0),), stop_ms=200), 2, 3, SPOKEN,
        {"stop_ms p50": 200, "response_ms p50": 400, "unanswered": 0}, barge_in=True,
    ),
)  # fmt: skip
