"""What a recorded call says of its turns: a pure function of the recording and the messages beside it.

A turn is a clip that the caller spoke. Its answer is the agent's first sound after the clip's last one; where the agent
was still talking then (the caller barged in), after it fell silent. Whether there was an answer, when, and where it has
holes is judged by what is heard; the messages say only what was understood and meant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadtests.call import Event, Said
from telemetry.budget import all_lines_ms
from telemetry.recording import CallRecording
from telemetry.sound import WINDOW_MS, Samples, first_loud_start_ms, holes_ms, last_loud_end_ms, loud_windows

HOLE_MS = 300.0
BREATH_MS = 100.0
"""Shorter silences are inside words: after one this long, sound is a new beginning."""


@dataclass(frozen=True)
class TurnResult:
    """One clip that the caller spoke, and the answer. `response_ms` is None if no sound answered it."""

    transcript: str
    reply: str
    response_ms: float | None
    lines_ms: dict[str, float]
    flags: tuple[str, ...] = ()
    cut_off: bool = False
    """The agent began to talk before the caller had finished."""
    answers: int = 0
    """Replies that the agent gave to this one clip."""
    holes_ms: tuple[float, ...] = ()
    """Silences of over 300 ms inside the answer."""
    stop_ms: float | None = None
    """Where the caller barged in: from the clip's first sound to the agent's last."""
    answer_ms: tuple[float, float] | None = None
    """The answer's first sound and its last, in ms of the call."""
    interrupted: bool = False

    def document(self) -> dict[str, Any]:
        """As `talk --json` prints it."""
        document = {
            "transcript": self.transcript,
            "reply": self.reply,
            "response_ms": _round(self.response_ms),
            "lines_ms": {line: _round(ms) for line, ms in self.lines_ms.items()},
        }
        return document | ({"flags": list(self.flags)} if self.flags else {})


def turn_result(
    recording: CallRecording,
    said: Said,
    events: Sequence[Event],
    ping_ms: float | None,
    slack_ms: float,
    until_s: float | None = None,
) -> TurnResult:
    """The turn of one spoken clip.

    `events` are the messages from the clip's start to the next clip's, at `until_s` (None: the call's end). `network`
    must lie between the round trip `ping_ms` and that plus `slack_ms`, or the turn is flagged.
    """
    turns = _messages(events, "turn")
    replies = [data for data in _messages(events, "reply") if data.get("turn", 1) > 0]
    transcript = turns[-1]["transcript"] if turns else _last_heard(events)
    reply = " ".join(data["text"] for data in replies if data["text"]).strip() or _spoken(events)
    turn_ends = last_loud_end_ms(said.clip.mono(), said.clip.rate)
    begins = first_loud_start_ms(said.clip.mono(), said.clip.rate)
    if turn_ends is None or begins is None:
        return TurnResult(transcript, reply, None, {}, ("silent clip",))
    begin_ms, end_ms = said.at_s * 1000 + begins, said.at_s * 1000 + turn_ends
    agent = recording.agent()
    if until_s is not None:
        agent = agent[: round(until_s * recording.rate)]
    loud = loud_windows(agent, recording.rate)
    talking = _talking_at(loud, begin_ms)
    onset_ms, cut_off = answer_onset_ms(loud, begin_ms, end_ms)
    stop_ms = _stop_ms(loud, begin_ms) if talking else None
    answers = max(len(turns), sum(not data.get("interrupted") for data in replies))
    if onset_ms is None:
        return TurnResult(
            transcript, reply, None, {}, ("unanswered",), cut_off=cut_off, answers=answers, stop_ms=stop_ms
        )
    last_ms = float((np.flatnonzero(loud)[-1] + 1) * WINDOW_MS)
    response_ms = onset_ms - end_ms
    lines = all_lines_ms(turns[-1]["lines_ms"], response_ms) if turns and turns[-1]["lines_ms"] else {}
    flags = []
    if answers > 1:
        flags.append(f"answered {answers} times")
    if cut_off:
        flags.append("cut off")
    if lines and ping_ms is not None and not ping_ms <= lines["network"] <= ping_ms + slack_ms:
        flags.append(f"network {lines['network']:.0f} ms is not between {ping_ms:.1f} and {ping_ms + slack_ms:.0f} ms")
    return TurnResult(
        transcript, reply, response_ms, lines, tuple(flags), cut_off, answers,
        tuple(length for _, length in holes_ms(agent, recording.rate, HOLE_MS, onset_ms)), stop_ms, (onset_ms, last_ms),
        bool(replies and replies[-1].get("interrupted")),
    )  # fmt: skip


def answer_onset_ms(
    loud: "np.ndarray[Any, np.dtype[np.bool_]]", begin_ms: float, end_ms: float
) -> tuple[float | None, bool]:
    """When the agent's answer to a clip is first heard, and whether it began to talk inside the clip.

    `loud`: the agent's 10 ms windows, shape (n,); the clip's sound lasts from `begin_ms` to `end_ms`. Talk that goes on
    from before, or that began inside the clip, is no answer to it: the answer then follows a silence of BREATH_MS.
    """
    breath = int(BREATH_MS // WINDOW_MS)
    onsets = [i for i in np.flatnonzero(loud) if not loud[max(0, i - breath) : i].any()]
    starts = np.array(onsets, dtype=float) * WINDOW_MS
    inside = starts[(starts > begin_ms) & (starts < end_ms)]
    end_window = int(np.ceil(end_ms / WINDOW_MS))
    busy = bool(loud[max(0, end_window - breath) : end_window].any())
    if busy:
        after = starts[starts >= end_ms]
    else:
        after = np.flatnonzero(loud)[np.flatnonzero(loud) * WINDOW_MS >= end_ms].astype(float) * WINDOW_MS
    return (float(after[0]) if len(after) else None), bool(len(inside))


def _talking_at(loud: "np.ndarray[Any, np.dtype[np.bool_]]", at_ms: float) -> bool:
    window = int(at_ms // WINDOW_MS)
    return bool(loud[max(0, window - int(HOLE_MS // WINDOW_MS)) : window].any() and loud[window : window + 10].any())


def _stop_ms(loud: "np.ndarray[Any, np.dtype[np.bool_]]", begin_ms: float) -> float:
    """From `begin_ms` to the end of the sound under way: the first window that HOLE_MS of silence follows."""
    quiet = int(HOLE_MS // WINDOW_MS)
    at = int(begin_ms // WINDOW_MS)
    while at < len(loud) and loud[at : at + quiet].any():
        at += int(np.flatnonzero(loud[at : at + quiet])[-1]) + 1
    return at * WINDOW_MS - begin_ms


def _messages(events: Sequence[Event], kind: str) -> list[dict[str, Any]]:
    return [event.data for event in events if event.type == "server-message" and event.data.get("kind") == kind]


def _last_heard(events: Sequence[Event]) -> str:
    """The transcript as RTVI tells it: for applications without our own messages."""
    finals = [e.data["text"] for e in events if e.type == "user-transcription" and e.data.get("final")]
    return " ".join(finals).strip()


def _spoken(events: Sequence[Event]) -> str:
    return " ".join(e.data["text"].strip() for e in events if e.type == "bot-tts-text").strip()


def answer_samples(recording: CallRecording, result: TurnResult, margin_ms: float = 200) -> Samples:
    """The agent's side of the recording around the answer, shape (n,)."""
    assert result.answer_ms is not None
    first, last = (round(ms / 1000 * recording.rate) for ms in result.answer_ms)
    margin = round(margin_ms / 1000 * recording.rate)
    return recording.agent()[max(0, first - margin) : last + margin]


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
