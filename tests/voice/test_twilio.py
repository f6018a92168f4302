"""A telephone call in Twilio's media-stream format against the real application: what Twilio would send and hear."""

import asyncio
import audioop
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from loadtests.wav import Clip
from telemetry.sound import loud_windows
from tests.support.calls import PATIENCE_S, Say, understood, words
from tests.support.clips import at
from tests.support.llm import ScriptedLlm
from voice.twilio import TwilioSerializer

pytestmark = pytest.mark.system

RATE, FRAME_MS = 8_000, 20
SID = "MZ0123456789abcdef"
START = {
    "event": "start",
    "sequenceNumber": "1",
    "streamSid": SID,
    "start": {
        "accountSid": "AC0",
        "streamSid": SID,
        "callSid": "CA0",
        "tracks": ["inbound"],
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        "customParameters": {},
    },
}
QUESTION = "How many legs does a spider have?"


class Telephone:
    """Sends a frame every 20 ms, silence or what is said; keeps what it hears and where it was told to clear it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._to_say: list[bytes] = []
        self.heard: list[np.ndarray[Any, np.dtype[np.int16]]] = []
        self.clears = 0

    def say(self, clip: Clip) -> None:
        sound = audioop.lin2ulaw(at(clip, RATE).mono().tobytes(), 2)
        size = RATE * FRAME_MS // 1000
        self._to_say += [sound[i : i + size].ljust(size, b"\xff") for i in range(0, len(sound), size)]

    async def speak(self) -> None:
        begun = time.monotonic()
        for number in range(1, 10**6):
            frame = self._to_say.pop(0) if self._to_say else b"\xff" * (RATE * FRAME_MS // 1000)
            media = {"track": "inbound", "chunk": str(number), "payload": base64.b64encode(frame).decode()}
            await self._socket.send(json.dumps({"event": "media", "streamSid": SID, "media": media}))
            await asyncio.sleep(max(0.0, begun + number * FRAME_MS / 1000 - time.monotonic()))

    async def listen(self) -> None:
        async for data in self._socket:
            message = json.loads(data)
            assert message["streamSid"] == SID
            if message["event"] == "clear":
                self.clears += 1
            else:
                assert message["event"] == "media"
                pcm = audioop.ulaw2lin(base64.b64decode(message["media"]["payload"]), 2)
                self.heard.append(np.frombuffer(pcm, dtype=np.int16))

    def sound(self) -> "np.ndarray[Any, np.dtype[np.int16]]":
        return np.concatenate([np.zeros(0, np.int16), *self.heard])

    async def until_heard(self, seconds: float) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while loud_windows(self.sound(), RATE).sum() < seconds * 100:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@asynccontextmanager
async def telephone(url: str) -> AsyncIterator[Telephone]:
    async with connect(url.replace("http", "ws", 1) + "/voice/twilio", proxy=None) as socket:
        await socket.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
        await socket.send(json.dumps(START))
        phone = Telephone(socket)
        tasks = [asyncio.create_task(phone.speak()), asyncio.create_task(phone.listen())]
        try:
            yield phone
            await socket.send(json.dumps({"event": "stop", "streamSid": SID, "stop": {"callSid": "CA0"}}))
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError, ConnectionClosed):
                    await task


async def test_a_question_by_telephone(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    question, next_one, interruption = say(QUESTION), say("Tell me a story."), say("Stop, please. " + QUESTION)
    async with telephone(voice_url) as phone:
        phone.say(question)
        await phone.until_heard(1.0)
        assert understood(llm.asked[-1][-1]["content"], QUESTION)
        await asyncio.sleep(1.5)
        assert {"answer", "is"} <= set(words(transcribed(phone.sound())))
        llm.reply = " ".join(f"This is sentence number {n} of a long story." for n in ("one", "two", "three", "four"))
        phone.say(next_one)
        async with asyncio.timeout(PATIENCE_S):
            while "story" not in llm.asked[-1][-1]["content"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await phone.until_heard(loud_windows(phone.sound(), RATE).sum() / 100 + 1.0)
        phone.say(interruption)
        async with asyncio.timeout(PATIENCE_S):
            while not phone.clears:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def transcribed(sound: "np.ndarray[Any, np.dtype[np.int16]]") -> str:
    from loadtests.ears import load_ears

    return load_ears()(sound, RATE)


async def test_a_telephone_caller_is_greeted_at_once(greeting_url: str, llm: ScriptedLlm) -> None:
    async with telephone(greeting_url) as phone:
        await phone.until_heard(1.0)
    assert llm.asked == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (["not json"], "no JSON"),
        (["[]"], "no JSON object"),
        ([json.dumps({"event": "connected"})] * 3, "no start among the first 3 messages"),
        ([json.dumps({"event": "start"})], "start"),
        ([json.dumps({"event": "start", "start": {**START["start"], "streamSid": "../etc"}})], "streamSid"),  # type: ignore[dict-item]
        (
            [json.dumps({"event": "start", "start": {"streamSid": SID, "mediaFormat": {"encoding": "opus"}}})],
            "mediaFormat",
        ),
        (["{" + " " * 300_000], "300001 bytes"),
    ],
)
async def test_what_is_no_media_stream_is_told_so(voice_url: str, messages: list[str], problem: str) -> None:
    async with connect(voice_url.replace("http", "ws", 1) + "/voice/twilio", proxy=None) as socket:
        for message in messages:
            await socket.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    assert problem in closed.value.rcvd.reason


@pytest.mark.parametrize(
    "data",
    [
        "not json", "[]", "3", '{"event": "media"}', '{"event": "media", "media": 3}', b"\xff\xfe",
        '{"event": "media", "media": {"payload": "!"}}', '{"event": "media", "media": {"payload": 7}}',
        '{"event": "dtmf", "dtmf": {"digit": "5"}}', '{"event": "mark"}', '{"event": "' + "x" * 5000 + '"}',
    ],
)  # fmt: skip
async def test_a_message_that_is_no_sound_costs_nothing(data: str | bytes) -> None:
    assert await TwilioSerializer(SID, 4096).deserialize(data) is None
