"""pipecat's protobuf serializer for the WebSocket, hardened: what cannot be parsed is refused and the call goes on."""

from google.protobuf.message import DecodeError
from loguru import logger
from pipecat.frames.frames import Frame, InputAudioRawFrame, InputTransportMessageFrame
from pipecat.serializers.protobuf import ProtobufFrameSerializer

RATES = range(8_000, 96_001)
CHANNELS = (1, 2)


class CallSerializer(ProtobufFrameSerializer):
    """Refuses messages that are malformed, too large, or audio in no form that a caller sends."""

    def __init__(self, max_message_bytes: int) -> None:
        super().__init__()
        self._max_message_bytes = max_message_bytes

    async def deserialize(self, data: str | bytes) -> Frame | None:
        """A frame, or None for a message that is refused (the log says why)."""
        problem = self._problem(data)
        if problem is None:
            try:
                frame = await super().deserialize(data)
            except (DecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
                problem = f"malformed ({type(error).__name__})"
            else:
                if isinstance(frame, InputAudioRawFrame):
                    problem = _audio_problem(frame)
                elif frame is not None and not isinstance(frame, InputTransportMessageFrame):
                    problem = f"a client sends no {type(frame).__name__}"
                elif frame is not None and not isinstance(frame.message, dict):
                    problem = "a message that is no JSON object"
                if problem is None:
                    return frame
        logger.warning("refused a WebSocket message: {}", problem)
        return None

    def _problem(self, data: str | bytes) -> str | None:
        if isinstance(data, str):
            return "text; protobuf frames are binary"
        if len(data) > self._max_message_bytes:
            return f"{len(data)} bytes, more than {self._max_message_bytes}"
        return None


def _audio_problem(frame: InputAudioRawFrame) -> str | None:
    if frame.sample_rate not in RATES:
        return f"sample rate {frame.sample_rate}"
    if frame.num_channels not in CHANNELS:
        return f"{frame.num_channels} channels"
    return None
