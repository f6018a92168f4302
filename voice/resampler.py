"""Streams of PCM at any rate and channel count -> mono at one rate, by soxr, without a seam between messages."""

import numpy as np
import numpy.typing as npt
import soxr


class MonoResampler:
    """One direction of one call. A change of the input's rate starts a new stream."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._input_rate = rate
        self._stream: soxr.ResampleStream | None = None

    def mono(self, pcm: bytes, rate: int, channels: int) -> npt.NDArray[np.int16]:
        """int16 little-endian `pcm`, its channels interleaved -> mono int16 at this resampler's rate."""
        samples = np.frombuffer(pcm[: len(pcm) // (2 * channels) * 2 * channels], dtype=np.int16)
        if channels > 1:
            samples = samples.reshape(-1, channels).mean(axis=1).astype(np.int16)
        if rate != self._input_rate or (self._stream is None and rate != self._rate):
            self._input_rate = rate
            self._stream = None if rate == self._rate else _stream(rate, self._rate)
        if self._stream is None:
            return samples
        resampled: npt.NDArray[np.int16] = self._stream.resample_chunk(samples)
        return resampled


def _stream(from_rate: int, to_rate: int) -> soxr.ResampleStream:
    # QQ and LQ have the least delay; LQ keeps speech's band clean.
    return soxr.ResampleStream(from_rate, to_rate, 1, dtype="int16", quality="LQ")
