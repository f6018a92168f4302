"""Who says the sentences: Piper at several pitches and paces, espeak-ng, and recordings of people.

Piper's sound is kept in the cache, since the checks are run again and again.
"""

import asyncio
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from configs.models import cache_dir, prepared
from configs.voice import Speaking
from loadtests.wav import read_clip
from voice.tts.piper import Voice

RATE = 16_000
Audio = npt.NDArray[np.int16]
"""Mono, 16 kHz."""


@dataclass(frozen=True)
class Speaker:
    """The Piper voice, made higher by `pitch`; `pace` 1 is its own, more is slower."""

    pitch: float
    pace: float

    @property
    def name(self) -> str:
        return f"Piper, pitch {self.pitch}, pace {self.pace}"


SPEAKERS = (Speaker(1.15, 1.0), Speaker(0.92, 1.15), Speaker(1.25, 0.9), Speaker(1.0, 0.85))


def say(texts: Sequence[str], speaker: Speaker) -> list[Audio]:
    """Each text by that speaker. Raises NotPrepared where there is no speech model."""
    folder = cache_dir() / "speech" / f"{prepared('tts').name}-{speaker.pitch}-{speaker.pace}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.wav" for text in texts]
    missing = {path: text for path, text in zip(paths, texts, strict=True) if not path.exists()}
    if missing:
        asyncio.run(_say_into(missing, speaker))
    return [soundfile.read(path, dtype="int16")[0] for path in paths]


async def _say_into(texts: dict[Path, str], speaker: Speaker) -> None:
    # Spoken slower by as much as the resampling then makes it faster and higher.
    voice = Voice(prepared("tts"), Speaking(length_scale=speaker.pitch * speaker.pace))
    await voice.start()
    try:
        for path, text in texts.items():
            sounds = [sound async for sound in voice.say(text, urgent=True)]
            samples = soxr.resample(np.concatenate(sounds), voice.sample_rate * speaker.pitch, RATE)
            part = path.with_suffix(".part.wav")
            soundfile.write(part, samples.astype(np.int16), RATE)
            part.rename(path)
    finally:
        await voice.stop()


def espeak(texts: Sequence[str]) -> list[Audio]:
    """Each text by espeak-ng at 150 words a minute."""
    spoken = []
    with tempfile.TemporaryDirectory() as folder:
        for text in texts:
            path = Path(folder) / "spoken.wav"
            subprocess.run(["espeak-ng", "-v", "en-us", "-s", "150", "-w", path, text], check=True)
            spoken.append(_mono(path))
    return spoken


RECORDED = {
    "jfk.flac": "And so, my fellow Americans, ask not what your country can do for you, ask what you can do for your "
    "country.",
    "beckett.wav": "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
    "weather_question.wav": "What is the weather in Paris?",
    "hello_world.wav": "Hello world.",
}
ACCENTS = "american_female australian_male canadian_female english_male indian_male irish_female south_african_male"
WELCOME = "Welcome to Moonshine Voice text to speech."


def recordings() -> dict[str, tuple[Audio, str]]:
    """The recordings by name, with what is said in them; none where SPEECH_DIR is unset."""
    folder = os.environ.get("SPEECH_DIR")
    if not folder:
        return {}
    said = RECORDED | {f"zipvoice_{accent}.wav": WELCOME for accent in ACCENTS.split()}
    return {name: (_mono(Path(folder) / name), text) for name, text in said.items()}


def room_noise(seconds: float) -> Audio:
    """An office, or where there is no recording of one, pink noise."""
    folder = os.environ.get("SPEECH_DIR")
    if folder:
        return _mono(Path(folder) / "office-ambience.mp3")[: round(seconds * RATE)]
    spectrum = np.fft.rfft(np.random.default_rng(11).normal(0, 1, round(seconds * RATE)))
    spectrum /= np.sqrt(np.maximum(1, np.arange(len(spectrum))))
    samples = np.fft.irfft(spectrum)
    return (samples * 3000 / np.abs(samples).max()).astype(np.int16)


def with_noise(audio: Audio, noise: Audio, snr_db: float) -> Audio:
    """`noise`, repeated, under the voice: so much softer than the voice's mean power where it is not silent."""
    voice = audio.astype(np.float64)
    power = np.mean(voice[np.abs(voice) > 100] ** 2)
    under = np.resize(noise.astype(np.float64), len(voice))
    under *= np.sqrt(power / 10 ** (snr_db / 10) / np.mean(under**2))
    return (voice + under).clip(-32767, 32767).astype(np.int16)


def silence(seconds: float) -> Audio:
    """Digital silence."""
    return np.zeros(round(seconds * RATE), dtype=np.int16)


def _mono(path: Path) -> Audio:
    clip = read_clip(path)
    return soxr.resample(clip.mono(), clip.rate, RATE).astype(np.int16)
