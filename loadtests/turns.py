"""What a recorded call says of its turns: a pure function of the recording and the messages beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadtests.call import Event, Said
from telemetry.budget import all_lines_ms
from telemetry.recording import CallRecording
from telemetry.sound import first_loud_start_ms, last_loud_end_ms


@dataclass(frozen=True)
class TurnResult:
    """One clip that the caller spoke, and the answer. `response_ms` is None if no sound answered it."""

    transcript: str
    reply: str
    response_ms: float | None
    lines_ms: dict[str, float]
    flags: tuple[str, ...] = ()

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
    recording: CallRecording, said: Said, events: Sequence[Event], ping_ms: float | None, slack_ms: float
) -> TurnResult:
    """The turn of one spoken clip.

    `events` are the messages from the clip's start to the next clip's. `network` must lie between the round trip
    `ping_ms` and that plus `slack_ms`, or the turn is flagged.
    """
    turn_ends = last_loud_end_ms(said.clip.mono(), said.clip.rate)
    turns = [event for event in events if event.type == "server-message" and event.data.get("kind") == "turn"]
    replies = [event for event in events if event.type == "server-message" and event.data.get("kind") == "reply"]
    transcript = turns[-1].data["transcript"] if turns else ""
    reply = " ".join(event.data["text"] for event in replies if event.data["text"]).strip()
    if turn_ends is None:
        return TurnResult(transcript, reply, None, {}, ("silent clip",))
    turn_end_ms = said.at_s * 1000 + turn_ends
    audible_ms = first_loud_start_ms(recording.agent(), recording.rate, turn_end_ms)
    if audible_ms is None or not turns:
        return TurnResult(transcript, reply, None, {}, ("unanswered",))
    response_ms = audible_ms - turn_end_ms
    lines = all_lines_ms(turns[-1].data["lines_ms"], response_ms)
    flags = []
    if len(turns) > 1:
        flags.append(f"answered {len(turns)} times")
    if ping_ms is not None and not ping_ms <= lines["network"] <= ping_ms + slack_ms:
        flags.append(f"network {lines['network']:.0f} ms is not between {ping_ms:.1f} and {ping_ms + slack_ms:.0f} ms")
    return TurnResult(transcript, reply, response_ms, lines, tuple(flags))


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
