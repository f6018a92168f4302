"""Audio files as a caller's samples, their rate and channels kept: what the product must cope with."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from configs.errors import MISSING, InputError
from telemetry.sound import Samples

MAX_S = 600
RATES = (8_000, 96_000)


@dataclass(frozen=True)
class Clip:
    """int16 samples, shape (n, channels)."""

    samples: "np.ndarray[tuple[int, int], np.dtype[np.int16]]"
    rate: int

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate

    def mono(self) -> Samples:
        """The channels' mean, shape (n,)."""
        mono: Samples = self.samples.mean(axis=1).astype(np.int16)
        return mono


def read_clip(path: Path) -> Clip:
    """A WAV, FLAC or MP3 file. Raises InputError if it is missing, no audio, truncated, empty or too long."""
    try:
        with soundfile.SoundFile(path) as file:
            expected, rate = file.frames, file.samplerate
            samples = file.read(dtype="int16", always_2d=True)
    except (soundfile.SoundFileError, OSError) as error:
        problem = "no such file" if not path.exists() else f"not an audio file that can be read ({error})"
        raise InputError(str(path), "", MISSING, problem) from error
    if _truncated(path):
        raise InputError(str(path), "", MISSING, "is truncated: its header promises more than the file holds")
    if not len(samples):
        raise InputError(str(path), "", MISSING, "holds no sound")
    if len(samples) < expected:
        raise InputError(str(path), "", MISSING, f"is truncated: {len(samples)} of {expected} samples")
    if not RATES[0] <= rate <= RATES[1]:
        raise InputError(str(path), "sample rate", rate, f"expected {RATES[0]} to {RATES[1]} Hz")
    if samples.shape[1] > 2:
        raise InputError(str(path), "channels", samples.shape[1], "expected mono or stereo")
    if len(samples) > MAX_S * rate:
        raise InputError(str(path), "duration", f"{len(samples) / rate:.0f} s", f"longer than {MAX_S} s")
    return Clip(samples, rate)


def _truncated(path: Path) -> bool:
    """Whether a WAV's header promises more bytes than there are; the library reads such a file as a shorter one.

    A size of zero or of all ones is a stream's, whose length was not known when it began.
    """
    with path.open("rb") as file:
        head = file.read(8)
    promised = int.from_bytes(head[4:8], "little")
    return head[:4] == b"RIFF" and promised not in (0, 0xFFFFFFFF) and promised + 8 > path.stat().st_size
