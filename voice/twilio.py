"""Telephone calls as Twilio's media streams: 8 kHz mu-law in JSON over a WebSocket, through pipecat's serializer.

Twilio opens the WebSocket (<Connect><Stream>), says that it is connected, then names the stream; audio follows both
ways. A call ends when either side closes: we never call Twilio, which goes on with the call's next instruction then.
"""

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import WebSocket, WebSocketDisconnect
from loguru import logger
from pipecat.frames.frames import Frame, InputAudioRawFrame
from pipecat.serializers.twilio import TwilioFrameSerializer
from pydantic import BaseModel, Field, ValidationError

START_TIMEOUT_S = 10
MESSAGES_BEFORE_START = 3
Sid = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^\w+$", alias="streamSid")]


class StreamError(ValueError):
    """The other side of a WebSocket speaks no media stream that we can serve."""


class MediaFormat(BaseModel):
    """What Twilio sends: it has one format."""

    encoding: Literal["audio/x-mulaw"]
    sampleRate: Literal[8000]
    channels: Literal[1]


class StreamStart(BaseModel):
    """The `start` of a start message, as far as it matters here."""

    stream_sid: Sid
    mediaFormat: MediaFormat


async def stream_start(websocket: WebSocket, max_message_bytes: int) -> StreamStart:
    """Read an accepted WebSocket up to the message that names its stream. Raises StreamError."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            for _ in range(MESSAGES_BEFORE_START):
                message = _message(await websocket.receive_text(), max_message_bytes)
                if message.get("event") == "start":
                    return StreamStart.model_validate(message.get("start"))
    except TimeoutError as error:
        raise StreamError(f"no start message in {START_TIMEOUT_S} s") from error
    except WebSocketDisconnect as error:
        raise StreamError("it hung up before its start message") from error
    except KeyError as error:
        raise StreamError("binary; media streams are JSON texts") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StreamError(f"start.{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    raise StreamError(f"no start among the first {MESSAGES_BEFORE_START} messages")


class TwilioSerializer(TwilioFrameSerializer):
    """pipecat's, hardened: what cannot be parsed is refused and the call goes on."""

    def __init__(self, stream_sid: str, max_message_bytes: int) -> None:
        super().__init__(stream_sid, params=TwilioFrameSerializer.InputParams(auto_hang_up=False))
        self._max_message_bytes = max_message_bytes

    async def deserialize(self, data: str | bytes) -> Frame | None:
        """An audio frame, or None for what is none; for a message that is refused the log says why."""
        try:
            _message(data, self._max_message_bytes)
            frame = await super().deserialize(data)
        except (StreamError, ValueError, TypeError, AttributeError) as error:
            logger.warning("refused a message of a media stream: {}", error)
            return None
        # A key that is pressed means nothing to the agent.
        return frame if isinstance(frame, InputAudioRawFrame) else None


def _message(data: str | bytes, max_message_bytes: int) -> dict[str, Any]:
    """A message's JSON object. Raises StreamError."""
    if len(data) > max_message_bytes:
        raise StreamError(f"{len(data)} bytes, more than {max_message_bytes}")
    try:
        message = json.loads(data)
    except ValueError as error:
        raise StreamError("no JSON") from error
    if not isinstance(message, dict):
        raise StreamError("no JSON object")
    return message
