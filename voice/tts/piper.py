"""The voice of a replica: one Piper process, all calls' utterances over it, started anew if it dies."""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
from loguru import logger

from configs.voice import Speaking
from telemetry.sound import Samples
from voice.tts.piper_process import END, ERROR, HEADER, READY, SOUND

START_TIMEOUT_S = 60


class SpeechError(RuntimeError):
    """The voice could not say something. A retry may help: the process is started anew."""


class Voice:
    """One Piper process. `sample_rate` is known once `start` returned."""

    sample_rate: int = 0

    def __init__(self, model: Path, config: Speaking) -> None:
        self._model, self._config = model, config
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._listeners: dict[int, asyncio.Queue[Samples | SpeechError | None]] = {}
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start the process and wait until it is warm. Raises SpeechError."""
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            arguments = [str(self._model), str(self._config.length_scale), str(self._config.threads)]
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "voice.tts.piper_process", *arguments,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                cwd=Path(__file__).parents[2],
            )  # fmt: skip
            assert self._process.stdout is not None
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    _, kind, payload = await _read_message(self._process.stdout)
            except (TimeoutError, asyncio.IncompleteReadError) as error:
                raise SpeechError("the Piper process did not start; its error stands above in the log") from error
            assert kind == READY
            self.sample_rate = json.loads(payload)["sample_rate"]
            self._reader = asyncio.create_task(self._read(self._process), name="piper")

    async def say(self, text: str, urgent: bool) -> AsyncIterator[Samples]:
        """The sound of `text`, mono int16 at `sample_rate`, in chunks as they are made. Raises SpeechError.

        `urgent` text goes before the rest: it is a first clause, which somebody waits for. Closing the iterator
        cancels what has not been said yet.
        """
        await self.start()
        number, sounds = next(self._numbers), asyncio.Queue[Samples | SpeechError | None]()
        self._listeners[number] = sounds
        ended = False
        try:
            await self._order({"say": number, "text": text, "urgent": urgent})
            while True:
                sound = await sounds.get()
                if isinstance(sound, SpeechError):
                    ended = True
                    raise sound
                if sound is None:
                    ended = True
                    return
                yield sound
        finally:
            del self._listeners[number]
            if not ended and self._process is not None and self._process.returncode is None:
                await self._order({"cancel": number})

    async def stop(self) -> None:
        """End the process."""
        if self._process is None or self._process.returncode is not None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _order(self, order: dict[str, object]) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise SpeechError("the Piper process died") from error

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while True:
                number, kind, payload = await _read_message(process.stdout)
                listener = self._listeners.get(number)
                if listener is None:
                    continue
                if kind == SOUND:
                    listener.put_nowait(np.frombuffer(payload, dtype=np.int16))
                elif kind == END:
                    listener.put_nowait(None)
                elif kind == ERROR:
                    listener.put_nowait(SpeechError(payload.decode()))
        except asyncio.IncompleteReadError:
            await process.wait()
            if self._listeners:
                logger.error("the Piper process died with code {}", process.returncode)
            for listener in self._listeners.values():
                listener.put_nowait(SpeechError("the Piper process died"))


async def _read_message(stream: asyncio.StreamReader) -> tuple[int, int, bytes]:
    number, kind, length = HEADER.unpack(await stream.readexactly(HEADER.size))
    return number, kind, await stream.readexactly(length)
