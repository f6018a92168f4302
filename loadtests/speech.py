"""Questions as audio files, spoken once and kept in the cache. Who speaks is the caller's: no voice is known here."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import soundfile

from configs.models import cache_dir, prepared
from loadtests.wav import Clip

Speak = Callable[[Sequence[str]], list[Clip]]


def spoken(texts: Sequence[str], speak: Speak) -> list[Path]:
    """A WAV file a text. Raises NotPrepared where there is no speech model."""
    folder = cache_dir() / "speech" / prepared("tts").name
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.wav" for text in texts]
    missing = [(text, path) for text, path in zip(texts, paths, strict=True) if not path.exists()]
    for clip, (_, path) in zip(speak([text for text, _ in missing]) if missing else [], missing, strict=True):
        part = path.with_suffix(".part.wav")
        soundfile.write(part, clip.samples, clip.rate)
        part.rename(path)
    return paths
