"""A turn's events -> the budget's lines, along the critical path.

Two chains start at the caller's last sound: the wait for the end of the turn (endpoint), and the answer that was
begun at the guess (asr, llm_first_token, clause, tts). Sound starts when both are done. Overlapped work is charged
once, to the chain that ended last: if the answer was ready first, all is endpoint; else the endpoint line ends at the
guess and the answer's stages follow. Times are one machine's monotonic seconds.
"""

from dataclasses import dataclass

LINES = ("network", "endpoint", "asr", "llm_first_token", "clause", "tts")
SERVER_LINES = LINES[1:]


@dataclass(frozen=True)
class TurnEvents:
    """When each thing happened in a turn, in seconds of `time.monotonic()`. `voice_end` is when the last loud 10 ms
    window of the caller had arrived; `sound` is when the first audible window of the reply was handed on."""

    voice_end: float
    guess: float
    transcript: float
    first_token: float
    first_clause: float
    first_audio: float
    confirm: float
    sound: float


def server_lines_ms(events: TurnEvents) -> dict[str, float]:
    """The server's lines in ms; they add up to `sound` - `voice_end`."""
    e = events
    lines = dict.fromkeys(SERVER_LINES, 0.0)
    if e.first_audio <= e.confirm:
        marks = [("endpoint", e.confirm)]
    else:
        marks = [
            ("endpoint", e.guess),
            ("asr", e.transcript),
            ("llm_first_token", e.first_token),
            ("clause", e.first_clause),
        ]
    at = e.voice_end
    for line, end in marks:
        lines[line] += (end - at) * 1000
        at = end
    lines["tts"] += (e.sound - at) * 1000
    return lines


def all_lines_ms(server: dict[str, float], response_ms: float) -> dict[str, float]:
    """The client's view: `network` is what the server's lines leave of `response_ms`."""
    return {"network": response_ms - sum(server.values()), **server}
