"""A recogniser for what the agent said: the prepared Whisper model, full window, on one thread."""

import numpy as np
import soxr

from configs.models import prepared
from loadtests.voice_analysis import Hear
from telemetry.sound import Samples

WHISPER_RATE = 16_000


def load_ears() -> Hear:
    """Loads the model (seconds). Raises NotPrepared."""
    folder = prepared("asr")
    from faster_whisper import WhisperModel

    model = WhisperModel(str(folder), device="cpu", compute_type="int8", local_files_only=True)

    def hear(samples: Samples, rate: int) -> str:
        audio = soxr.resample(samples.astype(np.float32) / 32768, rate, WHISPER_RATE)
        segments, _ = model.transcribe(audio, language="en", beam_size=5, condition_on_previous_text=False)
        return " ".join(segment.text.strip() for segment in segments)

    return hear
