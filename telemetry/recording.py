"""A call as its client heard it: left the caller, right the agent, one sample clock that starts with the call."""

import itertools
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from telemetry.sound import Samples


@dataclass(frozen=True)
class Piece:
    """Samples at a rate of their own, and where they stand: in samples of the recording."""

    start: int
    samples: Samples
    rate: int
    end: int


class CallRecording:
    """Two growing mono tracks at one rate. Times are seconds since the call's first sample."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._caller: list[Piece] = []
        self._agent: list[Piece] = []

    def say(self, samples: Samples, at_s: float, rate: int | None = None) -> None:
        """The caller's samples, spoken from `at_s` on; `rate` is theirs, None the recording's."""
        self._caller.append(self._piece(round(at_s * self.rate), samples, rate or self.rate))

    def hear(self, samples: Samples, arrived_s: float, rate: int | None = None) -> float:
        """The agent's samples: each stands at the later of its arrival and its predecessor's end. Returns where."""
        end = self._agent[-1].end if self._agent else 0
        piece = self._piece(max(round(arrived_s * self.rate), end), samples, rate or self.rate)
        self._agent.append(piece)
        return piece.start / self.rate

    def _piece(self, start: int, samples: Samples, rate: int) -> Piece:
        return Piece(start, samples, rate, start + round(len(samples) * self.rate / rate))

    @property
    def heard_until_s(self) -> float:
        """Where the agent's last received sample ends."""
        return self._agent[-1].end / self.rate if self._agent else 0.0

    def agent_pieces(self) -> list[Piece]:
        """What was heard so far, as it arrived."""
        return self._agent

    def caller(self) -> Samples:
        return _track(self._caller, self.rate)

    def agent(self) -> Samples:
        return _track(self._agent, self.rate)

    def save_pieces(self, path: Path) -> None:
        """Write the pieces as they are: quick, for a process that has calls under way. Raises OSError."""
        tracks = {}
        for name, pieces in (("caller", self._caller), ("agent", self._agent)):
            tracks[name] = np.concatenate([np.zeros(0, np.int16), *(piece.samples for piece in pieces)])
            places = [(piece.start, piece.rate, len(piece.samples)) for piece in pieces]
            tracks[f"{name}_pieces"] = np.array(places, dtype=np.int64).reshape(-1, 3)
        with path.open("wb") as file:
            np.savez(file, rate=self.rate, **tracks)

    @classmethod
    def load_pieces(cls, path: Path) -> "CallRecording":
        """What `save_pieces` wrote. Raises OSError, ValueError."""
        with np.load(path, allow_pickle=False) as saved:
            recording = cls(int(saved["rate"]))
            for name, pieces in (("caller", recording._caller), ("agent", recording._agent)):
                samples, at = saved[name], 0
                for start, rate, count in saved[f"{name}_pieces"].tolist():
                    pieces.append(recording._piece(start, samples[at : at + count], rate))
                    at += count
        return recording

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


def _track(pieces: list[Piece], rate: int) -> Samples:
    track = np.zeros(max((piece.end for piece in pieces), default=0), dtype=np.int16)
    for run in _runs(pieces):
        samples = np.concatenate([piece.samples for piece in run])
        if run[0].rate != rate:
            samples = soxr.resample(samples, run[0].rate, rate)
        samples = samples[: len(track) - run[0].start]
        track[run[0].start : run[0].start + len(samples)] = samples
    return track


def _runs(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Pieces that follow each other without a gap at one rate: resampled in one, they meet without a click."""
    breaks = [0]
    for before, after in itertools.pairwise(pieces):
        breaks.append(breaks[-1] + (after.start != before.end or after.rate != before.rate))
    for _, run in itertools.groupby(zip(breaks, pieces, strict=False), key=lambda pair: pair[0]):
        yield [piece for _, piece in run]
