"""A run's recordings -> a row a turn. After the run, so that it takes no time from the calls."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loadtests.call import Event, Said
from loadtests.conversation import WEBSOCKET_SLACK_MS
from loadtests.turns import TurnResult, answer_samples, turn_result
from loadtests.wav import Clip, read_clip
from telemetry.recording import CallRecording
from telemetry.sound import Samples

NO_ANSWER = "no_answer"
"""The reason of the application's notice that what it says is an apology."""
Hear = Callable[[Samples, int], str]
"""Mono samples and their rate -> the words in them."""


@dataclass
class TurnSample:
    """One turn of one call."""

    call: int
    turn: int
    due_s: float
    """The call's."""
    at_s: float
    """When the caller began to speak, in seconds of the call."""
    outcome: str
    """ok, unanswered, apology (the agent says it has no answer), silent clip, interrupted (the run was stopped)."""
    transcript: str = ""
    reply: str = ""
    heard: str | None = None
    """The agent's words as the recogniser understood them; None where it was not asked."""
    response_ms: float | None = None
    network_ms: float | None = None
    endpoint_ms: float | None = None
    asr_ms: float | None = None
    llm_first_token_ms: float | None = None
    clause_ms: float | None = None
    tts_ms: float | None = None
    cut_off: bool = False
    answers: int = 0
    holes_ms: list[float] = field(default_factory=list)
    barge_in: bool = False
    stop_ms: float | None = None
    interrupted: bool = False
    flags: list[str] = field(default_factory=list)
    answer_from_ms: float | None = None
    answer_until_ms: float | None = None
    llm_calls: int = 0
    """Calls to the LLM for this turn, as the application tells them."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


def turn_samples(
    folder: Path, hear: Hear | None = None, progress: Callable[[int, int], None] = lambda done, calls: None
) -> Iterator[TurnSample]:
    """Every turn of every call that was recorded in `folder`, in order. The recordings become WAV files on the way."""
    clips: dict[str, Clip] = {}
    paths = sorted(folder.glob("*.json"))
    for done, path in enumerate(paths):
        progress(done, len(paths))
        document = json.loads(path.read_text(encoding="utf-8"))
        recording = CallRecording.load_pieces(path.with_suffix(".npz"))
        recording.save(path.with_suffix(".wav"))
        path.with_suffix(".npz").unlink()
        for said in document["call"]["said"]:
            if said["clip"] not in clips:
                clips[said["clip"]] = read_clip(Path(said["clip"]))
        yield from call_turns(document, recording, clips, hear)


def call_turns(
    document: dict[str, Any], recording: CallRecording, clips: dict[str, Clip], hear: Hear | None
) -> Iterator[TurnSample]:
    """The turns of one call, from its recording and what was noted beside it."""
    call = document["call"]
    events = [Event(event["at_s"], event["type"], event["data"]) for event in document["events"]]
    for number, said in enumerate(call["said"]):
        until_s = call["said"][number + 1]["at_s"] if number + 1 < len(call["said"]) else None
        own = [event for event in events if event.at_s >= said["at_s"] and (until_s is None or event.at_s < until_s)]
        result = turn_result(
            recording, Said(clips[said["clip"]], said["at_s"]), own, call["ping_ms"], WEBSOCKET_SLACK_MS, until_s
        )
        sample = _sample(call, number, said, result, recording, hear)
        sample.llm_calls = sum(event.type == "bot-llm-started" for event in own)
        if any(event.data.get("reason") == NO_ANSWER for event in own if event.type == "server-message"):
            sample.outcome = "apology"
        yield sample


def _sample(
    call: dict[str, Any], number: int, said: dict[str, Any], result: TurnResult, recording: CallRecording,
    hear: Hear | None,
) -> TurnSample:  # fmt: skip
    outcome = "ok"
    if result.response_ms is None:
        outcome = next((flag for flag in ("silent clip", "unanswered") if flag in result.flags), "unanswered")
    sample = TurnSample(
        call["index"], number, call["due_s"], said["at_s"], outcome, result.transcript, result.reply,
        response_ms=result.response_ms, cut_off=result.cut_off, answers=result.answers, holes_ms=list(result.holes_ms),
        barge_in=said["barge_in"], stop_ms=result.stop_ms, interrupted=result.interrupted, flags=list(result.flags),
    )  # fmt: skip
    for line, ms in result.lines_ms.items():
        setattr(sample, f"{line}_ms", ms)
    if result.answer_ms is not None:
        sample.answer_from_ms, sample.answer_until_ms = result.answer_ms
        if hear is not None and result.reply:
            sample.heard = hear(answer_samples(recording, result), recording.rate)
    return sample
