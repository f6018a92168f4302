"""A scripted voice application on loopback: /voice/ws as the product has it, with known delays, holes and faults.

    python -m loadtests.truth.voice_server --script '{"response_ms": [400, 900]}'

prints its port, then serves until it is ended. It places everything on the caller's own clock: the first frame's place
in time is the earliest that any frame's arrival allows, so a frame that comes late moves nothing.
"""

import argparse
import asyncio
import contextlib
import time
from http import HTTPStatus
from typing import Any

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from loadtests.priority import take_precedence
from loadtests.truth.voice_script import VoiceScript
from loadtests.wire import audio_bytes, message_bytes, parse
from telemetry.sound import WINDOW_MS, Samples, loud_windows

RATE = 24_000
FRAME_MS = 20
CUT_IN_MS = 100
AHEAD_S = 0.1


class ScriptedCall:
    """One caller's agent."""

    def __init__(self, socket: ServerConnection, script: VoiceScript) -> None:
        self._socket, self._script = socket, script
        self._begun_s = float("inf")
        self._received_s = 0.0
        self._heard_from_s: float | None = None
        self._last_loud_s: float | None = None
        self._turn = 0
        self._cut_in_at_s: float | None = None
        self._answer: asyncio.Task[None] | None = None
        self._stop_at_s: float | None = None
        self._echoes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            async for data in self._socket:
                assert isinstance(data, bytes)
                heard = parse(data)
                if isinstance(heard, tuple):
                    await self._hear(*heard, data)
                elif heard is not None and heard["type"] == "client-ready":
                    await self._tell("bot-ready", version="1.0.0")
        except ConnectionClosed:
            pass
        finally:
            for task in (*self._echoes, *([self._answer] if self._answer else [])):
                task.cancel()

    async def _hear(self, samples: Samples, rate: int, data: bytes) -> None:
        if self._script.echo_ms is not None:
            task = asyncio.create_task(self._echo(data, time.monotonic() + self._script.echo_ms / 1000))
            self._echoes.add(task)
            task.add_done_callback(self._echoes.discard)
            return
        begin_s = self._received_s
        self._received_s += len(samples) / rate
        self._begun_s = min(self._begun_s, time.monotonic() - self._received_s)
        for number, loud in enumerate(loud_windows(samples, rate)):
            if loud:
                at_s = begin_s + number * WINDOW_MS / 1000
                if self._heard_from_s is None:
                    self._heard_from_s = at_s
                    self._interrupt()
                self._last_loud_s = at_s + WINDOW_MS / 1000
        if self._last_loud_s is not None and self._heard_from_s is not None:
            await self._after_silence((self._received_s - self._last_loud_s) * 1000)

    async def _after_silence(self, silence_ms: float) -> None:
        script, number = self._script, self._turn + 1
        assert self._last_loud_s is not None
        if script.hits("cut_off", number) and self._cut_in_at_s is None:
            if silence_ms >= CUT_IN_MS:
                self._cut_in_at_s = self._last_loud_s
                self._start(self._last_loud_s + CUT_IN_MS / 1000, ((300.0, 0.0),), number, ends=False)
            return
        goes_on = self._cut_in_at_s is not None and self._last_loud_s <= self._cut_in_at_s
        if silence_ms < script.quiet_ms or goes_on:
            return
        self._heard_from_s, self._turn, self._cut_in_at_s = None, number, None
        if script.hits("hang_up", number):
            await self._socket.close()
            return
        if script.hits("unanswered", number):
            return
        response_ms = script.response_ms[(number - 1) % len(script.response_ms)]
        pieces = script.answer_ms
        if script.hits("double", number):
            pieces = (*pieces[:-1], (pieces[-1][0], 400.0), *script.answer_ms)
        self._start(self._last_loud_s + response_ms / 1000, pieces, number, ends=True)

    def _start(self, at_s: float, pieces: tuple[tuple[float, float], ...], number: int, ends: bool) -> None:
        self._stop_at_s = None
        self._answer = asyncio.create_task(self._say(at_s, pieces, number, ends))

    async def _say(self, at_s: float, pieces: tuple[tuple[float, float], ...], number: int, ends: bool) -> None:
        """Sound from `at_s` of the caller's clock on, each piece by deadline."""
        await self._until(at_s)
        if ends:
            await self._tell("server-message", kind="turn", turn=number, transcript=f"turn {number}", lines_ms={})
        for position, (sound_ms, silence_ms) in enumerate(pieces):
            await self._send_frames(at_s, _tone(sound_ms), begins=position == 0 or not self._script.silent_holes)
            at_s += sound_ms / 1000
            if self._script.silent_holes:
                await self._send_frames(at_s, np.zeros(int(RATE * silence_ms / 1000), dtype=np.int16), begins=False)
            at_s += silence_ms / 1000
            if ends and self._script.hits("double", number) and position + 1 == len(pieces) // 2:
                await self._tell("server-message", kind="reply", turn=number, text="one", interrupted=False)
        if ends:
            await self._tell("server-message", kind="reply", turn=number, text="two", interrupted=False)

    async def _send_frames(self, at_s: float, samples: Samples, begins: bool) -> None:
        """Frames by deadline; all but one that begins a sound a little ahead, as a playing client wants them."""
        size = RATE * FRAME_MS // 1000
        for index in range(0, len(samples), size):
            await self._until(at_s + index / RATE - (0 if begins and index == 0 else AHEAD_S))
            end = index + size
            if self._stop_at_s is not None:
                end = min(end, round((self._stop_at_s - at_s) * RATE))
            if end <= index:
                raise asyncio.CancelledError
            await self._socket.send(audio_bytes(samples[index:end], RATE))

    def _interrupt(self) -> None:
        """The caller talks over the answer: it ends `stop_ms` later, to the sample."""
        if self._heard_from_s is not None and self._stop_at_s is None:
            self._stop_at_s = self._heard_from_s + self._script.stop_ms / 1000

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(self._begun_s + at_s - time.monotonic())

    async def _echo(self, data: bytes, at: float) -> None:
        await asyncio.sleep(at - time.monotonic())
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(data)

    async def _tell(self, type: str, **data: Any) -> None:
        await self._socket.send(message_bytes(type, 0, data))


def _tone(length_ms: float) -> Samples:
    """440 Hz at -12 dBFS, loud from its first window on."""
    at = np.arange(int(RATE * length_ms / 1000)) / RATE
    tone: Samples = (8_000 * np.cos(2 * np.pi * 440 * at)).astype(np.int16)
    return tone


async def serve_script(script: VoiceScript) -> None:
    def gate(socket: ServerConnection, request: Request) -> Response | None:
        if request.path != "/voice/ws":
            return socket.respond(HTTPStatus.OK, "a scripted voice application\n")
        if script.busy:
            return socket.respond(HTTPStatus.SERVICE_UNAVAILABLE, "the line is busy")
        return None

    async def call(socket: ServerConnection) -> None:
        await ScriptedCall(socket, script).run()

    async with serve(call, "127.0.0.1", 0, process_request=gate, compression=None, max_size=2**22) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", type=VoiceScript.model_validate_json, default=VoiceScript())
    take_precedence()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve_script(parser.parse_args().script))


if __name__ == "__main__":
    main()
