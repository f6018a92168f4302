"""A call as its client heard it: left the caller, right the agent, one sample clock that starts with the call."""

import wave
from pathlib import Path

import numpy as np

from telemetry.sound import Samples


class CallRecording:
    """Two growing mono tracks at one rate. Times are seconds since the call's first sample."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._caller: list[tuple[int, Samples]] = []
        self._agent: list[tuple[int, Samples]] = []
        self._agent_end = 0

    def say(self, samples: Samples, at_s: float) -> None:
        """The caller's samples, spoken from `at_s` on."""
        self._caller.append((round(at_s * self.rate), samples))

    def hear(self, samples: Samples, arrived_s: float) -> float:
        """The agent's samples: each stands at the later of its arrival and its predecessor's end. Returns where."""
        start = max(round(arrived_s * self.rate), self._agent_end)
        self._agent.append((start, samples))
        self._agent_end = start + len(samples)
        return start / self.rate

    @property
    def heard_until_s(self) -> float:
        """Where the agent's last received sample ends."""
        return self._agent_end / self.rate

    def caller(self) -> Samples:
        return _track(self._caller)

    def agent(self) -> Samples:
        return _track(self._agent)

    def save(self, path: Path) -> None:
        """Write a stereo WAV. Raises OSError."""
        left, right = self.caller(), self.agent()
        stereo = np.zeros((max(len(left), len(right)), 2), dtype="<i2")
        stereo[: len(left), 0], stereo[: len(right), 1] = left, right
        with wave.open(str(path), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(self.rate)
            file.writeframes(stereo.tobytes())


def _track(pieces: list[tuple[int, Samples]]) -> Samples:
    track = np.zeros(max((start + len(samples) for start, samples in pieces), default=0), dtype=np.int16)
    for start, samples in pieces:
        track[start : start + len(samples)] = samples
    return track
