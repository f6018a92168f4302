"""The bytes of the voice WebSocket: pipecat's protobuf frames, audio and RTVI messages."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
from pipecat.frames.protobufs import frames_pb2

from telemetry.sound import Samples

_PB: Any = frames_pb2
"""Its classes are made at run time: no type checker knows them."""

RTVI_LABEL = "rtvi-ai"


def audio_bytes(samples: npt.NDArray[np.int16], rate: int) -> bytes:
    """Audio, shape (n, channels) or (n,)."""
    channels = samples.shape[1] if samples.ndim == 2 else 1
    audio = _PB.AudioRawFrame(audio=samples.tobytes(), sample_rate=rate, num_channels=channels)
    return bytes(_PB.Frame(audio=audio).SerializeToString())


def message_bytes(type: str, number: int, data: dict[str, Any]) -> bytes:
    """An RTVI message."""
    text = json.dumps({"label": RTVI_LABEL, "type": type, "id": str(number), "data": data})
    return bytes(_PB.Frame(message=_PB.MessageFrame(data=text)).SerializeToString())


def parse(data: bytes | str) -> tuple[Samples, int] | dict[str, Any] | None:
    """Mono samples and their rate, or a message, or None for a frame of another kind."""
    frame = _PB.Frame.FromString(data if isinstance(data, bytes) else data.encode())
    kind = frame.WhichOneof("frame")
    if kind == "audio":
        samples = np.frombuffer(frame.audio.audio, dtype=np.int16)
        if frame.audio.num_channels > 1:
            samples = samples.reshape(-1, frame.audio.num_channels).mean(axis=1).astype(np.int16)
        return samples, int(frame.audio.sample_rate)
    if kind == "message":
        message = json.loads(frame.message.data)
        return message if isinstance(message, dict) else None
    return None
