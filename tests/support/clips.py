"""Making a caller's audio out of other audio."""

import numpy as np
import soxr

from loadtests.wav import Clip


def silence(seconds: float, rate: int = 16_000) -> Clip:
    return Clip(np.zeros((round(seconds * rate), 1), dtype=np.int16), rate)


def join(*clips: Clip) -> Clip:
    """One after the other, at the first one's rate."""
    rate = clips[0].rate
    return Clip(np.concatenate([at(clip, rate).samples for clip in clips]), rate)


def at(clip: Clip, rate: int, channels: int = 1) -> Clip:
    """The clip at another rate and channel count."""
    mono = clip.mono() if clip.rate == rate else soxr.resample(clip.mono(), clip.rate, rate)
    return Clip(np.repeat(mono[:, None], channels, axis=1), rate)


def cough(rate: int = 16_000, seconds: float = 0.25) -> Clip:
    """A burst of noise with a cough's envelope: loud, short and no voice."""
    generator = np.random.default_rng(7)
    time_s = np.arange(round(seconds * rate)) / rate
    noise = generator.normal(0, 1, len(time_s)) * np.exp(-time_s / 0.06)
    return Clip((noise * 9000).clip(-32767, 32767).astype(np.int16)[:, None], rate)


def noise(seconds: float, dbfs: float, rate: int = 16_000) -> Clip:
    """Steady pinkish noise at a level."""
    generator = np.random.default_rng(11)
    spectrum = np.fft.rfft(generator.normal(0, 1, round(seconds * rate)))
    spectrum /= np.sqrt(np.maximum(1, np.arange(len(spectrum))))
    samples = np.fft.irfft(spectrum)
    samples *= 32767 * 10 ** (dbfs / 20) / np.sqrt(np.mean(samples**2))
    return Clip(samples.clip(-32767, 32767).astype(np.int16)[:, None], rate)


def mix(voice: Clip, other: Clip, gain_db: float) -> Clip:
    """`other`, repeated to the voice's length, under it at a gain."""
    base = voice.mono().astype(np.float64)
    added = np.resize(at(other, voice.rate).mono().astype(np.float64), len(base)) * 10 ** (gain_db / 20)
    return Clip((base + added).clip(-32767, 32767).astype(np.int16)[:, None], voice.rate)
