"""Voice activity and turn completeness: the Silero and Smart Turn models that pipecat ships."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroOnnxModel

SAMPLE_RATE = 16_000
FRAME_SAMPLES = 512
FRAME_MS = FRAME_SAMPLES * 1000 / SAMPLE_RATE
SMART_TURN_S = 8


class VoiceActivity:
    """One caller's Silero state. A frame takes well under a millisecond, so it runs where the audio arrives."""

    def __init__(self) -> None:
        with resources.as_file(resources.files("pipecat.audio.vad.data") / "silero_vad.onnx") as path:
            self._model = SileroOnnxModel(str(path))  # type: ignore[no-untyped-call]

    def probability(self, frame: npt.NDArray[np.int16]) -> float:
        """Probability of a voice in 512 samples at 16 kHz."""
        return float(self._model(frame.astype(np.float32) / 32768.0, SAMPLE_RATE)[0][0])


class TurnCompleteness:
    """Smart Turn, shared by all calls of a replica, on a thread of its own."""

    def __init__(self) -> None:
        self._model = LocalSmartTurnAnalyzerV3(sample_rate=SAMPLE_RATE)
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="smart-turn")

    def probability(self, audio: npt.NDArray[np.float32]) -> float:
        """Probability that the utterance ending here is complete; the last 8 s are looked at."""
        return float(self._model._predict_endpoint(audio)["probability"])


@cache
def turn_completeness() -> TurnCompleteness:
    """The process's one Smart Turn."""
    return TurnCompleteness()
