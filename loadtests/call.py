"""A caller over the WebSocket: real-time audio up, the agent's audio and messages down, all on one sample clock.

It knows the wire and nothing else of the product. `firstclause talk` and the load tests' callers are made of it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from loadtests.wav import Clip
from loadtests.wire import audio_bytes, message_bytes, parse
from telemetry.recording import CallRecording

FRAME_MS = 20
RECORDING_RATE = 24_000
RTVI_VERSION = "1.0.0"


class CallError(RuntimeError):
    """The call could not be made, or broke off."""


class BusyError(CallError):
    """The application takes no further call now. A retry later may help."""


@dataclass(frozen=True)
class Event:
    """A message of the application, and when it arrived, in seconds of the call."""

    at_s: float
    type: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Said:
    """A clip that the caller spoke, and from when on, in seconds of the call."""

    clip: Clip
    at_s: float


@dataclass
class Call:
    """One open call. Times are seconds since its first sample."""

    socket: ClientConnection
    recording: CallRecording = field(default_factory=lambda: CallRecording(RECORDING_RATE))
    events: list[Event] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    late_frames: int = 0
    sent_frames: int = 0
    closed: bool = False
    _queue: "list[tuple[Clip, asyncio.Event]]" = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _started: float = 0.0
    _tasks: "list[asyncio.Task[None]]" = field(default_factory=list)

    def now_s(self) -> float:
        return time.monotonic() - self._started

    async def say(self, clip: Clip) -> Said:
        """Speak a clip in real time; returns when its last sample was sent."""
        done = asyncio.Event()
        self._queue.append((clip, done))
        await self._until_done(done)
        return self.said[-1]

    async def send(self, type: str, data: dict[str, Any]) -> None:
        """Send an RTVI message."""
        await self._send(message_bytes(type, len(self.events), data))

    async def wait_for(self, wanted: Callable[[Event], bool], timeout_s: float, since: int = 0) -> Event | None:
        """The first event from index `since` on that is wanted, or None after `timeout_s` or a hang-up."""
        deadline = time.monotonic() + timeout_s
        index = since
        while True:
            while index < len(self.events):
                if wanted(self.events[index]):
                    return self.events[index]
                index += 1
            remaining = deadline - time.monotonic()
            if remaining <= 0 or self.closed:
                return None
            self._changed.clear()
            try:
                async with asyncio.timeout(remaining):
                    await self._changed.wait()
            except TimeoutError:
                return None

    async def hang_up(self) -> None:
        """Close the call."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.socket.close()

    async def _until_done(self, done: asyncio.Event) -> None:
        waiter = asyncio.create_task(done.wait())
        await asyncio.wait([waiter, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        if not done.is_set():
            waiter.cancel()
            raise CallError("the application hung up")

    async def _speak(self) -> None:
        """Send a frame every 20 ms, by deadline: silence, or the clip that is due."""
        silence = Clip(np.zeros((16_000 * FRAME_MS // 1000, 1), dtype=np.int16), 16_000)
        silent_message = audio_bytes(silence.samples, silence.rate)
        position, clip, done = 0, silence, None
        for index in range(1, 2**31):
            due = self._started + index * FRAME_MS / 1000
            if done is None and self._queue:
                clip, done = self._queue.pop(0)
                position = 0
                said = Said(clip, (index - 1) * FRAME_MS / 1000)
                self.said.append(said)
                self.recording.say(clip.mono(), said.at_s, clip.rate)
            count = clip.rate * FRAME_MS // 1000
            frame = clip.samples[position : position + count]
            if len(frame) < count:
                frame = np.pad(frame, ((0, count - len(frame)), (0, 0)))
            message = silent_message if done is None else audio_bytes(frame, clip.rate)
            wait_s = due - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            await self._send(message)
            self.late_frames += time.monotonic() - due > FRAME_MS / 1000
            self.sent_frames += 1
            position += count
            if done is not None and position >= len(clip.samples):
                done.set()
                clip, done = silence, None
            if done is None:
                position = 0

    async def _listen(self) -> None:
        try:
            async for data in self.socket:
                at_s = self.now_s()
                heard = parse(data)
                if isinstance(heard, tuple):
                    self.recording.hear(heard[0], at_s, heard[1])
                elif heard is not None:
                    self.events.append(Event(at_s, heard.get("type", ""), heard.get("data") or {}))
                    self._changed.set()
        except ConnectionClosed:
            pass
        finally:
            self.closed = True
            self._changed.set()

    async def _send(self, message: bytes) -> None:
        try:
            await self.socket.send(message)
        except ConnectionClosed as error:
            raise CallError("the application hung up") from error


async def dial(url: str, timeout_s: float = 10) -> Call:
    """Open a call at an application's base URL, or a link to it, and wait until it is ready.

    Raises BusyError, CallError.
    """
    base, asks, link = url.partition("?")  # a signed link opens the call too
    address = base.rstrip("/").replace("http", "ws", 1) + "/voice/ws" + asks + link
    try:
        socket = await connect(address, open_timeout=timeout_s, max_size=2**22, compression=None, proxy=None)
    except InvalidStatus as error:
        body = error.response.body.decode(errors="replace") if error.response.body else ""
        if error.response.status_code == 503:
            raise BusyError(body or "the line is busy") from error
        raise CallError(f"{base} answered {error.response.status_code} {body}".strip()) from error
    except (OSError, TimeoutError, WebSocketException) as error:
        raise CallError(f"nothing answers at {base} ({error or type(error).__name__}); run: firstclause up") from error
    call = Call(socket)
    call._started = time.monotonic()
    call._tasks = [asyncio.create_task(call._listen()), asyncio.create_task(call._speak())]
    await call.send("client-ready", {"version": RTVI_VERSION, "about": {"library": "firstclause"}})
    if await call.wait_for(lambda event: event.type == "bot-ready", timeout_s) is None:
        code = call.socket.close_code
        await call.hang_up()
        if code == websockets.CloseCode.TRY_AGAIN_LATER:
            raise BusyError("the line is busy")
        raise CallError("the application accepted the call and did not become ready")
    return call
