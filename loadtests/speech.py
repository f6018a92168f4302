"""Questions as audio files: spoken by the prepared speech model, in a process of its own (piper is GPL-licensed)."""

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from configs.errors import InputError
from configs.models import cache_dir, prepared


def spoken(texts: Sequence[str]) -> list[Path]:
    """A WAV file a text, kept in the cache. Raises InputError where the model is not prepared or cannot speak one."""
    voice = next(prepared("tts").glob("*.onnx"))
    folder = cache_dir() / "speech" / voice.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.wav" for text in texts]
    for text, path in zip(texts, paths, strict=True):
        if path.exists():
            continue
        part = path.with_suffix(".part.wav")
        done = subprocess.run(
            [sys.executable, "-m", "piper", "-m", str(voice), "-f", str(part)],
            input=text,
            text=True,
            capture_output=True,
        )
        if done.returncode or not part.exists():
            raise InputError("load", "questions", text, f"could not be spoken: {done.stderr.strip()[-200:]}")
        part.rename(path)
    return paths
